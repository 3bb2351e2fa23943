// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1api "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// maxObject is how many bytes an object may have as JSON, in any of its versions.
	maxObject = 1 << 20
	// mostLate is how late what watches say can be.
	mostLate = 1500 * time.Millisecond
	// resumes is how long after a kill the next Job has to be there, where time is measured.
	resumes = time.Minute
)

// follow calls seen with each event of the objects of a kind in the namespace until the test ends.
func (b *bench) follow(list client.ObjectList, seen func(watch.Event)) {
	b.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err == nil {
		err = c.List(b.Context(), list, client.InNamespace(b.namespace))
	}
	if err != nil {
		b.Fatal(err)
	}
	from := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, client.InNamespace(b.namespace), &client.ListOptions{Raw: &o})
		}}
	w, err := toolswatch.NewRetryWatcherWithContext(b.Context(), list.GetResourceVersion(), from)
	if err != nil {
		b.Fatal(err)
	}
	var told sync.WaitGroup
	told.Go(func() {
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				b.Errorf("the watch of %T ends: %v", list, e.Object)
				return
			}
			seen(e)
		}
	})
	b.Cleanup(func() {
		w.Stop()
		told.Wait()
	})
}

// fleet plays the nodes for one run, has the operator be killed, and notes what the API server tells.
type fleet struct {
	*bench
	model  []modelTask
	rng    *rand.Rand
	way    *testkit.Transport
	toEnd  chan *batchv1api.Job
	person client.Client

	mu sync.Mutex
	// operator that runs, and after how many more writes it is killed.
	operator *process
	left     int
	// killed is when it was, and lost the same once the next one has started, until that creates a Job.
	killed, lost time.Time
	kills        int
	resumed      []time.Duration
	// news counts events.
	news int
	run  *batchv1.Workflow
	// created are the UIDs of the Jobs that were, by name.
	created map[string][]types.UID
	// largest object in bytes, and how many versions there were, by kind.
	largest, versions map[string]int
}

func newFleet(t *testing.T, model []modelTask) *fleet {
	f := &fleet{
		bench: newBench(t), model: model, rng: rand.New(rand.NewPCG(24, uint64(len(model)))), way: &testkit.Transport{},
		toEnd: make(chan *batchv1api.Job, maxItems), created: map[string][]types.UID{},
		largest: map[string]int{}, versions: map[string]int{},
	}
	f.person = f.bench.person("bob")
	f.follow(&batchv1api.JobList{}, f.seeJob)
	f.follow(&batchv1.WorkflowList{}, func(e watch.Event) {
		f.measure("Workflow", e.Object)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.run = e.Object.(*batchv1.Workflow)
	})
	f.follow(&platformv1.OperationList{}, func(e watch.Event) { f.measure("Operation", e.Object) })
	for range benchWorkers {
		go f.end()
	}
	f.way.After(f.countdown)
	return f
}

// maxItems is more than any run has Jobs.
const maxItems = 1 << 14

// seeJob notes a Job that was created, and has its pod end.
func (f *fleet) seeJob(e watch.Event) {
	job := e.Object.(*batchv1api.Job)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.news++
	switch e.Type {
	case watch.Added:
		f.created[job.Name] = append(f.created[job.Name], job.UID)
		if !f.lost.IsZero() {
			f.resumed = append(f.resumed, time.Since(f.lost))
			f.lost = time.Time{}
		}
		f.toEnd <- job
	case watch.Deleted:
		f.Errorf("Job %q was deleted", job.Name)
	}
}

// measure notes how large an object is.
func (f *fleet) measure(kind string, object any) {
	data, err := json.Marshal(object)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.Error(err)
	}
	f.news++
	f.versions[kind]++
	f.largest[kind] = max(f.largest[kind], len(data))
}

// end has the pods of Jobs end as the model says.
func (f *fleet) end() {
	for {
		select {
		case <-f.Context().Done():
			return
		case job := <-f.toEnd:
			as := batchv1api.JobComplete
			if of, err := parse(job.Labels[platformv1.OperationLabel], job.Name); err != nil {
				f.Error(err)
			} else if fails(f.model, of) {
				as = batchv1api.JobFailed
			}
			if err := env.EndJob(f.Context(), job, as); err != nil && f.Context().Err() == nil {
				f.Errorf("cannot end Job %q: %v", job.Name, err)
			}
		}
	}
}

// countdown kills the operator when it has written as often as was chosen, before it hears of the last write.
func (f *fleet) countdown(r *http.Request, status int) {
	switch testkit.ResourceOf(r) {
	case "jobs", "operations", "workflows", "configmaps":
	default:
		return
	}
	if r.Method == http.MethodGet || status >= http.StatusBadRequest {
		return
	}
	f.mu.Lock()
	f.left--
	operator, due := f.operator, f.left == 0
	if due {
		f.killed = time.Now()
		f.kills++
	}
	f.mu.Unlock()
	if due {
		operator.die()
	}
}

