// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// present says which objects there are in the namespace that a step could have made or changed, with their versions.
func (f *fixture) present() string {
	f.t.Helper()
	var all []string
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &batchv1.JobList{}, &platformv1.ApplicationList{},
		&platformv1.WorkloadSetList{}} {
		if err := env.Client.List(f.t.Context(), list, client.InNamespace(f.namespace)); err != nil {
			f.t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, err := meta.Accessor(item)
			if err == nil {
				all = append(all, fmt.Sprintf("%T %s at %s", item, obj.GetName(), obj.GetResourceVersion()))
			}
			return err
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return strings.Join(all, ", ")
}

// What a step of a template asks for and the cluster or the instance does not have fails it with a sentence, and
// nothing is touched.
func TestWhatAStepCannotHaveIsRefused(t *testing.T) {
	f := newFixture(t, 1)
	bundle := testBundle()
	cases := map[string]struct{ step, says string }{
		"NoVersion": {"apply: {apiVersion: a/b/c, kind: ConfigMap, name: sign}",
			`"a/b/c" is no apiVersion: unexpected GroupVersion string: a/b/c`},
		"NoKind": {"apply: {apiVersion: example.com/v1, kind: Toaster, name: sign}",
			"the cluster has no kind Toaster of example.com/v1"},
		"Cluster": {"delete: {apiVersion: v1, kind: Namespace, name: default}",
			"Namespace of v1 belongs to no namespace: a step acts within that of its target only"},
		"Absent": {"patch: {apiVersion: v1, kind: ConfigMap, name: sign, content: {data: {a: b}}}",
			`there is no ConfigMap "sign" to patch`},
		"BadName": {"apply: {apiVersion: v1, kind: ConfigMap, name: Not_A_Name}",
			`cannot apply ConfigMap "Not_A_Name": ConfigMap "Not_A_Name" is invalid`},
		"Nowhere": {"job: {command: [count]}",
			`Application "redis-a" has no pods of component "sentinel" that a job could be like`},
	}
	bundle.Components.Topologies = []schema.Topology{
		{Name: "standalone", Components: []schema.TopologyComponent{{Name: "sentinel"}}}}
	for name, tc := range cases {
		bundle.Operations[name] = parsed(fmt.Sprintf("name: %s\nsteps:\n  - name: do\n    %s\n", name, tc.step))
	}
	f.index = plugin.NewIndex()
	f.index.Set("redis", "1.0.0", bundle, nil)
	f.controller(nil)
	before := f.present()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f.t = t
			op := f.operation(strings.ToLower(name), name, nil)
			f.waitPhase(op, platformv1.OperationFailed)
			if !strings.Contains(op.Status.Error, tc.says) {
				t.Errorf("it says %q, want %q", op.Status.Error, tc.says)
			}
			if len(op.Status.Steps) != 1 {
				t.Fatalf("the steps are %+v", op.Status.Steps)
			}
			if step := op.Status.Steps[0]; step.Phase != platformv1.OperationFailed || step.Attempts != 1 {
				t.Errorf("the step is %+v", step)
			}
		})
	}
	f.t = t
	if after := f.present(); after != before {
		t.Errorf("there is %s, before %s", after, before)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}

// A job that is to have the volumes of a pod is not made while the set of that runs.
func TestAJobWithTheVolumesOfAPodThatRunsIsNotMade(t *testing.T) {
	f := newFixture(t, 1)
	f.stopAgents(0)
	bundle := testBundle()
	bundle.Components.Components = []schema.Component{{Name: "redis", Container: "redis"}}
	f.index = plugin.NewIndex()
	f.index.Set("redis", "1.0.0", bundle, nil)
	rights := f.client(env.System.Config)
	c := &Controller{Deps: Deps{Index: f.index, Settings: f.settings, Domain: testDomain}, client: rights, live: rights}
	app := &platformv1.Application{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "redis-a"}, app); err != nil {
		t.Fatal(err)
	}
	op := f.operation("check", "Restart", nil)
	before := f.present()
	answer, err := c.job(t.Context(), op, &observation{application: app.Name, facts: opsflow.Facts{Application: app}},
		&opsflow.Job{Verb: opsflow.JobRun, Name: "check-do", Component: "redis", Pod: podName(0), Command: []string{"count"}})
	want := setName + " is running, and a job that has the volumes of pod " + podName(0) + " needs it stopped"
	if err != nil || answer == nil || answer.Failure != opsflow.FailureRefused || answer.Problem != want {
		t.Errorf("the answer is %+v, %v; want %q", answer, err, want)
	}
	if after := f.present(); after != before {
		t.Errorf("there is %s, before %s", after, before)
	}
}
