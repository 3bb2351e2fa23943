// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// settled has the pods of a set be members under the first of them, which writes, as after a founding; it plays their
// agents.
func settled(t *testing.T, set *platformv1.WorkloadSet) {
	t.Helper()
	const identity = "%032x"
	first := set.Name + "-0"
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i)}}
		refresh(t, pod)
		said, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		said.Member = &report.Member{Identity: fmt.Sprintf(identity, i), Promised: 1, Primary: first}
		if i == 0 {
			said.Member.Term, said.Member.ListVersion, said.Member.Writing = 1, 1, true
		}
		reported := pod.DeepCopy()
		reported.Annotations[platformv1.ReportAnnotation] = said.String()
		if err := env.Client.Patch(t.Context(), reported, client.MergeFrom(pod)); err != nil {
			t.Fatal(err)
		}
	}
	writes(t, set, func(r *platformv1.PrimaryRecord) {
		r.Term, r.Member = 1, &platformv1.SetMember{Name: first, Identity: fmt.Sprintf(identity, 0)}
		r.List.Version = 1
		for i := range 3 {
			r.List.Members = append(r.List.Members,
				platformv1.SetMember{Name: fmt.Sprintf("%s-%d", set.Name, i), Identity: fmt.Sprintf(identity, i)})
		}
	})
	labelled(t, set.Namespace, first)
}

// Where the engine names who writes, the plan has the writer hand over before its pod is taken out, after the others,
// and to one of those.
func TestPlanOfASetWithAWriter(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app, members := replicated(t, namespace)
	// Nobody answers calls here: the engine is to depose nobody for that.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Failover = &platformv1.Failover{Mode: platformv1.FailoverManual}
	})
	settled(t, members)
	testkit.WaitForReady(t, env.Client, app)
	check := untouched(t, app)
	c := cluster{t, env.Kubeconfig(t), namespace}
	for name, fields := range map[string]map[string]any{
		"writerreplaced":  {"scheduling": map[string]any{"nodeSelector": map[string]any{"disk": "fast"}}},
		"writerrestarted": {"parameters": map[string]any{"databases": int64(20)}},
	} {
		fields["name"] = "redis"
		out, errs, code := c.zictl(edited(t, app, "Application",
			func(u *unstructured.Unstructured) { set(t, u, []any{fields}, "components") }))
		if code != 1 || errs != "" {
			t.Errorf("%s: it ends with %d: %s", name, code, errs)
		}
		c.golden(name, out)
	}
	check()
}
