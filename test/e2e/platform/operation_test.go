// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// restartGap is the write gap at which a test fails: twenty times the budget of the design, since a busy machine is no
// defect. The tests log what they measure.
const restartGap = 40 * time.Second

// TestRestartUnderLoad measures a Restart through an Operation: the pod and the container stay, the write gap is
// short, and nothing acknowledged is lost. It runs alone because it measures.
func TestRestartUnderLoad(t *testing.T) {
	s := framework.NewNamespace(t, "restart")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	for n := range framework.Config.FaultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			i, name := &framework.Instance{Namespace: s.In(t), Name: i.Name}, fmt.Sprintf("restart-%d", n+1)
			before := i.Footprint()
			w := i.StartWriter()
			i.Create(framework.NewRestartOperation(name, i.Reference()))
			operation := i.ExpectOperationSucceeded(name)
			w.WaitForWrite()
			w.Stop()
			if err := before.RestartedInPlace(i.Footprint()); err != nil {
				t.Error(err)
			}
			if up, since := i.Uptime(), time.Since(operation.Status.StartTime.Time)+time.Second; up > since {
				t.Errorf("redis-server is up for %s, and the Operation began %s ago", up, since)
			}
			i.WaitReady()
			w.StopAndRecord("one server: restarted by an Operation", restartGap)
		})
	}
	s.ExpectTableColumns(platformv1.GroupVersion.WithResource("operations"), "restart-1", "Template", "Kind", "Target",
		"Progress", "Phase", "Age")
}

// TestRestartOfEveryTarget proves that an Operation finds its pods from any object of the chain.
func TestRestartOfEveryTarget(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "targets")
	i := s.CreateRedis("db")
	i.WaitReady()
	for _, target := range []platformv1.TargetReference{
		i.Reference(),
		framework.CoreReference("Application", i.Application()),
		framework.CoreReference("Component", platformv1.ComponentNameFor(i.Application(), framework.RedisComponent)),
		framework.CoreReference("WorkloadSet", i.WorkloadSet()),
	} {
		t.Run(target.Kind, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			before := i.Footprint()
			name := "restart-" + strings.ToLower(target.Kind)
			i.Create(framework.NewRestartOperation(name, target))
			operation := i.ExpectOperationSucceeded(name)
			if err := before.RestartedInPlace(i.Footprint()); err != nil {
				t.Error(err)
			}
			if operation.Status.Application != i.Application() {
				t.Errorf("the Operation says that it belongs to %q, want %q", operation.Status.Application, i.Application())
			}
			i.WaitReady()
		})
	}
	t.Run("template named in full", func(t *testing.T) {
		i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
		before := i.Footprint()
		operation := framework.NewRestartOperation("full", i.Reference())
		app := &platformv1.Application{}
		i.MustGet(i.Application(), app)
		operation.Spec.TemplateRef = fmt.Sprintf("redis@%s/Restart", app.Spec.PluginVersion)
		i.Create(operation)
		i.ExpectOperationSucceeded("full")
		if err := before.RestartedInPlace(i.Footprint()); err != nil {
			t.Error(err)
		}
	})
}

// TestBadOperations proves that an Operation that cannot run says why, soon, and touches nothing.
func TestBadOperations(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "badop")
	i := s.CreateRedis("db")
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := i.Footprint()
	foreign := s.CreateRedis("other", passwordFrom("absent")) // never gets a pod
	for name, c := range map[string]struct {
		edit func(*platformv1.Operation)
		want string
	}{
		"template": {func(o *platformv1.Operation) { o.Spec.TemplateRef = "Explode" }, "Explode"},
		"bundle":   {func(o *platformv1.Operation) { o.Spec.TemplateRef = "redis@9.9.9/Restart" }, "9.9.9"},
		"target":   {func(o *platformv1.Operation) { o.Spec.TargetRef.Name = "nobody" }, "nobody"},
		"core kind": {func(o *platformv1.Operation) {
			o.Spec.TargetRef = platformv1.TargetReference{APIVersion: "v1", Kind: "Service", Name: i.Application()}
		}, "apiVersion"},
		"foreign kind": {func(o *platformv1.Operation) {
			o.Spec.TargetRef = platformv1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: i.Application()}
		}, "Deployment"},
		"unknown":    {func(o *platformv1.Operation) { o.Spec.TargetRef.Kind = "Rediss" }, "Rediss"},
		"parameters": {func(o *platformv1.Operation) { o.Spec.Parameters = platformv1.Parameters{"color": "red"} }, "color"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			operation := framework.NewRestartOperation("bad-"+strings.ReplaceAll(name, " ", "-"), i.Reference())
			c.edit(operation)
			if err := s.TryCreate(operation); err != nil {
				s.ExpectRefused(err, c.want)
				return
			}
			start := time.Now()
			ended := s.WaitForOperationEnd(operation.Name, framework.ErrorTimeout)
			if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, c.want) {
				t.Errorf("phase %q with error %q, want Failed and a sentence about %q", ended.Status.Phase, ended.Status.Error,
					c.want)
			}
			t.Logf("after %s: %s", framework.FormatSeconds(time.Since(start)), ended.Status.Error)
		})
	}
	t.Run("malformed template", func(t *testing.T) {
		s := s.In(t)
		operation := framework.NewRestartOperation("malformed", i.Reference())
		operation.Spec.TemplateRef = "restart it"
		s.ExpectRefused(s.TryCreate(operation), "templateRef")
	})
	t.Run("target without pods", func(t *testing.T) {
		s := s.In(t)
		s.Create(framework.NewRestartOperation("nothing", foreign.Reference()))
		ended := s.WaitForOperationEnd("nothing", framework.ErrorTimeout)
		if ended.Status.Phase != platformv1.OperationFailed || ended.Status.Error == "" {
			t.Errorf("phase %q with error %q, want Failed and a reason", ended.Status.Phase, ended.Status.Error)
		}
	})
	if err := before.SameProcess(i.Footprint()); err != nil {
		t.Error(err)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
}

