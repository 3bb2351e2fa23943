// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func text(t *testing.T, p plan.Plan) []byte {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reported takes the report that is to be written, as the API server would.
func reported(t *testing.T, m *member) report.Report {
	t.Helper()
	written, news := m.unwritten()
	if !news {
		t.Fatal("there is nothing to write")
	}
	m.wrote(written)
	if _, news := m.unwritten(); news {
		t.Fatal("a report is written twice")
	}
	r, err := report.Parse(written)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMemberReportsOncePerChange(t *testing.T) {
	m := &member{role: primary}
	if _, err := m.call(reloads, "early", nil); err == nil {
		t.Error("a process that has not started takes a call")
	}
	m.start(plan.Plan{Digest: "a", RestartDigest: "r"})
	if r := reported(t, m); r.Health != report.Healthy || r.Role != primary || r.ConfigDigest != "a" ||
		r.RestartDigest != "r" || r.Starts != 1 {
		t.Errorf("after the start: %+v", r)
	}
	for range 2 {
		call, err := m.call(reloads, "one", text(t, plan.Plan{Digest: "b", RestartDigest: "r"}))
		if err != nil || call.Phase != report.CallSucceeded || call.Key != "one" {
			t.Fatalf("reload: %+v, %v", call, err)
		}
	}
	if r := reported(t, m); r.ConfigDigest != "b" || r.Starts != 1 || r.LastCall == nil || r.LastCall.Key != "one" {
		t.Errorf("after the reload: %+v", r)
	}
	call, err := m.call(reloads, "two", text(t, plan.Plan{Digest: "c", RestartDigest: "s"}))
	if err != nil || call.Phase != report.CallFailed || call.Reason != report.ReasonRestartRequired {
		t.Errorf("a reload that cannot be: %+v, %v", call, err)
	}
	if _, err := m.call(restarts, "three", text(t, plan.Plan{Digest: "c", RestartDigest: "s"})); err != nil {
		t.Fatal(err)
	}
	if r := reported(t, m); r.ConfigDigest != "c" || r.RestartDigest != "s" || r.Starts != 2 {
		t.Errorf("after the restart: %+v", r)
	}
	if _, err := m.call(restarts, "four", []byte("{")); err == nil {
		t.Error("a broken plan is taken")
	}
}

func pod(uid, ordinal string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "p", UID: types.UID(uid), Labels: map[string]string{platformv1.OrdinalLabel: ordinal},
		OwnerReferences: []metav1.OwnerReference{{Kind: "WorkloadSet", Name: "set", Controller: new(true)}},
	}}
}

func TestRegistryTellsPodsOfOneNameApart(t *testing.T) {
	r, name := newRegistry(), types.NamespacedName{Namespace: "n", Name: "p"}
	first, fresh := r.begin(pod("1", "0"))
	if !fresh || first.set != "set" || first.role != primary {
		t.Errorf("got %+v, fresh %v", first, fresh)
	}
	if again, fresh := r.begin(pod("1", "0")); fresh || again != first {
		t.Error("a pod that is known is taken for another")
	}
	second, fresh := r.begin(pod("2", "1"))
	if !fresh || second.role != replica {
		t.Errorf("got %+v, fresh %v", second, fresh)
	}
	r.end(pod("1", "0"))
	if found, err := r.find(name); err != nil || found != second {
		t.Errorf("the end of an old pod takes the new one along: %v", err)
	}
	r.end(pod("2", "1"))
	if _, err := r.find(name); err == nil {
		t.Error("a pod that is gone is found")
	}
}

func TestPodOf(t *testing.T) {
	got, err := podOf("a-0.shop.agent.zeroinfra.github.com")
	if want := (types.NamespacedName{Namespace: "shop", Name: "a-0"}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, name := range []string{"", "a", "a.b", "a.b.c.d", ".b.agent.x", "a..agent.x"} {
		if _, err := podOf(name); err == nil {
			t.Errorf("%q is taken for the name of an agent", name)
		}
	}
}
