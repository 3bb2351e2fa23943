// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// operation returns one with these parameters, in pairs.
func operation(name, template string, target platformv1.TargetReference, parameters ...string) *platformv1.Operation {
	op := &platformv1.Operation{ObjectMeta: named(name), Spec: platformv1.OperationSpec{TemplateRef: template, TargetRef: target, Parameters: platformv1.Parameters{}}}
	for i := 0; i < len(parameters); i += 2 {
		op.Spec.Parameters[parameters[i]] = platformv1.ParameterValue(parameters[i+1])
	}
	return op
}

// refusedOperation runs an Operation that has to fail, and checks what it says.
func (s *space) refusedOperation(op *platformv1.Operation, want string) {
	s.Helper()
	s.create(op)
	ended := s.finished(op.Name, errorIn)
	if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, want) {
		s.Errorf("Operation %q is %q: %q; want Failed and %q", op.Name, ended.Status.Phase, ended.Status.Error, want)
	}
	s.Logf("%s refused: %s", op.Spec.TemplateRef, ended.Status.Error)
}

// TestLifecycleOfRedis proves that Operations change what a typed object itself declares.
func TestLifecycleOfRedis(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "lifecycle")
	i := s.redis("db", safe())
	i.ready()
	i.must("SET", "kept", "yes")

	s.create(operation("stop", "Stop", i.reference()))
	s.succeeded("stop")
	if running := i.object().Spec.Running; running == nil || *running {
		t.Error("the Redis does not say that it is stopped")
	}
	s.create(operation("start", "Start", i.reference()))
	s.succeeded("start")
	i.ready()
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	before := i.pod()
	s.create(operation("resize", "VerticalScaleResource", i.reference(), "memory", "160Mi"))
	s.succeeded("resize")
	limit := i.object().Spec.Resources.Limits["memory"]
	given := i.pod().Spec.Containers[0].Resources.Limits["memory"]
	if want := resource.MustParse("160Mi"); !limit.Equal(want) || !given.Equal(want) {
		t.Errorf("the Redis declares %s and the pod has %s, want %s", limit.String(), given.String(), want.String())
	}
	t.Logf("resized, with the same pod: %t", before.UID == i.pod().UID)
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	i.recorded(1, "spec.resources.limits.memory: 160Mi → 192Mi", func(spec *databasev1.RedisSpec) {
		spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("192Mi")}
	})
	i.must("SETRANGE", "filler", "62914560", "x")
	s.refusedOperation(operation("squeeze", "VerticalScaleResource", i.reference(), "memory", "48Mi"), "of memory now, and a limit of 48Mi is asked for: the least that would do is")
	i.must("DEL", "filler")
	s.refusedOperation(operation("scale", "HorizontalScale", i.reference(), "replicas", "9"), "replicas")
	s.refusedOperation(operation("switch", "Switchover", i.reference()), "declares no switchover")
	s.refusedOperation(operation("shrink", "VerticalScaleVolume", i.reference(), "size", "1Mi"), "1Mi")
	s.refusedOperation(operation("downgrade", "UpgradePaaS", i.reference(), "version", "6.0"), "is older")
	dry := operation("dry", "Stop", i.reference())
	dry.Spec.DryRun = true
	s.create(dry)
	if ended := s.finished("dry", settleIn); len(ended.Status.Plan) == 0 {
		t.Errorf("a dry run says nothing: %+v", ended.Status)
	}
	i.ready()
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
}

// recorded edits an instance and waits until that is the last of so many edits on record, and has taken effect. What Operations edited is not
// among them.
func (i *instance) recorded(records int, words string, edit setting) {
	i.Helper()
	i.update(edit)
	i.ready()
	i.eventually(settleIn, "the record of the edit", func() error {
		var list platformv1.OperationList
		err := world.client.List(i.ctx, &list, client.InNamespace(i.space.name), client.MatchingLabels{
			platformv1.TriggerLabel: string(platformv1.TriggerSpec), platformv1.ApplicationLabel: i.application()})
		if err != nil || len(list.Items) != records {
			return fmt.Errorf("there are %d records, want %d: %v", len(list.Items), records, err)
		}
		last := slices.MaxFunc(list.Items, func(a, b platformv1.Operation) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		if last.Status.Phase != platformv1.OperationSucceeded || !strings.Contains(last.Status.Steps[0].Outputs["changed"], words) {
			return fmt.Errorf("%s is %+v", last.Name, last.Status)
		}
		return nil
	})
}

// TestLifecycleOfEtcd proves that a Switchover moves the leader where it is told to, and that nothing is lost on the way.
func TestLifecycleOfEtcd(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "etcdlife")
	e := &etcd{application: s.apply("store", etcdApplication()), scheme: "http"}
	e.ready()
	leader, followers := e.led()
	e.mustCtl(leader, e.service(), "put", "kept", "yes")
	target := coreReference("Application", e.name)

	next := followers[1]
	s.create(operation("switch", "Switchover", target, "to", next))
	done := s.succeeded("switch")
	if got := done.Status.Steps[0].Outputs; got["from"] != leader || got["to"] != next {
		t.Errorf("it says %v; want from %s to %s", got, leader, next)
	}
	if now, _ := e.led(); now != next {
		t.Errorf("%s leads, want %s", now, next)
	}
	s.create(operation("switch-any", "Switchover", target))
	s.succeeded("switch-any")
	if now, _ := e.led(); now == next {
		t.Errorf("%s still leads", now)
	}
	s.create(operation("resize", "VerticalScaleResource", target, "memoryLimit", "320Mi"))
	s.succeeded("resize")
	for _, pod := range e.pods() {
		for _, c := range pod.Spec.Containers {
			if limit := c.Resources.Limits["memory"]; c.Name == etcdComponent && !limit.Equal(resource.MustParse("320Mi")) {
				t.Errorf("pod %s has %s", pod.Name, limit.String())
			}
		}
	}
	s.create(operation("stop", "Stop", target))
	s.succeeded("stop")
	if pods := e.pods(); len(pods) != 0 {
		t.Errorf("%d pods are left", len(pods))
	}
	s.create(operation("start", "Start", target))
	s.succeeded("start")
	leader, _ = e.led()
	if got := e.mustCtl(leader, e.service(), "get", "kept", "--print-value-only"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	s.refusedOperation(operation("scale", "HorizontalScale", target, "replicas", "5"), "cannot be scaled once it is made")
	s.refusedOperation(operation("nobody", "Switchover", target, "to", fmt.Sprintf("%s-etcd-main-9", e.name)), "cannot take over")
}

// TestScaleOfNginx proves that HorizontalScale is done when the pods are there and serve.
func TestScaleOfNginx(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "scalelife")
	s.commonOperatorServes()
	a := s.apply("web", nginxApplication())
	a.ready()
	before := len(a.pods())
	target := coreReference("Component", platformv1.ComponentNameFor(a.name, "nginx"))
	s.create(operation("more", "HorizontalScale", target, "replicas", fmt.Sprint(before+1)))
	s.succeeded("more")
	if now := len(a.pods()); now != before+1 {
		t.Errorf("there are %d pods, want %d", now, before+1)
	}
	s.create(operation("reload", "Reload", target))
	s.succeeded("reload")
	a.ready()
}
