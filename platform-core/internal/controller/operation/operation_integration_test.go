// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testagents.Main(m, "agent", &agentPath, &env, testkit.EnvOptions{CRDs: []fs.FS{crd.FS}, System: "zeroinfra-system"})
}

func TestRestartGoesRoundThePodsWriterLast(t *testing.T) {
	f := newFixture(t, 3)
	f.controller(nil)
	uids := []types.UID{f.pod(0).UID, f.pod(1).UID, f.pod(2).UID}
	op := f.operation("restart", "Restart", nil)
	f.waitPhase(op, platformv1.OperationSucceeded)

	step := op.Status.Steps[0]
	var order []string
	for _, target := range step.Targets {
		order = append(order, target.Name)
		if target.Phase != platformv1.OperationSucceeded {
			t.Errorf("target %s is %s", target.Name, target.Phase)
		}
	}
	if want := strings.Join([]string{podName(1), podName(2), podName(0)}, " "); strings.Join(order, " ") != want {
		t.Errorf("order is %v, want %s", order, want)
	}
	for ordinal, uid := range uids {
		f.wantStarts(ordinal, 2)
		if f.pod(ordinal).UID != uid {
			t.Errorf("pod %d was replaced", ordinal)
		}
	}
	s := op.Status
	if s.CurrentStep != 1 || s.Progress != "1/1" || s.Application != "redis-a" || s.Trigger != platformv1.TriggerUser ||
		s.Error != "" {
		t.Errorf("status is %+v", s)
	}
	if s.StartTime == nil || s.CompletionTime == nil || s.CompletionTime.Before(s.StartTime) || step.Attempts != 1 ||
		step.StartTime == nil || step.CompletionTime == nil {
		t.Errorf("times are wrong: %+v", s)
	}
	if !meta.IsStatusConditionTrue(s.Conditions, platformv1.ReadyCondition) {
		t.Errorf("conditions are %+v", s.Conditions)
	}
}

// dying is a dialer whose controller dies at the n-th call, before or after it reached the agent.
type dying struct {
	agentclient.Dialer
	mu     sync.Mutex
	left   int
	before bool
	died   chan struct{}
}

func (d *dying) Dial(ctx context.Context, pod *corev1.Pod) (agentclient.Process, error) {
	process, err := d.Dialer.Dial(ctx, pod)
	return &dyingProcess{process, d}, err
}

type dyingProcess struct {
	agentclient.Process
	dying *dying
}

func (p *dyingProcess) Restart(ctx context.Context, key string, plan []byte) (report.Call, error) {
	p.dying.mu.Lock()
	p.dying.left--
	last := p.dying.left == 0
	p.dying.mu.Unlock()
	if !last {
		return p.Process.Restart(ctx, key, plan)
	}
	if !p.dying.before {
		if _, err := p.Process.Restart(ctx, key, plan); err != nil {
			return report.Call{}, err
		}
	}
	close(p.dying.died)
	// A process that was killed writes nothing more.
	<-ctx.Done()
	return report.Call{}, ctx.Err()
}

func TestNothingIsDoneTwiceWhenTheControllerDies(t *testing.T) {
	f := newFixture(t, 2)
	connections := agentclient.New(f.authority, agentclient.WithPort(f.port))
	t.Cleanup(connections.Close)
	op := f.operation("twice", "Twice", nil)
	for _, death := range []struct {
		call   int
		before bool
	}{{1, true}, {1, false}, {2, false}, {1, false}, {2, true}, {1, false}} {
		d := &dying{Dialer: connections, left: death.call, before: death.before, died: make(chan struct{})}
		stop := f.controller(d)
		finished := make(chan struct{})
		watch, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(finished)
			for watch.Err() == nil {
				current := &platformv1.Operation{}
				if err := env.Client.Get(watch, client.ObjectKeyFromObject(op), current); err == nil && opsflow.Finished(current) {
					return
				}
			}
		}()
		select {
		case <-d.died:
		case <-finished:
		case <-time.After(testkit.Patience):
			t.Fatalf("death %+v never came", death)
		}
		cancel()
		stop()
	}
	f.controller(nil)
	f.waitPhase(op, platformv1.OperationSucceeded)
	f.wantStarts(0, 3)
	f.wantStarts(1, 3)
	for _, step := range op.Status.Steps {
		if step.Attempts != 1 || step.Phase != platformv1.OperationSucceeded {
			t.Errorf("step is %+v", step)
		}
	}
}