// wantJudged checks that the operator itself refused an object, for what is wrong with that and not for want of a
// right, in words that hold all of these texts.
func wantJudged(s *framework.Namespace, err error, texts ...string) {
	s.Helper()
	s.ExpectRefused(err, append(slices.Clone(texts), "admission webhook")...)
	if !apierrors.IsInvalid(err) {
		s.Errorf("the reason of the refusal is %s, want %s", apierrors.ReasonForError(err), metav1.StatusReasonInvalid)
	}
}

// TestOperationsQueue proves that two Operations on one target run one after the other.
func TestOperationsQueue(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "queue")
	i := s.CreateRedis("db")
	i.WaitReady()
	before, starts := i.Footprint(), i.ProcessStarts()
	names := []string{"first", "second", "third"}
	for _, name := range names {
		s.Create(framework.NewRestartOperation(name, i.Reference()))
	}
	var ended []*platformv1.Operation
	for _, name := range names {
		ended = append(ended, s.ExpectOperationSucceeded(name))
	}
	for n := 1; n < len(ended); n++ {
		previous, next := ended[n-1].Status, ended[n].Status
		if next.StartTime.Before(previous.CompletionTime) {
			t.Errorf("Operation %q started at %s, before %q ended at %s", names[n], next.StartTime, names[n-1],
				previous.CompletionTime)
		}
	}
	i.WaitReady()
	if err := before.RestartedInPlace(i.Footprint()); err != nil {
		t.Error(err)
	}
	s.Eventually(framework.SettleTimeout, "the agent has counted one start for each Operation", func() error {
		if got := i.ProcessStarts() - starts; got != int64(len(names)) {
			return fmt.Errorf("it counts %d", got)
		}
		return nil
	})
}

// TestOperationRecords proves how long the record of an Operation is kept, and that it cannot be rewritten.
func TestOperationRecords(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "records")
	i := s.CreateRedis("db")
	i.WaitReady()
	const ttl = 12
	short := framework.NewRestartOperation("short", i.Reference())
	short.Spec.TTLSecondsAfterFinished = ptr.To[int32](ttl)
	s.Create(short)
	ended := s.ExpectOperationSucceeded("short")
	s.Eventually(framework.SettleTimeout, "the record goes away after its time", func() error {
		return framework.ErrUnlessNotFound(s.Get("short", &platformv1.Operation{}))
	})
	kept := time.Since(ended.Status.CompletionTime.Time)
	t.Logf("a record with ttlSecondsAfterFinished %d was kept for %s", ttl, framework.FormatSeconds(kept))
	// The completion time is in whole seconds.
	if kept < (ttl-1)*time.Second || kept > (ttl+30)*time.Second {
		t.Errorf("the record was kept for %s, want about %d s", kept, ttl)
	}
	s.Create(framework.NewRestartOperation("forever", i.Reference()))
	forever := s.ExpectOperationSucceeded("forever")
	before := forever.DeepCopy()
	forever.Spec.TemplateRef = "Reload"
	s.ExpectRefused(framework.Cluster.Client.Patch(s.Ctx, forever, client.MergeFrom(before)), "immutable")
	s.Throughout(2*ttl*time.Second, "a record without a time stays", func() error {
		return s.Get("forever", &platformv1.Operation{})
	})
}

// wantForbidden has the test fail unless the API server has refused somebody the right to do something.
func wantForbidden(s *framework.Namespace, err error) {
	s.Helper()
	if !apierrors.IsForbidden(err) {
		s.Errorf("it was not forbidden: %v", err)
	}
}