// start runs another operator, whose watches are late by another time and which is killed after at most so many writes.
func (f *fleet) start(account *testkit.Operator, most int) {
	f.Helper()
	f.way.Delay(time.Duration(f.rng.Int64N(int64(mostLate))), "workflows", "operations", "jobs")
	f.mu.Lock()
	f.left, f.lost = 1+f.rng.IntN(most), f.killed
	f.mu.Unlock()
	operator := startAs(f, account)
	f.mu.Lock()
	f.operator = operator
	f.mu.Unlock()
}

// state is the run, and how many events there were.
func (f *fleet) state() (run *batchv1.Workflow, news int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run, f.news
}

// approve approves a run that waits for it.
func (f *fleet) approve(run *batchv1.Workflow) {
	f.Helper()
	if run.Status.Phase != batchv1.WorkflowAwaitingApproval {
		return
	}
	op := &platformv1.Operation{}
	err := env.Client.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: run.Status.Operation}, op)
	if err == nil && op.Spec.Approval == nil {
		before := op.DeepCopy()
		op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
		err = f.person.Patch(f.Context(), op, client.MergeFrom(before))
	}
	if err != nil {
		f.Fatal(err)
	}
}

// live goes on until the run has ended. Operators are killed all along; every tenth leaves its lease where leaves is
// true. It fails when nothing happens any more.
func (f *fleet) live(account *testkit.Operator, most int, leaves bool) {
	f.Helper()
	for {
		run, news := f.state()
		if run != nil && finished(&run.Status) {
			return
		}
		if run != nil {
			f.approve(run)
		}
		testkit.Eventually(f, "something to happen", func(context.Context) error {
			select {
			case <-f.operator.ended:
				return nil
			default:
			}
			if now, count := f.state(); count == news && now != nil {
				return fmt.Errorf("after %d events it says %+v", count, now.Status)
			}
			return nil
		})
		select {
		case <-f.operator.ended:
			if !leaves || f.kills%10 > 0 {
				f.operator.kill()
			}
			f.start(account, most)
		default:
		}
	}
}

// A Workflow with fan-out, conditions, an approval, retries and a failure ends as a model says that shares no code with
// the product, although the operator is killed right after writes, chosen by chance, and its caches are late. Each
// attempt has one Job, and no object outgrows the store.
//
// WORKFLOW_ITEMS=1000 WORKFLOW_KILLS=50 has it be 5,000 tasks.
func TestManyTasksEndAsTheModelSays(t *testing.T) {
	items, kills := size(t, "WORKFLOW_ITEMS", 20), size(t, "WORKFLOW_KILLS", 2)
	long := os.Getenv("WORKFLOW_KILLS") != ""
	model := modelOf(items)
	want := play(model)
	f := newFleet(t, model)
	account, begun := through(t, f.way), time.Now()
	// Each Job is a write, and there are others.
	most := 3 * want.jobs / (2 * kills)
	f.start(account, most)
	f.bench.run("many", manyTasksOf(items, min(items/2, 100)))
	f.live(account, most, long)

	run, _ := f.state()
	f.mu.Lock()
	defer f.mu.Unlock()
	var got []string
	for _, task := range run.Status.Tasks {
		got = append(got, fmt.Sprintf("%s=%s/%d/%s", task.Name, task.Phase, task.Attempts, task.Items))
	}
	failure := fmt.Sprintf(`task "check" failed: job %s-check-%d-try2 failed`, run.Status.Operation, items)
	if text := strings.Join(got, " "); text != want.tasks || run.Status.Phase != batchv1.WorkflowFailed ||
		run.Status.Progress != fmt.Sprintf("%d/%d", len(model), len(model)) ||
		!strings.Contains(run.Status.Message, failure) {
		t.Errorf("it ended as %s %s, %q, with\n%s, want\n%s", run.Status.Phase, run.Status.Progress, run.Status.Message, text,
			want.tasks)
	}
	created := map[jobOf]int{}
	for name, uids := range f.created {
		job, err := parse(run.Status.Operation, name)
		if err != nil {
			t.Error(err)
		}
		created[job] += len(uids)
	}
	twice, wrong := want.check(created)
	if len(wrong) > 0 {
		t.Errorf("%d Jobs are not as the model says: %s", len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "; "))
	}
	for kind, bytes := range f.largest {
		if bytes > maxObject {
			t.Errorf("a %s has %d bytes", kind, bytes)
		}
	}
	slices.Sort(f.resumed)
	if f.kills < kills || len(f.resumed) == 0 || long && f.resumed[len(f.resumed)-1] > resumes {
		t.Errorf("it was killed %d times, and went on after %v", f.kills, f.resumed)
	}
	_, again := f.way.Writes("jobs")
	t.Logf("%d tasks in %s: killed %d times, the next Job after %s at the median and %s at most; %d Jobs, of %d items in "+
		"two attempts; %d creations were refused as there already; largest Operation %d bytes of %d versions, "+
		"Workflow %d of %d",
		want.jobs, time.Since(begun).Round(time.Second), f.kills, f.resumed[len(f.resumed)/2].Round(time.Millisecond),
		f.resumed[len(f.resumed)-1].Round(time.Millisecond), len(f.created), twice, again, f.largest["Operation"],
		f.versions["Operation"], f.largest["Workflow"], f.versions["Workflow"])
}
