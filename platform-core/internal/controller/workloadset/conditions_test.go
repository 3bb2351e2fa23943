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
	hangs := rollout.Pod{Name: "a-0", Role: "primary",
		Report: agentreport.Report{Health: agentreport.Unhealthy, Message: "no answer within 5s"}}
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
		{"what was wrong is the last that is known", []rollout.Pod{hangs}, "False Before as it was"},
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

// A condition that was True is not known to be so while the pod that it speaks of does not respond.
func TestDeclaredConditionIsUnknownWhileItsPodDoesNotRespond(t *testing.T) {
	declared := platformv1.SetCondition{Type: "Writable", Roles: []string{"primary"}, Status: "attributes['writable']",
		Reason: "'Said'", Message: "'it is said'"}
	pod := func(role string, health agentreport.Health) rollout.Pod {
		return rollout.Pod{Name: "a-0", Role: role, Report: agentreport.Report{Health: health, Role: role,
			Message: "no answer", Attributes: map[string]string{"writable": "True"}}}
	}
	cut, ends := pod("primary", agentreport.Healthy), pod("primary", agentreport.Unhealthy)
	cut.Node, ends.Life = rollout.Unreachable, rollout.Terminating
	const unknown = "Unknown NotResponding pod a-0 does not respond: "
	set := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Conditions: []platformv1.SetCondition{declared}}}
	for _, c := range []struct {
		what string
		pods []rollout.Pod
		want string
	}{
		{"a replica does not respond", []rollout.Pod{pod("replica", agentreport.Unhealthy)}, "True"},
		{"the process starts", []rollout.Pod{pod("primary", agentreport.Starting)}, "True"},
		{"the pod ends", []rollout.Pod{ends}, "True"},
		{"the process hangs", []rollout.Pod{pod("primary", agentreport.Unhealthy)}, unknown + "no answer"},
		{"the process is stopped", []rollout.Pod{pod("primary", agentreport.Stopped)}, unknown + "its process was stopped"},
		{"the node is away", []rollout.Pod{cut}, unknown + "its node is unreachable"},
		{"another one is the primary", []rollout.Pod{pod("", agentreport.Unhealthy), pod("primary", agentreport.Healthy)},
			"True Said it is said"},
	} {
		before := metav1.Condition{Type: "Writable", Status: metav1.ConditionTrue, Reason: "Said", Message: "it is said"}
		conditions.Set(set, before)
		reportConditions(set, c.pods)
		has := conditions.Get(set, "Writable")
		if got := fmt.Sprintf("%s %s %s", has.Status, has.Reason, has.Message); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: it says %q, want %q", c.what, got, c.want)
		}
		// Nobody says anything of it: it stays as it is.
		reportConditions(set, nil)
		if after := conditions.Get(set, "Writable"); *after != *has {
			t.Errorf("%s: afterwards it says %v", c.what, after)
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