func TestOneOperationRunsAtATime(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.stopAgents(0)
	f.controller(nil)
	first := f.operation("first", "Restart", nil)
	f.waitPhase(first, platformv1.OperationRunning)
	second := f.operation("second", "Restart", func(op *platformv1.Operation) {
		op.Spec.TargetRef = platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "WorkloadSet",
			Name: setName}
	})
	third := f.operation("third", "redis@1.0.0/Restart", func(op *platformv1.Operation) {
		op.Spec.TargetRef = platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
			Name: "redis-a"}
	})
	for _, op := range []*platformv1.Operation{second, third} {
		f.waitPhase(op, platformv1.OperationPending)
		ready := meta.FindStatusCondition(op.Status.Conditions, platformv1.ReadyCondition)
		if ready.Reason != opsflow.ReasonQueued || !strings.Contains(ready.Message, `"first"`) {
			t.Errorf("%s says %s: %s", op.Name, ready.Reason, ready.Message)
		}
		if op.Status.StartTime != nil {
			t.Errorf("%s has a startTime", op.Name)
		}
	}
	f.startAgents(0)
	f.waitPhase(first, platformv1.OperationSucceeded)
	f.waitPhase(second, platformv1.OperationSucceeded)
	f.waitPhase(third, platformv1.OperationSucceeded)
	if second.Status.StartTime.Before(first.Status.CompletionTime) ||
		third.Status.StartTime.Before(second.Status.CompletionTime) {
		t.Errorf("they ran at the same time: %v-%v, %v-%v, %v-%v", first.Status.StartTime, first.Status.CompletionTime,
			second.Status.StartTime, second.Status.CompletionTime, third.Status.StartTime, third.Status.CompletionTime)
	}
	f.wantStarts(0, 4)
}

func TestManyAtOnceRunOneByOne(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.controller(nil)
	const count = 6
	for i := range count {
		f.operation(fmt.Sprintf("op-%d", i), "Restart", nil)
	}
	testkit.Eventually(t, "the end of all", func(ctx context.Context) error {
		var list platformv1.OperationList
		if err := env.Client.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		running, done := 0, 0
		for i := range list.Items {
			switch list.Items[i].Status.Phase {
			case platformv1.OperationRunning:
				running++
			case platformv1.OperationSucceeded:
				done++
			}
		}
		if running > 1 {
			t.Errorf("%d Operations run at the same time", running)
		}
		if done < count {
			return fmt.Errorf("%d of %d succeeded", done, count)
		}
		return nil
	})
	f.wantStarts(0, count+1)
}

