// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// announced keeps the keys of each Restart before that is made, and has it wait until it may be.
type announced struct {
	agentclient.Dialer
	goOn chan struct{}

	mu   sync.Mutex
	keys []string
}

func (d *announced) Dial(ctx context.Context, pod *corev1.Pod) (agentclient.Process, error) {
	process, err := d.Dialer.Dial(ctx, pod)
	return &announcedProcess{process, d}, err
}

func (d *announced) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.keys)
}

type announcedProcess struct {
	agentclient.Process
	dialer *announced
}

func (p *announcedProcess) Restart(ctx context.Context, key string, plan []byte) (report.Call, error) {
	p.dialer.mu.Lock()
	p.dialer.keys = append(p.dialer.keys, key)
	p.dialer.mu.Unlock()
	select {
	case <-p.dialer.goOn:
	case <-ctx.Done():
	}
	return p.Process.Restart(ctx, key, plan)
}

// A cache that has yet to hear of the controller's own write is not acted on: whatever wakes the controller meanwhile,
// it calls nobody again and writes nothing, and goes on once the cache has caught up.
func TestACacheBehindOurOwnWriteIsNotActedOn(t *testing.T) {
	f := newFixture(t, 1)
	f.healthy(0)
	way := &testkit.Transport{}
	f.config = rest.CopyConfig(env.System.Config)
	f.config.Wrap(way.Wrap)
	connections := agentclient.New(f.authority, agentclient.WithPort(f.port))
	t.Cleanup(connections.Close)
	dialer := &announced{Dialer: connections, goOn: make(chan struct{})}
	f.controller(dialer)
	t.Cleanup(way.Release)

	op := f.operation("twice", "Twice", nil)
	waitCalled(t, dialer, "first")
	shown := &platformv1.Operation{}
	testkit.Eventually(t, "a cache that shows the first step", func(ctx context.Context) error {
		err := f.cached.Get(ctx, client.ObjectKeyFromObject(op), shown)
		if err == nil && shown.Status.Phase != platformv1.OperationRunning {
			err = fmt.Errorf("it shows phase %q", shown.Status.Phase)
		}
		return err
	})
	way.Hold("operations")
	close(dialer.goOn)
	waitCalled(t, dialer, "second")
	f.started(0, 3)
	// The turn that made the second call is over when another one is.
	f.wake("replica")
	writes, _ := way.Writes("operations")
	calls := dialer.called()
	for _, role := range []string{"primary", "replica", "primary"} {
		f.wake(role)
	}
	behind := &platformv1.Operation{}
	if err := f.cached.Get(t.Context(), client.ObjectKeyFromObject(op), behind); err != nil ||
		behind.ResourceVersion != shown.ResourceVersion {
		t.Fatalf("the cache did not lag: it shows version %s, before %s (%v)", behind.ResourceVersion, shown.ResourceVersion,
			err)
	}
	if again, conflicts := way.Writes("operations"); again != writes || conflicts != 0 {
		t.Errorf("on the old version it wrote %d times, %d times in vain", again-writes, conflicts)
	}
	way.Release()
	f.waitPhase(op, platformv1.OperationSucceeded)
	f.wantStarts(0, 3)
	if got := dialer.called(); !slices.Equal(got, calls) || !strings.Contains(got[len(got)-1], "/second/") {
		t.Errorf("it called %q, before that %q", got, calls)
	}
	if _, conflicts := way.Writes("operations"); conflicts != 0 {
		t.Errorf("%d writes were made in vain", conflicts)
	}
	for _, step := range op.Status.Steps {
		if step.Attempts != 1 {
			t.Errorf("step %s was begun %d times", step.Name, step.Attempts)
		}
	}
}

// waitCalled waits until a Restart of a step is about to be made.
func waitCalled(t *testing.T, dialer *announced, step string) {
	t.Helper()
	testkit.Eventually(t, "the call of step "+step, func(context.Context) error {
		keys := dialer.called()
		if len(keys) == 0 || !strings.Contains(keys[len(keys)-1], "/"+step+"/") {
			return fmt.Errorf("it called %q", keys)
		}
		return nil
	})
}

// started waits until the report of a pod says that its process was started so often and is well.
func (f *fixture) started(ordinal int, times int64) {
	f.t.Helper()
	testkit.Eventually(f.t, fmt.Sprintf("a report of %s of start %d", podName(ordinal), times),
		func(context.Context) error {
			said := report.Latest(f.pod(ordinal).Annotations[platformv1.ReportAnnotation])
			if said.Starts != times || said.Health != report.Healthy || said.LastCall == nil ||
				said.LastCall.Phase != report.CallSucceeded {
				return fmt.Errorf("it says %+v", said)
			}
			return nil
		})
}

// wake has the first pod change its role, and waits until the controller has taken a turn for that.
func (f *fixture) wake(role string) {
	f.t.Helper()
	turns := reconciles(f.t, owner)
	f.patch(f.pod(0), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, platformv1.RoleLabel, role))
	testkit.Eventually(f.t, "a turn for a pod that changed", func(context.Context) error {
		if reconciles(f.t, owner) == turns {
			return fmt.Errorf("there were %v before", turns)
		}
		return nil
	})
}
