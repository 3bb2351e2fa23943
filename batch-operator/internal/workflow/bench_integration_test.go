// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1api "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// benchWorkers is how many objects are created, and how many Jobs are ended, at a time.
	benchWorkers = 16
	// benchPatience is how long all of them together may take.
	benchPatience = 30 * time.Minute
)

// size reads how many objects a bench or a test makes.
func size(b testing.TB, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s is %q and no number", variable, text)
	}
	return n
}

// observe calls seen with each object of a kind in the namespace that comes or changes, until it says that this is all.
func (b *bench) observe(ctx context.Context, list client.ObjectList, seen func(obj client.Object) (all bool)) {
	b.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	for version := ""; ; {
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
		w, err := c.Watch(ctx, list, client.InNamespace(b.namespace), from)
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return
		}
		for e := range w.ResultChan() {
			obj, ok := e.Object.(client.Object)
			if !ok {
				b.Errorf("the watch ends: %v", e.Object)
				return
			}
			version = obj.GetResourceVersion()
			if seen(obj) {
				w.Stop()
				return
			}
		}
		if ctx.Err() != nil {
			b.Error("not all of it came in time")
			return
		}
	}
}

// playJobs has each Job of the namespace succeed as soon as it is there: nodes that take no time.
func (b *bench) playJobs(ctx context.Context) {
	jobs := make(chan *batchv1api.Job, 1<<16)
	for range benchWorkers {
		go func() {
			for job := range jobs {
				if err := env.EndJob(ctx, job, batchv1api.JobComplete); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
					b.Errorf("cannot end the Job %q: %v", job.Name, err)
				}
			}
		}()
	}
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	w, err := c.Watch(ctx, &batchv1api.JobList{}, client.InNamespace(b.namespace))
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		defer close(jobs)
		for e := range w.ResultChan() {
			if job, ok := e.Object.(*batchv1api.Job); ok && e.Type == watch.Added {
				jobs <- job
			}
		}
	}()
}