func TestAReplacedPodCountsAsDone(t *testing.T) {
	f := newFixture(t, 2)
	f.healthy(1)
	f.stopAgents(1)
	f.controller(nil)
	op := f.operation("restart", "Restart", nil)
	testkit.WaitFor(t, env.Client, op, "waiting for pod 1", func() error {
		if len(op.Status.Steps) == 0 || !strings.Contains(op.Status.Steps[0].Message, "no connection") {
			return fmt.Errorf("steps are %+v", op.Status.Steps)
		}
		return nil
	})
	if want := "1/1 restart: pod 1 of 2"; op.Status.Progress != want {
		t.Errorf("progress is %q, want %q", op.Status.Progress, want)
	}
	old := f.pod(1)
	if err := env.Client.Delete(t.Context(), old, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	f.createPod(1)
	f.startAgents(1)
	f.waitPhase(op, platformv1.OperationSucceeded)
	f.wantStarts(1, 1)
	f.wantStarts(0, 2)
	if op.Status.Steps[0].Targets[0].UID != old.UID {
		t.Errorf("the record names %s, want the pod that the step first saw", op.Status.Steps[0].Targets[0].UID)
	}
}

func TestTimeoutSaysWhatItWaitedFor(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.stopAgents(0)
	f.controller(nil)
	op := f.operation("restart", "Restart",
		func(op *platformv1.Operation) { op.Spec.Timeout = &metav1.Duration{Duration: time.Hour} })
	noConnection := "no connection to " + f.pod(0).Status.PodIP
	testkit.WaitFor(t, env.Client, op, "waits for an agent", func() error {
		if len(op.Status.Steps) == 0 || !strings.Contains(op.Status.Steps[0].Message, noConnection) {
			return fmt.Errorf("the steps are %+v", op.Status.Steps)
		}
		return nil
	})
	hourAgo := op.DeepCopy()
	hourAgo.Status.StartTime.Time = op.Status.StartTime.Add(-time.Hour)
	if err := env.Client.Status().Patch(t.Context(), hourAgo, client.MergeFrom(op)); err != nil {
		t.Fatal(err)
	}
	f.waitPhase(op, platformv1.OperationFailed)
	if !strings.Contains(op.Status.Error, "not done within 1h0m0s") || !strings.Contains(op.Status.Error, noConnection) {
		t.Errorf("error is %q", op.Status.Error)
	}
	ready := meta.FindStatusCondition(op.Status.Conditions, platformv1.StalledCondition)
	if ready == nil || ready.Reason != opsflow.ReasonTimedOut {
		t.Errorf("conditions are %+v", op.Status.Conditions)
	}
	// The next one is not held up by one that failed.
	f.startAgents(0)
	f.waitPhase(f.operation("again", "Restart", nil), platformv1.OperationSucceeded)
}

func TestAFailedCallFailsTheOperation(t *testing.T) {
	f := newFixture(t, 2)
	f.controller(nil)
	op := f.operation("reload", "Reload", nil)
	f.waitPhase(op, platformv1.OperationFailed)
	if !strings.Contains(op.Status.Error, "Reload of pod "+podName(1)+" failed") {
		t.Errorf("error is %q", op.Status.Error)
	}
	if got := op.Status.Steps[0].Targets[1].Phase; got != platformv1.OperationPending {
		t.Errorf("after the failure at the first pod, the second is %s", got)
	}
}

func TestFinishedOperationsAreDeletedInTimeAndNotTouchedOtherwise(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	stop := f.controller(nil)
	kept := f.operation("kept", "Restart", nil)
	f.waitPhase(kept, platformv1.OperationSucceeded)
	short := f.operation("short", "Explode",
		func(op *platformv1.Operation) { op.Spec.TTLSecondsAfterFinished = ptr(int32(1)) })
	testkit.WaitGone(t, env.Client, short)
	stop()
	f.index.Delete("redis", "1.0.0")
	f.controller(nil)
	marker := f.operation("marker", "Restart", nil)
	f.waitPhase(marker, platformv1.OperationFailed)
	current := kept.DeepCopy()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(kept), current); err != nil {
		t.Fatal(err)
	}
	if current.ResourceVersion != kept.ResourceVersion {
		t.Errorf("a finished Operation was written: %+v", current.Status)
	}
}

