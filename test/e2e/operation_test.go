// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// TestRestartUnderLoad measures a Restart through an Operation: the pod and the container stay, the write gap is
// short, and nothing acknowledged is lost. It runs alone because it measures.
func TestRestartUnderLoad(t *testing.T) {
	s := newSpace(t, "restart")
	i := s.redis("db", safe())
	i.ready()
	for n := range set.faultRounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) {
			i, name := &instance{space: s.in(t), name: i.name}, fmt.Sprintf("restart-%d", n+1)
			before := i.footprint()
			w := i.startWriter()
			i.create(restartOf(name, i.reference()))
			operation := i.succeeded(name)
			w.resumed()
			w.stop()
			if err := before.restartedInPlace(i.footprint()); err != nil {
				t.Error(err)
			}
			if up, since := i.uptime(), time.Since(operation.Status.StartTime.Time)+time.Second; up > since {
				t.Errorf("redis-server is up for %s, and the Operation began %s ago", up, since)
			}
			i.ready()
			w.judged("one server: restarted by an Operation", restartGap)
		})
	}
	s.wantColumns(platformv1.GroupVersion.WithResource("operations"), "restart-1", "Template", "Kind", "Target", "Progress", "Phase", "Age")
}

// TestRestartOfEveryTarget proves that an Operation finds its pods from any object of the chain.
func TestRestartOfEveryTarget(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "targets")
	i := s.redis("db")
	i.ready()
	for _, target := range []platformv1.TargetReference{
		i.reference(),
		coreReference("Application", i.application()),
		coreReference("Component", platformv1.ComponentNameFor(i.application(), redisComponent)),
		coreReference("WorkloadSet", i.workloadSet()),
	} {
		t.Run(target.Kind, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			before := i.footprint()
			name := "restart-" + strings.ToLower(target.Kind)
			i.create(restartOf(name, target))
			operation := i.succeeded(name)
			if err := before.restartedInPlace(i.footprint()); err != nil {
				t.Error(err)
			}
			if operation.Status.Application != i.application() {
				t.Errorf("the Operation says that it belongs to %q, want %q", operation.Status.Application, i.application())
			}
			i.ready()
		})
	}
	t.Run("template named in full", func(t *testing.T) {
		i := &instance{space: s.in(t), name: i.name}
		before := i.footprint()
		operation := restartOf("full", i.reference())
		app := &platformv1.Application{}
		i.mustGet(i.application(), app)
		operation.Spec.TemplateRef = fmt.Sprintf("redis@%s/Restart", app.Spec.PluginVersion)
		i.create(operation)
		i.succeeded("full")
		if err := before.restartedInPlace(i.footprint()); err != nil {
			t.Error(err)
		}
	})
}

// TestBadOperations proves that an Operation that cannot run says why, soon, and touches nothing.
func TestBadOperations(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "badop")
	i := s.redis("db")
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.footprint()
	foreign := s.redis("other", passwordFrom("absent")) // never gets a pod
	for name, c := range map[string]struct {
		edit func(*platformv1.Operation)
		want string
	}{
		"template": {func(o *platformv1.Operation) { o.Spec.TemplateRef = "Explode" }, "Explode"},
		"bundle":   {func(o *platformv1.Operation) { o.Spec.TemplateRef = "redis@9.9.9/Restart" }, "9.9.9"},
		"target":   {func(o *platformv1.Operation) { o.Spec.TargetRef.Name = "nobody" }, "nobody"},
		"core kind": {func(o *platformv1.Operation) {
			o.Spec.TargetRef = platformv1.TargetReference{APIVersion: "v1", Kind: "Service", Name: i.application()}
		}, "apiVersion"},
		"foreign kind": {func(o *platformv1.Operation) {
			o.Spec.TargetRef = platformv1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: i.application()}
		}, "Deployment"},
		"unknown":    {func(o *platformv1.Operation) { o.Spec.TargetRef.Kind = "Rediss" }, "Rediss"},
		"parameters": {func(o *platformv1.Operation) { o.Spec.Parameters = platformv1.Parameters{"color": "red"} }, "color"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			operation := restartOf("bad-"+strings.ReplaceAll(name, " ", "-"), i.reference())
			c.edit(operation)
			if err := s.tryCreate(operation); err != nil {
				s.wantRefused(err, c.want)
				return
			}
			start := time.Now()
			ended := s.finished(operation.Name, errorIn)
			if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, c.want) {
				t.Errorf("phase %q with error %q, want Failed and a sentence about %q", ended.Status.Phase, ended.Status.Error, c.want)
			}
			t.Logf("after %s: %s", seconds(time.Since(start)), ended.Status.Error)
		})
	}
	t.Run("malformed template", func(t *testing.T) {
		s := s.in(t)
		operation := restartOf("malformed", i.reference())
		operation.Spec.TemplateRef = "restart it"
		s.wantRefused(s.tryCreate(operation), "templateRef")
	})
	t.Run("target without pods", func(t *testing.T) {
		s := s.in(t)
		s.create(restartOf("nothing", foreign.reference()))
		if ended := s.finished("nothing", errorIn); ended.Status.Phase != platformv1.OperationFailed || ended.Status.Error == "" {
			t.Errorf("phase %q with error %q, want Failed and a reason", ended.Status.Phase, ended.Status.Error)
		}
	})
	if err := before.sameProcess(i.footprint()); err != nil {
		t.Error(err)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
}

