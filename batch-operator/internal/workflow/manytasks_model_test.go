// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// manyTasks has five tasks that go through a list, one of them with an item that is tried again and one with an item
// that fails for good, conditions on phases and on a parameter, and an approval. FAN stands for the list, and TASK for
// what each item does.
const manyTasks = `
parameters: [{name: mode, default: fast}]
tasks:
  - {name: load, FAN, retry: {limit: 2, backoff: 1s}, TASK}
  - {name: release, dependsOn: [{name: load}], approval: {reason: go on}}
  - {name: work, dependsOn: [{name: release}], FAN, TASK}
  - {name: check, dependsOn: [{name: release}], FAN, retry: {limit: 1, backoff: 1s}, TASK}
  - {name: never, dependsOn: [{name: check, phases: [Finished]}], when: 'tasks.check.phase == "Succeeded"', FAN, TASK}
  - {name: mend, dependsOn: [{name: check, phases: [Failed]}], FAN, TASK}
  - {name: slow, dependsOn: [{name: work}], when: 'parameters.mode == "slow"', http: {url: 'http://nowhere.example/'}}
  - name: sum
    dependsOn: [{name: work}, {name: mend}, {name: slow, phases: [Skipped]}]
    when: 'parameters.mode == "fast"'
    FAN
    TASK
onExit:
  - name: alarm
    after: Failed
    apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: alarm}}'}
`

// manyTasksOf is the spec with so many items in each list.
func manyTasksOf(items, parallelism int) string {
	list := make([]string, items)
	for i := range list {
		list[i] = strconv.Quote(strconv.Itoa(i + 1))
	}
	fan := fmt.Sprintf("forEach: {items: [%s], parallelism: %d}", strings.Join(list, ","), parallelism)
	return strings.NewReplacer("FAN", fan, "TASK", "container: {image: 'example/tool:1', args: ['${each}']}").
		Replace(manyTasks)
}

// modelTask is what the model knows of a task. It shares no code with the product.
type modelTask struct {
	name string
	// runs says whether it is not skipped, from the phases of those before.
	runs func(phase map[string]string) bool
	// items that it goes through; 0 for a task without a list.
	items int
	// bad is the number of the item that fails, in so many attempts, of which there are at most tries.
	bad, fails, tries int
}

// modelOf is the model of manyTasks.
func modelOf(items int) []modelTask {
	always := func(map[string]string) bool { return true }
	after := func(name, phase string) func(map[string]string) bool {
		return func(all map[string]string) bool { return all[name] == phase }
	}
	return []modelTask{
		{name: "load", runs: always, items: items, bad: 7, fails: 1, tries: 3},
		{name: "release", runs: after("load", "Succeeded"), tries: 1},
		{name: "work", runs: after("release", "Succeeded"), items: items, tries: 1},
		{name: "check", runs: after("release", "Succeeded"), items: items, bad: items, fails: 2, tries: 2},
		{name: "never", runs: after("check", "Succeeded"), items: items, tries: 1},
		{name: "mend", runs: after("check", "Failed"), items: items, tries: 1},
		{name: "slow", runs: func(map[string]string) bool { return false }, tries: 1},
		{name: "sum", runs: func(all map[string]string) bool {
			return all["work"] == "Succeeded" && all["mend"] == "Succeeded" && all["slow"] == "Skipped"
		}, items: items, tries: 1},
		{name: "alarm", runs: func(all map[string]string) bool { return all["check"] == "Failed" }, tries: 1},
	}
}

// modelItem is an item of a task: the attempts that have to have a Job, and those of which at least one has.
type modelItem struct{ has, one []int }

// expected is how a run has to end.
type expected struct {
	// tasks are the phase, attempts and items of each task, as a text.
	tasks string
	// items by task and number.
	items map[string]map[int]modelItem
	jobs  int
}

// play has the model run.
func play(model []modelTask) expected {
	e := expected{items: map[string]map[int]modelItem{}}
	phases := map[string]string{}
	var said []string
	for _, t := range model {
		if !t.runs(phases) {
			phases[t.name] = "Skipped"
			said = append(said, t.name+"=Skipped/0/")
			continue
		}
		phases[t.name] = "Succeeded"
		attempts, succeeded := min(t.fails+1, t.tries), t.items
		if t.fails >= t.tries {
			phases[t.name] = "Failed"
			succeeded--
		}
		text := fmt.Sprintf("%s=%s/%d/", t.name, phases[t.name], attempts)
		if t.items > 0 {
			text += fmt.Sprintf("%d/%d", succeeded, t.items)
			e.items[t.name] = map[int]modelItem{}
		}
		said = append(said, text)
		for number := 1; number <= t.items; number++ {
			item := modelItem{one: []int{1}}
			switch {
			case number == t.bad:
				item = modelItem{has: slices.Collect(upTo(attempts))}
			case t.bad > 0 && number > t.bad:
				// It may not have begun by the time that the other one failed.
				item.one = slices.Collect(upTo(attempts))
			}
			e.items[t.name][number] = item
			e.jobs += max(len(item.has), 1)
		}
	}
	e.tasks = strings.Join(said, " ")
	return e
}

// upTo yields the numbers from 1 to another.
func upTo(last int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for n := 1; n <= last && yield(n); n++ {
		}
	}
}

// check compares what was created with what the model says: how many Jobs there were of each task, number and attempt.
// It returns how many items had a Job in more attempts than one although none had failed: a controller was killed
// after it had created a Job, and before that was on record.
func (e expected) check(created map[jobOf]int) (twice int, wrong []string) {
	for task, items := range e.items {
		for number, item := range items {
			ran := 0
			for _, attempt := range item.has {
				if created[jobOf{task, number, attempt}] == 0 {
					wrong = append(wrong, fmt.Sprintf("item %d of %s has no Job in attempt %d", number, task, attempt))
				}
			}
			for _, attempt := range item.one {
				ran += min(created[jobOf{task, number, attempt}], 1)
			}
			if len(item.one) > 0 && ran == 0 {
				wrong = append(wrong, fmt.Sprintf("item %d of %s has no Job", number, task))
			}
			twice += max(ran-1, 0)
		}
	}
	for job, n := range created {
		item, known := e.items[job.task][job.number]
		if !known || !slices.Contains(append(slices.Clone(item.has), item.one...), job.attempt) {
			wrong = append(wrong, fmt.Sprintf("there is a Job of %+v", job))
		}
		if n != 1 {
			wrong = append(wrong, fmt.Sprintf("the Job of %+v was created %d times", job, n))
		}
	}
	return twice, wrong
}

// jobOf is the Job of an attempt of an item.
type jobOf struct {
	task            string
	number, attempt int
}

// parse reads the name of a Job of a run.
func parse(run, name string) (jobOf, error) {
	job := jobOf{attempt: 1}
	parts := strings.Split(strings.TrimPrefix(name, run+"-"), "-")
	if len(parts) == 3 {
		n, err := strconv.Atoi(strings.TrimPrefix(parts[2], "try"))
		if err != nil {
			return job, err
		}
		job.attempt, parts = n, parts[:2]
	}
	if len(parts) != 2 {
		return job, fmt.Errorf("%q is the name of no Job of a run", name)
	}
	var err error
	job.task = parts[0]
	job.number, err = strconv.Atoi(parts[1])
	return job, err
}

// fails says whether the pod of an attempt fails.
func fails(model []modelTask, job jobOf) bool {
	return slices.ContainsFunc(model, func(t modelTask) bool {
		return t.name == job.task && t.bad == job.number && job.attempt <= t.fails
	})
}