func TestWhatCannotRunFailsWithASentence(t *testing.T) {
	f := newFixture(t, 1)
	f.controller(nil)
	foreign := testkit.BuildApplication(f.namespace, "foreign").Domain("message").Build()
	f.create(foreign)
	core := platformv1.GroupVersion.String()
	for name, tc := range map[string]struct {
		change func(*platformv1.OperationSpec)
		reason string
		text   string
	}{
		"unknown-template": {func(s *platformv1.OperationSpec) { s.TemplateRef = "Explode" },
			platformv1.ReasonTemplateNotFound, `it has: "Apply", "Ask", "Backup", "Create"`},
		"foreign-template": {func(s *platformv1.OperationSpec) { s.TemplateRef = "kafka@1.0.0/Restart" },
			platformv1.ReasonTemplateNotFound, "another plugin"},
		"unknown-name": {func(s *platformv1.OperationSpec) { s.TargetRef.Name = "b" }, platformv1.ReasonTargetNotFound,
			`no Redis "b" of group database.zeroinfra.github.com`},
		"unknown-kind": {func(s *platformv1.OperationSpec) { s.TargetRef.Kind = "Toaster" }, platformv1.ReasonTargetNotFound,
			`no Toaster "a"`},
		"other-group": {func(s *platformv1.OperationSpec) { s.TargetRef.APIVersion = "example.com/v1" },
			platformv1.ReasonTargetNotFound, `group example.com`},
		"core-kind": {func(s *platformv1.OperationSpec) { s.TargetRef.APIVersion, s.TargetRef.Kind = core, "Plugin" },
			platformv1.ReasonTargetNotFound, "name an Application, Component or WorkloadSet"},
		"absent-set": {func(s *platformv1.OperationSpec) { s.TargetRef.APIVersion, s.TargetRef.Kind = core, "WorkloadSet" },
			platformv1.ReasonTargetNotFound, `no WorkloadSet "a"`},
		"parameters": {func(s *platformv1.OperationSpec) { s.Parameters = platformv1.Parameters{"force": "true"} },
			platformv1.ReasonInvalidParameters, `has no parameter "force"`},
		"other-component": {func(s *platformv1.OperationSpec) {
			s.TemplateRef, s.TargetRef.APIVersion, s.TargetRef.Kind, s.TargetRef.Name = "Sentinels", core, "Component",
				"redis-a-redis"
		}, platformv1.ReasonInvalidSpec, `component "redis"`},
		"other-domain": {func(s *platformv1.OperationSpec) {
			s.TargetRef.APIVersion, s.TargetRef.Kind, s.TargetRef.Name = core, "Application", "foreign"
		}, platformv1.ReasonTargetNotFound, `not of domain "database"`},
		"foreign-controller": {func(s *platformv1.OperationSpec) { s.TemplateRef = "Stop" }, opsflow.ReasonNotSupported,
			"a kind that this operator does not serve"},
		"nothing-to-act-on": {func(s *platformv1.OperationSpec) { s.TemplateRef = "Sentinels" }, opsflow.ReasonStepFailed,
			"no pods"},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			op := f.operation(name, "Restart", func(op *platformv1.Operation) { tc.change(&op.Spec) })
			f.waitPhase(op, platformv1.OperationFailed)
			stalled := meta.FindStatusCondition(op.Status.Conditions, platformv1.StalledCondition)
			if stalled == nil || stalled.Reason != tc.reason || !strings.Contains(op.Status.Error, tc.text) {
				t.Errorf("failed with %+v, error %q; want %s: …%s…", stalled, op.Status.Error, tc.reason, tc.text)
			}
			if op.Status.CompletionTime == nil {
				t.Error("there is no completionTime")
			}
		})
	}
	f.t = t
	f.wantStarts(0, 1)
}

func TestAnApplicationThatGoesEndsItsOperation(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	f.stopAgents(0)
	f.controller(nil)
	op := f.operation("restart", "Restart", nil)
	f.waitPhase(op, platformv1.OperationRunning)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a"}}
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	f.waitPhase(op, platformv1.OperationCancelled)
	if op.Status.Error != `pre-empted by the deletion of Redis "a"` {
		t.Errorf("error is %q", op.Status.Error)
	}
}

// operationWrites counts the writes of Operations that a controller makes.
type operationWrites struct {
	next  http.RoundTripper
	count *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (w operationWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/operations/") {
		w.count.Add(1)
	}
	return w.next.RoundTrip(request)
}

// Where the machine is busy, the status also says that a pod is not healthy yet, or that its report is late: of a few
// Operations one is without that.
func TestAnOperationOfOnePodCostsTwoStatusWrites(t *testing.T) {
	const tries = 10
	f := newFixture(t, 1)
	f.healthy(0)
	var writes atomic.Int64
	f.config = rest.CopyConfig(f.config)
	f.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return operationWrites{next, &writes} })
	f.controller(nil)
	first := f.operation("first", "Restart", nil)
	f.waitPhase(first, platformv1.OperationSucceeded)
	var cost []int64
	for len(cost) < tries && !slices.Contains(cost, 2) {
		before := writes.Load()
		f.waitPhase(f.operation(fmt.Sprintf("again-%d", len(cost)), "Restart", nil), platformv1.OperationSucceeded)
		cost = append(cost, writes.Load()-before)
	}
	if fewest := slices.Min(cost); fewest != 2 {
		t.Errorf("the controller wrote each Operation so many times: %v, want 2", cost)
	}
}
