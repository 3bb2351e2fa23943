// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// restartOf returns an Operation that restarts the process of a target.
func restartOf(name string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{
		ObjectMeta: named(name),
		Spec:       platformv1.OperationSpec{TemplateRef: "Restart", TargetRef: target},
	}
}

// reference names the instance itself.
func (i *instance) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: databasev1.GroupVersion.String(), Kind: "Redis", Name: i.name}
}

// coreReference names an object of the engine.
func coreReference(kind, name string) platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: kind, Name: name}
}

// me is who runs the tests.
func (s *space) me() string {
	s.Helper()
	me := &authenticationv1.SelfSubjectReview{}
	if err := world.client.Create(s.ctx, me); err != nil {
		s.Fatal(err)
	}
	return me.Status.UserInfo.Username
}

// approved creates an Operation, and has somebody else approve it.
func (s *space) approved(op *platformv1.Operation) {
	s.Helper()
	op.Spec.Author = s.me()
	s.create(op)
	s.eventually(settleIn, "the Operation waits for an approval", func() error {
		if err := s.get(op.Name, op); err != nil {
			return err
		}
		if op.Status.Phase != platformv1.OperationAwaitingApproval {
			return fmt.Errorf("it is %q: %s", op.Status.Phase, op.Status.Error)
		}
		return nil
	})
	other := rest.CopyConfig(world.config)
	other.Impersonate = rest.ImpersonationConfig{UserName: "somebody-else", Groups: []string{"system:masters"}}
	c, err := client.New(other, client.Options{Scheme: world.client.Scheme()})
	if err != nil {
		s.Fatal(err)
	}
	before := op.DeepCopy()
	op.Spec.Approval = &platformv1.OperationApproval{By: other.Impersonate.UserName, Decision: platformv1.OperationApproved}
	if err := c.Patch(s.ctx, op, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// passes waits until an Operation that takes its time has succeeded.
func (s *space) passes(name string) {
	s.Helper()
	if ended := s.finished(name, 3*readyIn); ended.Status.Phase != platformv1.OperationSucceeded {
		s.Fatalf("Operation %q is %s: %s", name, ended.Status.Phase, ended.Status.Error)
	}
}

// finished waits until an Operation has ended and returns it.
func (s *space) finished(name string, limit time.Duration) *platformv1.Operation {
	s.Helper()
	operation := &platformv1.Operation{}
	s.eventually(limit, fmt.Sprintf("Operation %q ends", name), func() error {
		if err := s.get(name, operation); err != nil {
			return err
		}
		switch operation.Status.Phase {
		case platformv1.OperationSucceeded, platformv1.OperationFailed:
			return nil
		}
		return fmt.Errorf("it is %q at step %q: %s", operation.Status.Phase, operation.Status.Progress, describe(operation.Status.Conditions))
	})
	return operation
}

// succeeded is finished for what must not fail. It checks the record that is left.
func (s *space) succeeded(name string) *platformv1.Operation {
	s.Helper()
	operation := s.finished(name, settleIn)
	status := operation.Status
	if status.Phase != platformv1.OperationSucceeded {
		s.Fatalf("Operation %q failed: %s", name, status.Error)
	}
	if err := readyNow(operation, status.ObservedGeneration); err != nil {
		s.Error(err)
	}
	if status.StartTime == nil || status.CompletionTime == nil || status.CompletionTime.Before(status.StartTime) {
		s.Errorf("Operation %q started at %v and ended at %v", name, status.StartTime, status.CompletionTime)
	}
	if status.Trigger != platformv1.TriggerUser || status.Error != "" {
		s.Errorf("Operation %q has trigger %q and error %q, want User and none", name, status.Trigger, status.Error)
	}
	if len(status.Steps) == 0 || int(status.CurrentStep) != len(status.Steps) {
		s.Errorf("Operation %q is at step %d of %d", name, status.CurrentStep, len(status.Steps))
	}
	for _, step := range status.Steps {
		if step.Phase != platformv1.OperationSucceeded || step.StartTime == nil || step.CompletionTime == nil || step.Attempts < 1 {
			s.Errorf("step %q of Operation %q is recorded as %+v", step.Name, name, step)
		}
	}
	return operation
}

// starts is how often redis-server was started in the pod, as its agent reports it.
func (i *instance) starts() int64 {
	i.Helper()
	return i.agentReport().Starts
}

// uptime is how long redis-server says that it has been running.
func (i *instance) uptime() time.Duration {
	i.Helper()
	value, err := strconv.Atoi(i.info("uptime_in_seconds"))
	if err != nil {
		i.Fatal(err)
	}
	return time.Duration(value) * time.Second
}
