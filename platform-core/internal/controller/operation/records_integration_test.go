// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// reads counts how Operations are read.
type reads struct {
	next http.RoundTripper

	mu sync.Mutex
	// whole are lists of whole Operations, one by one those that were read by name, brief the lists of metadata.
	whole, single, brief int
}

// RoundTrip implements http.RoundTripper.
func (r *reads) RoundTrip(request *http.Request) (*http.Response, error) {
	path, query := request.URL.Path, request.URL.Query()
	if i := strings.Index(path, "/operations"); i >= 0 && request.Method == http.MethodGet && query.Get("watch") == "" {
		r.mu.Lock()
		switch {
		case path[i:] != "/operations":
			r.single++
		case strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList"):
			r.brief++
		default:
			r.whole++
		}
		r.mu.Unlock()
	}
	return r.next.RoundTrip(request)
}

// maxTurns is how many turns a controller may take for one Operation, however many records there are.
const maxTurns = 60

// page is how many records an operator lists at a time.
const page = 500

// wantFew checks what was read beside so many records by a controller that ran some Operations on the one Application
// since its start: the cache's list of whole ones, the metadata of all once, page by page, and a few by name for each.
func (r *reads) wantFew(t testing.TB, records, operations int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if pages := (records+operations-1)/page + 1; r.whole > 1 || r.single > 3*operations || r.brief != pages {
		t.Errorf("beside %d records it listed whole Operations %d times, read %d by name, and listed metadata %d times; "+
			"want the cache's list only, a few, and %d pages",
			records, r.whole, r.single, r.brief, pages)
	}
}

// counted returns the configuration of a client whose reads are counted.
func counted(config *rest.Config) (*rest.Config, *reads) {
	counting := &reads{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counting.next = next
		return counting
	})
	return config, counting
}

// recorded makes Operations that ended long ago, several at a time.
func (f *fixture) recorded(count int) {
	f.t.Helper()
	const workers = 16
	numbers := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for number := range numbers {
				if err := f.record(number); err != nil {
					f.t.Error(err)
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	group.Wait()
}

func (f *fixture) record(number int) error {
	at := metav1.NewTime(time.Unix(1e9+int64(number), 0))
	op := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: fmt.Sprintf("old-%05d", number), Labels: f.labels(nil)},
		Spec: platformv1.OperationSpec{TemplateRef: "Restart", Parameters: platformv1.Parameters{},
			TargetRef: platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis", Name: "a"}},
	}
	if err := env.Client.Create(context.Background(), op); err != nil {
		return err
	}
	step := platformv1.StepStatus{Name: "restart", Phase: platformv1.OperationSucceeded, Attempts: 1, StartTime: &at,
		CompletionTime: &at}
	for ordinal := range 3 {
		step.Targets = append(step.Targets,
			platformv1.StepTarget{Name: podName(ordinal), UID: "b7a1c0de-0000-4000-8000-000000000000",
				Phase: platformv1.OperationSucceeded})
	}
	op.Status = platformv1.OperationStatus{
		ObservedGeneration: 1, Phase: platformv1.OperationSucceeded, Application: "redis-a", Trigger: platformv1.TriggerUser,
		StartTime: &at, CompletionTime: &at,
		CurrentStep: 1, Progress: "1/1", Steps: []platformv1.StepStatus{step},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready",
			Message: "every step succeeded", LastTransitionTime: at}},
	}
	return env.Client.Status().Update(context.Background(), op)
}

// reconciles is how many turns a controller has taken.
func reconciles(t testing.TB, controller string) float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if hasLabel(metric, "controller", controller) {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return total
}

func hasLabel(metric *dto.Metric, name, value string) bool {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name && label.GetValue() == value {
			return true
		}
	}
	return false
}

// However many records there are, none of them is looked at again when the operator restarts, and to start another
// Operation none is read.
func TestRecordsCostNothing(t *testing.T) {
	const records = page + 100
	f := newFixture(t, 1)
	f.healthy(0)
	f.recorded(records)
	config, counting := counted(env.System.Config)
	f.config = config
	turns := reconciles(t, owner)
	f.controller(nil)
	op := f.operation("new", "Restart", nil)
	f.waitPhase(op, platformv1.OperationSucceeded)
	if took := reconciles(t, owner) - turns; took > maxTurns {
		t.Errorf("the controller took %v turns for one Operation beside %d records", took, records)
	}
	counting.wantFew(t, records, 1)
}

// It is run by make bench-records: how long an operator takes until it has caught up, how long an Operation takes then,
// and the memory that the records hold. It fails when records are looked at again.
func BenchmarkRecords(b *testing.B) {
	for _, records := range []int{0, 10_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			f := newFixture(b, 1)
			f.recorded(records)
			heap := heapInUse()
			for i := range b.N {
				config, counting := counted(env.System.Config)
				f.config = config
				begin, turns := time.Now(), reconciles(b, owner)
				stop := f.controller(nil)
				first := f.operation(fmt.Sprintf("first-%d", i), "Reload", func(op *platformv1.Operation) { op.Spec.DryRun = true })
				f.waitPhase(first, platformv1.OperationSucceeded)
				b.ReportMetric(time.Since(begin).Seconds(), "s-to-catch-up")
				took := reconciles(b, owner) - turns
				b.ReportMetric(took, "turns")
				if took > maxTurns {
					b.Errorf("the controller took %v turns for one Operation beside %d records", took, records)
				}
				real := f.operation(fmt.Sprintf("real-%d", i), "Restart", nil)
				begin = time.Now()
				f.waitPhase(real, platformv1.OperationSucceeded)
				b.ReportMetric(time.Since(begin).Seconds(), "s-an-operation")
				again := f.operation(fmt.Sprintf("again-%d", i), "Restart", nil)
				begin = time.Now()
				f.waitPhase(again, platformv1.OperationSucceeded)
				b.ReportMetric(time.Since(begin).Seconds(), "s-the-next")
				b.ReportMetric(float64(heapInUse()-heap)/(1<<20), "MiB-held")
				b.ReportMetric(float64(counting.whole+counting.single), "whole-reads")
				stop()
				counting.wantFew(b, records, 3)
			}
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapInuse)
}

// A record of the Operation whose step another is stays as long as that needs it, and its own time does not count
// before.
func TestHistoryKeepsWhatIsNeeded(t *testing.T) {
	f := newFixture(t, 1)
	f.settings.UseHistory(platformv1.OperationHistory{Limit: ptr(int32(0))})
	f.controller(nil)
	parent := f.operation("parent", "Ask", func(op *platformv1.Operation) { op.Spec.Author = "ada" })
	f.waitPhase(parent, platformv1.OperationAwaitingApproval)
	child := f.operation("child", "Explode", stepOf(parent))
	f.waitPhase(child, platformv1.OperationFailed)
	other := f.operation("other", "Explode", nil)
	testkit.WaitGone(t, env.Client, other)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(child), child); err != nil {
		t.Fatalf("what its parent needs is gone: %v", err)
	}
	f.patch(parent, `{"spec":{"cancel":true}}`)
	testkit.WaitGone(t, env.Client, child)
	testkit.WaitGone(t, env.Client, parent)
}
