// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

func TestDeclaredConditions(t *testing.T) {
	declared := platformv1.SetCondition{Type: "Saving", Roles: []string{"primary"},
		Status: "attributes['saving'] == '' ? '' : attributes['saving'] == 'no' ? 'False' : 'True'",
		Reason: "attributes['saving'] == 'no' ? 'Fails' : attributes['saving']", Message: "'it is ' + attributes['saving']"}
	pod := func(role, saving string) rollout.Pod {
		return rollout.Pod{Name: role, Role: role,
			Report: agentreport.Report{Health: agentreport.Healthy, Role: role, Attributes: map[string]string{"saving": saving}}}
	}
	gone := pod("primary", "no")
	gone.Life = rollout.Terminating
	// One that nobody hears of any more has lost the label.
	former := pod("primary", "no")
	former.Role = ""
	copying := pod("primary", "no")
	copying.Report.Health = agentreport.Starting
	silent := rollout.Pod{Name: "silent", Role: "primary"}
	for _, c := range []struct {
		what string
		pods []rollout.Pod
		want string
	}{
		{"the primary says", []rollout.Pod{pod("replica", "no"), pod("primary", "Well")}, "True Well it is Well"},
		{"what is not well comes first", []rollout.Pod{pod("primary", "Well"), pod("primary", "no"), pod("primary", "Well")},
			"False Fails it is no"},
		{"there is nothing to say", []rollout.Pod{pod("primary", ""), pod("replica", "no")}, ""},
		{"pods that do not count", []rollout.Pod{gone, former, copying}, "False Before as it was"},
		{"nobody says anything", []rollout.Pod{silent}, "False Before as it was"},
		{"no word", []rollout.Pod{pod("primary", "two words")}, "Unknown CannotTell"},
		{"an attribute is missing", []rollout.Pod{{Name: "old", Role: "primary",
			Report: agentreport.Report{Health: agentreport.Healthy, Attributes: map[string]string{"other": ""}}}},
			"Unknown CannotTell"},
	} {
		set := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Conditions: []platformv1.SetCondition{declared}}}
		conditions.Set(set, metav1.Condition{Type: "Saving", Status: metav1.ConditionFalse, Reason: "Before",
			Message: "as it was"})
		conditions.Set(set, metav1.Condition{Type: "Dropped", Status: metav1.ConditionTrue, Reason: "Before"})
		conditions.Set(set, metav1.Condition{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
		reportConditions(set, c.pods)
		got := ""
		if has := conditions.Get(set, "Saving"); has != nil {
			got = fmt.Sprintf("%s %s %s", has.Status, has.Reason, has.Message)
		}
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q", c.what, got)
		}
		if conditions.Get(set, "Dropped") != nil || conditions.Get(set, platformv1.ReadyCondition) == nil {
			t.Errorf("%s: there are %v", c.what, set.Status.Conditions)
		}
	}
}

func TestOutOfConnectionsIsACondition(t *testing.T) {
	pod := func(name, said string) rollout.Pod {
		return rollout.Pod{Name: name, Report: agentreport.Report{Health: agentreport.Healthy, OutOfConnections: said}}
	}
	gone := pod("a-2", "too many clients")
	gone.Life = rollout.Terminating
	set := &platformv1.WorkloadSet{}
	reported := func(pods ...rollout.Pod) string {
		reportConditions(set, pods)
		has := conditions.Get(set, platformv1.ConnectionsAvailableCondition)
		if has == nil {
			return ""
		}
		return fmt.Sprintf("%s %s %s", has.Status, has.Reason, has.Message)
	}
	if said := reported(pod("a-0", ""), pod("a-1", ""), gone); said != "" {
		t.Errorf("with connections left it says %q", said)
	}
	want := "False TooManyClients clients have all connections of pod a-0 (too many clients). New clients are turned away."
	if said := reported(pod("a-0", "too many clients"), pod("a-1", "")); !strings.HasPrefix(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
	if set.Status.Conditions == nil || len(conditions.Declared(set)) != 1 {
		t.Errorf("what is above the set is told of %v", conditions.Declared(set))
	}
	if said := reported(pod("a-0", "")); said != "" {
		t.Errorf("afterwards it says %q", said)
	}
}
