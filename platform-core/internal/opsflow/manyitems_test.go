// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// maxObject is what an object may have in the API server's store, with room to spare.
const maxObject = 1 << 20

// manyTasks has five steps of a thousand items that run, one that is skipped, a retry, an approval, and a failure that
// others go on from.
const manyTasks = `name: Many
steps:
  - {name: load, needs: [], forEach: 'ITEMS', parallelism: 20, retry: {limit: 2, backoff: 1s}, TASK}
  - {name: release, needs: [load], approval: {message: go on}}
  - {name: work, needs: [release], forEach: 'ITEMS', parallelism: 20, TASK}
  - {name: check, needs: [release], forEach: 'ITEMS', parallelism: 20, onFailure: FailAtEnd,
      retry: {limit: 1, backoff: 1s}, TASK}
  - {name: never, needs: [check], when: 'tasks.check.phase == "Succeeded"', forEach: 'ITEMS', TASK}
  - {name: mend, needs: [check], when: 'tasks.check.phase == "Failed"', forEach: 'ITEMS', parallelism: 20, TASK}
  - {name: sum, needs: [work, mend], forEach: 'ITEMS', parallelism: 20, TASK}
`

// fleet is an API server in the simulation, with an Operation and its Jobs, and a controller that is killed and that
// reads old versions.
type fleet struct {
	*testing.T
	rng      *rand.Rand
	op       *platformv1.Operation
	versions []*platformv1.Operation
	facts    Facts
	// jobs that are there, by name; how often each was created, also after it was removed; and how often it was looked at.
	jobs            map[string]bool
	created, looked map[string]int
	kills, largest  int
}

func newFleet(t *testing.T, items int) *fleet {
	t.Helper()
	names := make([]string, items)
	for i := range names {
		names[i] = fmt.Sprintf("item-%d", i+1)
	}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("ITEMS", string(list), "TASK", "container: {image: 'example/tool:1', args: ['${each}']}").
		Replace(manyTasks)
	f := &fleet{T: t, rng: rand.New(rand.NewPCG(7, uint64(items))), created: map[string]int{}, looked: map[string]int{},
		jobs: map[string]bool{}}
	f.op = &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "many", UID: "uid"}}
	f.op.Spec.Template, f.op.Spec.Author, f.op.Spec.ServiceAccountName = text, "ada", "worker"
	f.op.Spec.Timeout = &metav1.Duration{Duration: 1000 * time.Hour}
	template, err := optemplate.ParseInline(text)
	if err != nil {
		t.Fatal(err)
	}
	f.facts = Facts{Now: epoch, Template: template, Parameters: map[string]string{}, Lists: map[string][]string{}}
	f.write(Start(f.op, "", f.facts, nil).Status)
	return f
}

// write records a status.
func (f *fleet) write(status platformv1.OperationStatus) {
	f.versions = append(f.versions, f.op)
	f.op = f.op.DeepCopy()
	f.op.Status = *status.DeepCopy()
	data, err := json.Marshal(f.op)
	if err != nil {
		f.Fatal(err)
	}
	f.largest = max(f.largest, len(data))
}

// killed says whether the controller ends here, and counts that.
func (f *fleet) killed() bool {
	if f.rng.IntN(150) > 0 {
		return false
	}
	f.kills++
	return true
}

// bad says whether the pod of a Job fails: the seventh item of load at its first attempt, and the 40th of check always.
func bad(job string) bool { return job == "many-load-7" || strings.HasPrefix(job, "many-check-40") }

// bring does what an effect says about a Job. Pods end when they have been looked at some times.
func (f *fleet) bring(effect *Effect) *Answer {
	job := effect.Job
	if job == nil {
		f.Fatalf("the effect is %+v", effect)
	}
	switch {
	case job.Verb == JobRun && !f.jobs[job.Name]:
		f.jobs[job.Name] = true
		f.created[job.Name]++
		return &Answer{Job: JobState{Phase: platformv1.OperationRunning}}
	case job.Verb == JobRemove || job.Verb == JobStop:
		delete(f.jobs, job.Name)
	}
	f.looked[job.Name]++
	switch {
	case !f.jobs[job.Name]:
		return &Answer{}
	case f.looked[job.Name] <= len(job.Name)%2:
		return &Answer{Job: JobState{Phase: platformv1.OperationRunning}}
	case bad(job.Name):
		return &Answer{Job: JobState{Phase: platformv1.OperationFailed, Message: "no"}}
	}
	return &Answer{Job: JobState{Phase: platformv1.OperationSucceeded}}
}

