// SPDX-License-Identifier: Apache-2.0

package platform

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
	"github.com/zeroinfra/test/e2e/framework"
)

// TestLifecycleOfRedis proves that Operations change what a typed object itself declares.
func TestLifecycleOfRedis(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "lifecycle")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")

	s.Create(framework.NewOperation("stop", "Stop", i.Reference()))
	s.ExpectOperationSucceeded("stop")
	if running := i.Object().Spec.Running; running == nil || *running {
		t.Error("the Redis does not say that it is stopped")
	}
	s.Create(framework.NewOperation("start", "Start", i.Reference()))
	s.ExpectOperationSucceeded("start")
	i.WaitReady()
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	before := i.Pod()
	s.Create(framework.NewOperation("resize", "VerticalScaleResource", i.Reference(), "memory", "160Mi"))
	s.ExpectOperationSucceeded("resize")
	limit := i.Object().Spec.Resources.Limits["memory"]
	given := i.Pod().Spec.Containers[0].Resources.Limits["memory"]
	if want := resource.MustParse("160Mi"); !limit.Equal(want) || !given.Equal(want) {
		t.Errorf("the Redis declares %s and the pod has %s, want %s", limit.String(), given.String(), want.String())
	}
	t.Logf("resized, with the same pod: %t", before.UID == i.Pod().UID)
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	recorded(i, 1, "spec.resources.limits.memory: 160Mi → 192Mi", func(spec *databasev1.RedisSpec) {
		spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("192Mi")}
	})
	i.MustDo("SETRANGE", "filler", "62914560", "x")
	s.ExpectOperationRefused(framework.NewOperation("squeeze", "VerticalScaleResource", i.Reference(), "memory", "48Mi"),
		"of memory now, and a limit of 48Mi is asked for: the least that would do is")
	i.MustDo("DEL", "filler")
	s.ExpectOperationRefused(framework.NewOperation("scale", "HorizontalScale", i.Reference(), "replicas", "9"),
		"replicas")
	s.ExpectOperationRefused(framework.NewOperation("switch", "Switchover", i.Reference()), "declares no switchover")
	s.ExpectOperationRefused(framework.NewOperation("shrink", "VerticalScaleVolume", i.Reference(), "size", "1Mi"), "1Mi")
	s.ExpectOperationRefused(framework.NewOperation("downgrade", "UpgradePaaS", i.Reference(), "version", "6.0"),
		"is older")
	dry := framework.NewOperation("dry", "Stop", i.Reference())
	dry.Spec.DryRun = true
	s.Create(dry)
	if ended := s.WaitForOperationEnd("dry", framework.SettleTimeout); len(ended.Status.Plan) == 0 {
		t.Errorf("a dry run says nothing: %+v", ended.Status)
	}
	i.WaitReady()
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
}

// recorded edits an instance and waits until that is the last of so many edits on record, and has taken effect. What
// Operations edited is not among them.
func recorded(i *framework.Instance, records int, words string, edit framework.Setting) {
	i.Helper()
	i.Update(edit)
	i.WaitReady()
	i.Eventually(framework.SettleTimeout, "the record of the edit", func() error {
		var list platformv1.OperationList
		err := framework.Cluster.Client.List(i.Ctx, &list, client.InNamespace(i.Namespace.Name), client.MatchingLabels{
			platformv1.TriggerLabel: string(platformv1.TriggerSpec), platformv1.ApplicationLabel: i.Application()})
		if err != nil || len(list.Items) != records {
			return fmt.Errorf("there are %d records, want %d: %v", len(list.Items), records, err)
		}
		last := slices.MaxFunc(list.Items, func(a, b platformv1.Operation) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		if last.Status.Phase != platformv1.OperationSucceeded ||
			!strings.Contains(last.Status.Steps[0].Outputs["changed"], words) {
			return fmt.Errorf("%s is %+v", last.Name, last.Status)
		}
		return nil
	})
}

// TestLifecycleOfEtcd proves that a Switchover moves the leader where it is told to, and that nothing is lost on the
// way.
func TestLifecycleOfEtcd(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "etcdlife")
	e := &etcd{Application: s.CreateApplication("store", etcdApplication()), scheme: "http"}
	e.WaitReady()
	leader, followers := e.led()
	e.mustCtl(leader, e.service(), "put", "kept", "yes")
	target := framework.CoreReference("Application", e.Name)

	next := followers[1]
	s.Create(framework.NewOperation("switch", "Switchover", target, "to", next))
	done := s.ExpectOperationSucceeded("switch")
	if got := done.Status.Steps[0].Outputs; got["from"] != leader || got["to"] != next {
		t.Errorf("it says %v; want from %s to %s", got, leader, next)
	}
	if now, _ := e.led(); now != next {
		t.Errorf("%s leads, want %s", now, next)
	}
	s.Create(framework.NewOperation("switch-any", "Switchover", target))
	s.ExpectOperationSucceeded("switch-any")
	if now, _ := e.led(); now == next {
		t.Errorf("%s still leads", now)
	}
	s.Create(framework.NewOperation("resize", "VerticalScaleResource", target, "memoryLimit", "320Mi"))
	s.ExpectOperationSucceeded("resize")
	for _, pod := range e.Pods() {
		for _, c := range pod.Spec.Containers {
			if limit := c.Resources.Limits["memory"]; c.Name == etcdComponent && !limit.Equal(resource.MustParse("320Mi")) {
				t.Errorf("pod %s has %s", pod.Name, limit.String())
			}
		}
	}
	s.Create(framework.NewOperation("stop", "Stop", target))
	s.ExpectOperationSucceeded("stop")
	if pods := e.Pods(); len(pods) != 0 {
		t.Errorf("%d pods are left", len(pods))
	}
	s.Create(framework.NewOperation("start", "Start", target))
	s.ExpectOperationSucceeded("start")
	leader, _ = e.led()
	if got := e.mustCtl(leader, e.service(), "get", "kept", "--print-value-only"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	s.ExpectOperationRefused(framework.NewOperation("scale", "HorizontalScale", target, "replicas", "4"),
		"takes 1, 3 or 5")
	s.ExpectOperationRefused(framework.NewOperation("nobody", "Switchover", target, "to",
		fmt.Sprintf("%s-etcd-main-9", e.Name)), "cannot take over")
}

// TestScaleOfNginx proves that HorizontalScale is done when the pods are there and serve.
func TestScaleOfNginx(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "scalelife")
	s.EnsureCommonOperator()
	a := s.CreateApplication("web", nginxApplication())
	a.WaitReady()
	before := len(a.Pods())
	target := framework.CoreReference("Component", platformv1.ComponentNameFor(a.Name, "nginx"))
	s.Create(framework.NewOperation("more", "HorizontalScale", target, "replicas", fmt.Sprint(before+1)))
	s.ExpectOperationSucceeded("more")
	if now := len(a.Pods()); now != before+1 {
		t.Errorf("there are %d pods, want %d", now, before+1)
	}
	s.Create(framework.NewOperation("reload", "Reload", target))
	s.ExpectOperationSucceeded("reload")
	a.WaitReady()
}
