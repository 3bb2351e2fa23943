// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// NewRestartOperation returns an Operation that restarts the process of a target.
func NewRestartOperation(name string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{
		ObjectMeta: ObjectMeta(name),
		Spec:       platformv1.OperationSpec{TemplateRef: "Restart", TargetRef: target},
	}
}

// Reference names the instance itself.
func (i *Instance) Reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: databasev1.GroupVersion.String(), Kind: "Redis", Name: i.Name}
}

// CoreReference names an object of the engine.
func CoreReference(kind, name string) platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: kind, Name: name}
}

// CurrentUser is who runs the tests.
func (s *Namespace) CurrentUser() string {
	s.Helper()
	me := &authenticationv1.SelfSubjectReview{}
	if err := Cluster.Client.Create(s.Ctx, me); err != nil {
		s.Fatal(err)
	}
	return me.Status.UserInfo.Username
}

// CreateApproved creates an Operation, and has somebody else approve it.
func (s *Namespace) CreateApproved(op *platformv1.Operation) {
	s.Helper()
	op.Spec.Author = s.CurrentUser()
	s.Create(op)
	s.Eventually(SettleTimeout, "the Operation waits for an approval", func() error {
		if err := s.Get(op.Name, op); err != nil {
			return err
		}
		if op.Status.Phase != platformv1.OperationAwaitingApproval {
			return fmt.Errorf("it is %q: %s", op.Status.Phase, op.Status.Error)
		}
		return nil
	})
	other := rest.CopyConfig(Cluster.Config)
	other.Impersonate = rest.ImpersonationConfig{UserName: "somebody-else", Groups: []string{"system:masters"}}
	c, err := client.New(other, client.Options{Scheme: Cluster.Client.Scheme()})
	if err != nil {
		s.Fatal(err)
	}
	before := op.DeepCopy()
	op.Spec.Approval = &platformv1.OperationApproval{By: other.Impersonate.UserName,
		Decision: platformv1.OperationApproved}
	if err := c.Patch(s.Ctx, op, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// WaitForOperation waits until an Operation that takes its time has succeeded.
func (s *Namespace) WaitForOperation(name string) {
	s.Helper()
	if ended := s.WaitForOperationEnd(name, 3*ReadyTimeout); ended.Status.Phase != platformv1.OperationSucceeded {
		s.Fatalf("Operation %q is %s: %s", name, ended.Status.Phase, ended.Status.Error)
	}
}

// WaitForOperationEnd waits until an Operation has ended and returns it.
func (s *Namespace) WaitForOperationEnd(name string, limit time.Duration) *platformv1.Operation {
	s.Helper()
	operation := &platformv1.Operation{}
	s.Eventually(limit, fmt.Sprintf("Operation %q ends", name), func() error {
		if err := s.Get(name, operation); err != nil {
			return err
		}
		switch operation.Status.Phase {
		case platformv1.OperationSucceeded, platformv1.OperationFailed:
			return nil
		}
		return fmt.Errorf("it is %q at step %q: %s", operation.Status.Phase, operation.Status.Progress,
			Describe(operation.Status.Conditions))
	})
	return operation
}

// ExpectOperationSucceeded is WaitForOperationEnd for an Operation that must succeed. It checks the record that is
// left.
func (s *Namespace) ExpectOperationSucceeded(name string) *platformv1.Operation {
	s.Helper()
	operation := s.WaitForOperationEnd(name, SettleTimeout)
	status := operation.Status
	if status.Phase != platformv1.OperationSucceeded {
		s.Fatalf("Operation %q failed: %s", name, status.Error)
	}
	if err := ReadyNow(operation, status.ObservedGeneration); err != nil {
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
		if step.Phase != platformv1.OperationSucceeded || step.StartTime == nil || step.CompletionTime == nil ||
			step.Attempts < 1 {
			s.Errorf("step %q of Operation %q is recorded as %+v", step.Name, name, step)
		}
	}
	return operation
}

// ProcessStarts is how often redis-server was started in the pod, as its agent reports it.
func (i *Instance) ProcessStarts() int64 {
	i.Helper()
	return i.agentReport().Starts
}

// Uptime is how long redis-server says that it has been running.
func (i *Instance) Uptime() time.Duration {
	i.Helper()
	value, err := strconv.Atoi(i.Info("uptime_in_seconds"))
	if err != nil {
		i.Fatal(err)
	}
	return time.Duration(value) * time.Second
}

// NewOperation returns one with these parameters, in pairs.
func NewOperation(name, template string, target platformv1.TargetReference,
	parameters ...string) *platformv1.Operation {
	op := &platformv1.Operation{ObjectMeta: ObjectMeta(name),
		Spec: platformv1.OperationSpec{TemplateRef: template, TargetRef: target, Parameters: platformv1.Parameters{}}}
	for i := 0; i < len(parameters); i += 2 {
		op.Spec.Parameters[parameters[i]] = platformv1.ParameterValue(parameters[i+1])
	}
	return op
}

// ExpectOperationRefused runs an Operation that has to fail, and checks what it says.
func (s *Namespace) ExpectOperationRefused(op *platformv1.Operation, want string) {
	s.Helper()
	s.Create(op)
	ended := s.WaitForOperationEnd(op.Name, ErrorTimeout)
	if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, want) {
		s.Errorf("Operation %q is %q: %q; want Failed and %q", op.Name, ended.Status.Phase, ended.Status.Error, want)
	}
	s.Logf("%s refused: %s", op.Spec.TemplateRef, ended.Status.Error)
}

// ExpectRefused has the test fail unless an error is the API server's refusal with these texts in it.
func (s *Namespace) ExpectRefused(err error, texts ...string) {
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