// createAll creates n objects side by side.
func (b *bench) createAll(n int, object func(n int) client.Object) {
	b.Helper()
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i
	}
	close(numbers)
	var workers sync.WaitGroup
	for range benchWorkers {
		workers.Go(func() {
			for i := range numbers {
				if err := env.Client.Create(b.Context(), object(i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// costs is what an operator and the API server have done so far.
type costs struct {
	// writes by resource.
	writes map[string]int
	cpu    time.Duration
}

// writesSince returns the writes of each of n objects since then, by resource, and in all.
func (c costs) writesSince(then costs, n int) (by map[string]float64, all float64) {
	by = map[string]float64{}
	for resource, count := range c.writes {
		if each := float64(count-then.writes[resource]) / float64(n); each > 0 {
			by[resource] = each
			all += each
		}
	}
	return by, all
}

// cost reads what the operator of a process has cost.
func (b *bench) cost(pid int) costs {
	b.Helper()
	served, err := env.ServedWrites(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return costs{cpu: cpuOf(b, pid), writes: served}
}

// ticksPerSecond is the unit of times in /proc/PID/stat on all architectures that Linux serves Go on.
const ticksPerSecond = 100

// cpuOf reads how long a process has computed.
func cpuOf(b testing.TB, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The name of the program, which may have blanks, ends with a parenthesis; the times are fields 14 and 15.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields, ticks := strings.Fields(rest), 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// peakOf reads the most memory that a process has had, in MiB.
func peakOf(b testing.TB, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}

// figures are what a bench has found; the program bench reads them by these names.
type figures struct {
	Objects         int                `json:"objects"`
	Minutes         int                `json:"minutes,omitempty"`
	Seconds         float64            `json:"seconds,omitempty"`
	Ended           []float64          `json:"ended,omitempty"`
	Took            []float64          `json:"took"`
	Writes          float64            `json:"writes"`
	Resources       map[string]float64 `json:"resources"`
	CPUMilliseconds float64            `json:"cpuMilliseconds"`
	PeakMiB         float64            `json:"peakMiB"`
}

// percentiles returns the seconds that 0, 1, 2, … 100 percent are not above.
func percentiles(all []time.Duration) []float64 {
	slices.Sort(all)
	points := make([]float64, 101)
	for percent := range points {
		points[percent] = all[max((percent*len(all)+99)/100, 1)-1].Seconds()
	}
	return points
}

// report tells the figures, whose objects are called so, and writes them to the file that BENCH_RESULT names.
func (f figures) report(b *testing.B, object string) {
	b.Helper()
	b.ReportMetric(f.Took[99], "s-p99")
	b.ReportMetric(f.Writes, "writes/"+object)
	b.ReportMetric(f.CPUMilliseconds, "cpu-ms/"+object)
	b.ReportMetric(f.PeakMiB, "MiB-peak")
	path := os.Getenv("BENCH_RESULT")
	if path == "" {
		return
	}
	data, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// It is run by make bench-workflows: how many Workflows of one pod end in a minute where pods take no time, what each
// costs, and the memory of the operator.
func BenchmarkWorkflows(test *testing.B) {
	n := size(test, "BENCH_WORKFLOWS", 200)
	for range test.N {
		b := newBench(test)
		ctx, cancel := context.WithTimeout(test.Context(), benchPatience)
		pid, kill := start(test)
		warm := b.run("warm", "tasks: [{name: a, script: {image: 'example/tool:1', source: 'true'}}]")
		b.playJobs(ctx)
		b.reaches(warm, batchv1.WorkflowSucceeded, "")
		before, begin, created := b.cost(pid), time.Now(), sync.Map{}
		go b.createAll(n, func(i int) client.Object {
			wf := b.workflow(fmt.Sprintf("run-%05d", i), "tasks: [{name: a, script: {image: 'example/tool:1', source: 'true'}}]")
			wf.Spec.ServiceAccountName = "worker"
			created.Store(wf.Name, time.Now())
			return wf
		})
		took, ended := map[string]time.Duration{}, []time.Duration{}
		b.observe(ctx, &batchv1.WorkflowList{}, func(obj client.Object) bool {
			wf := obj.(*batchv1.Workflow)
			at, ours := created.Load(wf.Name)
			if _, known := took[wf.Name]; ours && !known && finished(&wf.Status) {
				ended = append(ended, time.Since(begin))
				if took[wf.Name] = time.Since(at.(time.Time)); wf.Status.Phase != batchv1.WorkflowSucceeded {
					b.Errorf("%s ended as %s: %s", wf.Name, wf.Status.Phase, wf.Status.Message)
				}
			}
			return len(took) == n
		})
		if len(took) < n {
			test.Fatalf("%d of %d ended", len(took), n)
		}
		after, seconds := b.cost(pid), ended[n-1].Seconds()
		resources, writes := after.writesSince(before, n)
		test.ReportMetric(60*float64(n)/seconds, "workflows/min")
		figures{
			Objects: n, Seconds: seconds, Ended: percentiles(ended), Took: percentiles(slices.Collect(maps.Values(took))),
			// Two are the test's own: it creates the Workflow and ends the Job.
			Writes: writes - 2, Resources: resources,
			CPUMilliseconds: float64((after.cpu - before.cpu).Milliseconds()) / float64(n),
			PeakMiB:         peakOf(test, pid),
		}.report(test, "workflow")
		kill()
		cancel()
	}
}

// It is run by make bench-cronjobs: how late runs of CronJobs are made that are all due in one minute, or in as many as
// BENCH_MINUTES says, spread over the seconds, what each costs, and the memory of the operator.
func BenchmarkCronJobs(test *testing.B) {
	n, minutes := size(test, "BENCH_CRONJOBS", 500), size(test, "BENCH_MINUTES", 1)
	for range test.N {
		b := newBench(test)
		pid, kill := start(test)
		// The minute is far enough away for the operator to have read all of them before.
		due := time.Now().UTC().Truncate(time.Minute).Add(time.Duration(2+n/4000) * time.Minute)
		b.createAll(n, func(i int) client.Object { return b.due(i, due.Add(time.Duration(i%minutes)*time.Minute)) })
		if left := time.Until(due); left < 0 {
			test.Fatalf("they were created %s too late", -left)
		}
		// What it takes to read them, and their first status, is not part of a run.
		<-time.After(time.Until(due.Add(-time.Second)))
		ctx, cancel := context.WithTimeout(test.Context(), benchPatience)
		before, late := b.cost(pid), map[string]time.Duration{}
		b.observe(ctx, &platformv1.OperationList{}, func(obj client.Object) bool {
			at, err := time.Parse(time.RFC3339, obj.GetAnnotations()[platformv1.ScheduledForAnnotation])
			if _, known := late[obj.GetName()]; err == nil && !known {
				late[obj.GetName()] = time.Since(at)
			}
			return len(late) == n
		})
		if len(late) < n {
			test.Fatalf("%d of %d runs were created", len(late), n)
		}
		after := b.cost(pid)
		resources, writes := after.writesSince(before, n)
		figures{
			Objects: n, Minutes: minutes, Took: percentiles(slices.Collect(maps.Values(late))),
			Writes: writes, Resources: resources,
			CPUMilliseconds: float64((after.cpu - before.cpu).Milliseconds()) / float64(n),
			PeakMiB:         peakOf(test, pid),
		}.report(test, "run")
		kill()
		cancel()
	}
}

// due is a CronJob that in this minute makes a call which nobody answers.
func (b *bench) due(i int, minute time.Time) *batchv1.CronJob {
	line := fmt.Sprintf("H %d %d * * *", minute.Minute(), minute.Hour())
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: fmt.Sprintf("due-%05d", i)}}
	cj.Spec = batchv1.CronJobSpec{Schedules: []string{line}, TimeZone: "UTC"}
	cj.Spec.Task.HTTP = &batchv1.HTTPTask{URL: "http://127.0.0.1:1/"}
	return cj
}