// wantRefused has the test fail unless an error is the API server's refusal with these texts in it.
func (s *space) wantRefused(err error, texts ...string) {
	s.Helper()
	switch {
	case err == nil:
		s.Errorf("it was accepted, want a refusal about %q", texts)
		return
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err):
		s.Errorf("it failed for another reason than a refusal: %v", err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			s.Errorf("the refusal says nothing about %q: %v", text, err)
		}
	}
	s.Logf("refused: %v", err)
}

// wantJudged checks that the operator itself refused an object, for what is wrong with that and not for want of a right, in words that hold all of these texts.
func (s *space) wantJudged(err error, texts ...string) {
	s.Helper()
	s.wantRefused(err, append(slices.Clone(texts), "admission webhook")...)
	if !apierrors.IsInvalid(err) {
		s.Errorf("the reason of the refusal is %s, want %s", apierrors.ReasonForError(err), metav1.StatusReasonInvalid)
	}
}

// TestOperationsQueue proves that two Operations on one target run one after the other.
func TestOperationsQueue(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "queue")
	i := s.redis("db")
	i.ready()
	before, starts := i.footprint(), i.starts()
	names := []string{"first", "second", "third"}
	for _, name := range names {
		s.create(restartOf(name, i.reference()))
	}
	var ended []*platformv1.Operation
	for _, name := range names {
		ended = append(ended, s.succeeded(name))
	}
	for n := 1; n < len(ended); n++ {
		previous, next := ended[n-1].Status, ended[n].Status
		if next.StartTime.Before(previous.CompletionTime) {
			t.Errorf("Operation %q started at %s, before %q ended at %s", names[n], next.StartTime, names[n-1], previous.CompletionTime)
		}
	}
	i.ready()
	if err := before.restartedInPlace(i.footprint()); err != nil {
		t.Error(err)
	}
	s.eventually(settleIn, "the agent has counted one start for each Operation", func() error {
		if got := i.starts() - starts; got != int64(len(names)) {
			return fmt.Errorf("it counts %d", got)
		}
		return nil
	})
}

// TestOperationRecords proves how long the record of an Operation is kept, and that it cannot be rewritten.
func TestOperationRecords(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "records")
	i := s.redis("db")
	i.ready()
	const ttl = 12
	short := restartOf("short", i.reference())
	short.Spec.TTLSecondsAfterFinished = ptr.To[int32](ttl)
	s.create(short)
	ended := s.succeeded("short")
	s.eventually(settleIn, "the record goes away after its time", func() error {
		return gone(s.get("short", &platformv1.Operation{}))
	})
	kept := time.Since(ended.Status.CompletionTime.Time)
	t.Logf("a record with ttlSecondsAfterFinished %d was kept for %s", ttl, seconds(kept))
	// The completion time is in whole seconds.
	if kept < (ttl-1)*time.Second || kept > (ttl+30)*time.Second {
		t.Errorf("the record was kept for %s, want about %d s", kept, ttl)
	}
	s.create(restartOf("forever", i.reference()))
	forever := s.succeeded("forever")
	before := forever.DeepCopy()
	forever.Spec.TemplateRef = "Reload"
	s.wantRefused(world.client.Patch(s.ctx, forever, client.MergeFrom(before)), "immutable")
	s.throughout(2*ttl*time.Second, "a record without a time stays", func() error {
		return s.get("forever", &platformv1.Operation{})
	})
}

// wantForbidden has the test fail unless the API server has refused somebody the right to do something.
func (s *space) wantForbidden(err error) {
	s.Helper()
	if !apierrors.IsForbidden(err) {
		s.Errorf("it was not forbidden: %v", err)
	}
}