// reconcile is one, from the present version of the Operation or from one of before.
func (f *fleet) reconcile() {
	f.facts.Now = f.facts.Now.Add(time.Duration(1+f.rng.IntN(2000)) * time.Millisecond)
	f.facts.Answers, f.facts.Lists = map[string]*Answer{}, map[string][]string{}
	stale := f.rng.IntN(20) == 0
	seen := f.op
	if stale {
		seen = f.versions[len(f.versions)-1-f.rng.IntN(min(3, len(f.versions)))]
	}
	if !Running(seen) {
		return
	}
	for {
		d := Next(seen, f.facts)
		if NeedsRecord(seen, d) {
			if stale || f.killed() {
				return // The API server has another version.
			}
			f.write(d.Status)
			seen = f.op
		}
		if d.Effect == nil || f.killed() {
			return
		}
		if !stale && f.rng.IntN(100) == 0 {
			// The time of the turn is over.
			f.write(d.Status)
			return
		}
		f.facts.Answers[d.Effect.Key] = f.bring(d.Effect)
		if f.killed() {
			return
		}
	}
}

// MANY_ITEMS=1000 has it be 5,000 tasks that run.
func TestManyTasksEndAsTheModelSays(t *testing.T) {
	items := 100
	if text := os.Getenv("MANY_ITEMS"); text != "" {
		var err error
		if items, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	f := newFleet(t, items)
	for reconciles := 0; !Finished(f.op); reconciles++ {
		if reconciles > 20000 {
			t.Fatalf("it is not done: %+v", f.op.Status)
		}
		if f.op.Status.Phase == platformv1.OperationAwaitingApproval {
			f.op = f.op.DeepCopy()
			f.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
		}
		f.reconcile()
	}
	var got []string
	for _, step := range f.op.Status.Steps {
		text := fmt.Sprintf("%s=%s/%d", step.Name, step.Phase, step.Attempts)
		if step.Items != nil && step.Phase == platformv1.OperationSucceeded {
			text += fmt.Sprintf("/%d/%d/%s/%d", step.Items.Succeeded, step.Items.Total, step.Items.Done, len(step.Targets))
		}
		got = append(got, text)
	}
	whole := fmt.Sprintf("/%d/%d/1-%d/0", items, items, items)
	want := "load=Succeeded/2" + whole + " release=Succeeded/1 work=Succeeded/1" + whole +
		" check=Failed/2 never=Skipped/0 mend=Succeeded/1" + whole + " sum=Succeeded/1" + whole
	if text := strings.Join(got, " "); text != want || f.op.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(f.op.Status.Error, `step "check" failed: job many-check-40-try2 failed: no`) {
		t.Errorf("it ended as %s\nwith %s\nwant     %s", f.op.Status.Phase, text, want)
	}
	for name, n := range f.created {
		if n != 1 {
			t.Errorf("Job %s was created %d times", name, n)
		}
	}
	for _, step := range []string{"load", "work", "mend", "sum"} {
		for i := 1; i <= items; i++ {
			first := f.created[fmt.Sprintf("many-%s-%d", step, i)] + f.created[fmt.Sprintf("many-%s-%d-try2", step, i)]
			if again := step == "load" && i <= 40; first == 0 || first > 1 && !again {
				t.Errorf("item %d of %s has %d Jobs", i, step, first)
			}
		}
	}
	if f.kills < items/20 || f.largest > maxObject {
		t.Errorf("it was killed %d times, and the largest version has %d bytes", f.kills, f.largest)
	}
	t.Logf("killed %d times, %d versions, the largest has %d bytes", f.kills, len(f.versions), f.largest)
}

// However long items and messages are, and however many are under way in how many steps, the record stays small.
func TestRecordOfManyStepsAndLongItemsIsSmall(t *testing.T) {
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("%03d%s", i, strings.Repeat("x", 250))
	}
	text := strings.Builder{}
	text.WriteString("name: Many\nsteps:\n")
	for i := range 80 {
		fmt.Fprintf(&text, "  - {name: s%d, needs: [], forEach: 'parameters.all.split(\",\")', parallelism: 100, "+
			"onFailure: Continue, container: {image: i, args: ['${each}']}}\n", i)
	}
	text.WriteString("parameters: {all: {schema: string}}\n")
	template, err := optemplate.ParseInline(text.String())
	if err != nil {
		t.Fatal(err)
	}
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strings.Repeat("n", 50),
		UID: "uid"}}
	op.Spec.Template = text.String()
	facts := Facts{Now: epoch, Template: template, Parameters: map[string]string{"all": strings.Join(names, ",")},
		Answers: map[string]*Answer{}, Lists: map[string][]string{}}
	d := Start(op, "", facts, nil)
	running := 0
	for _, step := range d.Status.Steps {
		running += len(step.Targets)
	}
	data, err := json.Marshal(d.Status)
	if err != nil || len(data) > maxObject/2 || running != maxUnderWay {
		t.Errorf("%d items are under way, and the record has %d bytes: %v", running, len(data), err)
	}
}
