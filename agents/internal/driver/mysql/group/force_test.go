// SPDX-License-Identifier: Apache-2.0

package group

import (
	"strings"
	"testing"
)

func TestForce(t *testing.T) {
	lost := func(pods ...string) Loss {
		return Loss{Members: three.Members[0], Lost: pods, From: "a"}
	}
	for _, tc := range []struct {
		name, members string
		missing       map[[2]string]string
		loss          Loss
		// want has words of what is done, and look of what LookForced says before.
		want, look string
	}{
		{"two are gone", "a:OFFLINE b:down c:down", nil, lost("b", "c"), "Working bootstrap a",
			"b does not answer: its transactions are not known; c does not answer"},
		{"the others have left", "a:ONLINE:PRIMARY b:UNREACHABLE c:UNREACHABLE", nil, lost("b", "c"), "Working leave a",
			"b does not answer"},
		{"one is not declared", "a:OFFLINE b:down c:down", nil, lost("b"),
			"Refused c does not answer, and is not declared lost", "c does not answer, and is not declared"},
		{"another one has more", "a:OFFLINE b:OFFLINE c:down", map[[2]string]string{{"b", "a"}: "x:9"}, lost("c"),
			"Refused b has transactions that a has not: x:9. Begin with b", "Begin with b"},
		{"another one has less", "a:OFFLINE b:OFFLINE c:down", map[[2]string]string{{"a", "b"}: "x:9"}, lost("c"),
			"Working bootstrap a", "c does not answer"},
		{"nobody has all", "a:OFFLINE b:OFFLINE c:OFFLINE",
			map[[2]string]string{{"a", "b"}: "y:1", {"b", "a"}: "z:1", {"a", "c"}: "y:1"}, lost("b"), "Working bootstrap a",
			"b has z:1, and a has not"},
		{"all answer and one has all", "a:OFFLINE b:OFFLINE c:OFFLINE", nil, lost("b"), "Working bootstrap a",
			"all members answer, and a has all transactions: the group goes on by itself"},
		{"it has begun", "a:ONLINE:PRIMARY b:down c:down", nil, lost("b", "c"), "Done",
			"a is in a group that has most of its members"},
		{"most are there", "a:OFFLINE b:ONLINE:PRIMARY c:ONLINE", nil, lost("b"),
			"Refused b is in a group that takes writes, and so not lost", "is in a group"},
		{"most are there without the first", "a:OFFLINE b:ONLINE:PRIMARY c:down", nil, lost("c"),
			"Refused b is in a group that takes writes, and a is not", "is in a group"},
		{"no data", "a:OFFLINE b:down c:down", nil, lost("b", "c"),
			"Refused a, which the group is to begin with, has no data", "has no data"},
		{"the first is silent", "a:down b:OFFLINE c:OFFLINE", nil, lost("b"),
			"Refused a, which the group is to begin with, does not answer", "does not answer"},
		{"an unknown one", "a:OFFLINE b:down c:down", nil, lost("d"),
			"Refused \"d\", which is declared lost, is no member: those are a, b, c", "is no member"},
		{"twice", "a:OFFLINE b:down c:down", nil, lost("b", "b"), "Refused b is declared lost twice", "twice"},
		{"none", "a:OFFLINE b:down c:down", nil, lost(), "Refused no member is declared lost", "no member"},
		{"the first itself", "a:OFFLINE b:down c:down", nil, lost("a"),
			"Refused a is declared lost, and the group is to begin with it", "declared lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := members(tc.members)
			f.missing = tc.missing
			if tc.name == "no data" {
				f.views["a"] = view{uuid: "a", sees: map[string]seen{}}
			}
			s := force(f, tc.loss)
			got := strings.Join([]string{s.phase, string(s.action), s.pod, s.reason}, " ")
			for word := range strings.FieldsSeq(tc.want) {
				if !strings.Contains(got, word) {
					t.Fatalf("got %s, want %s", got, tc.want)
				}
			}
			look := s.reason
			if err := tc.loss.refused(f); err != nil {
				look = err.Error()
			} else if s.phase == Working {
				look = tc.loss.givenUp(f)
			}
			if !strings.Contains(look, tc.look) {
				t.Errorf("before it says %q, want %q", look, tc.look)
			}
		})
	}
}

// What a person has to do is said for as long as it is so, and not of a group that is about to begin for the first
// time.
func TestLostAndQuarantinedAreSaid(t *testing.T) {
	for _, tc := range []struct {
		name, members     string
		missing           map[[2]string]string
		history           History
		lost, quarantined string
	}{
		{"all are in", "a:ONLINE:PRIMARY b:ONLINE c:ONLINE", nil, Formed, "", ""},
		{"one is gone", "a:ONLINE:PRIMARY b:ONLINE c:down", nil, Formed, "", ""},
		{"most are gone", "a:OFFLINE b:down c:down", nil, Formed, "b, c cannot be asked which transactions they have. The " +
			"group goes on when they are back. If their volumes are gone for good, run ForceQuorum with from=a and lost=b,c",
			""},
		{"a group without most", "a:ONLINE:PRIMARY b:UNREACHABLE c:UNREACHABLE", nil, Formed, "with from=a and lost=b,c", ""},
		{"the one with all is named", "a:OFFLINE b:OFFLINE c:down", map[[2]string]string{{"b", "a"}: "x:9"}, Formed,
			"with from=b and lost=c,", ""},
		{"none of the others has all", "a:OFFLINE b:OFFLINE c:down",
			map[[2]string]string{{"b", "a"}: "x:9", {"a", "b"}: "y:9"}, Formed,
			"Of the others none has all transactions: a has y:9, and b has not; b has x:9", ""},
		{"not yet begun", "a:OFFLINE b:down c:down", nil, Unformed, "", ""},
		{"two have diverged", "a:ONLINE:PRIMARY b:OFFLINE c:OFFLINE",
			map[[2]string]string{{"b", "a"}: "y:1", {"c", "a"}: "z:1"}, Formed, "",
			"b has transactions that the group has not, and stays out of it: y:1; c has transactions that the group has not, " +
				"and stays out of it: z:1"},
		{"one has diverged, another joins", "a:ONLINE:PRIMARY b:OFFLINE c:OFFLINE", map[[2]string]string{{"b", "a"}: "y:1"},
			Formed, "", "b has transactions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := members(tc.members)
			f.missing = tc.missing
			s := next(f, three, tc.history)
			if (s.lost == "") != (tc.lost == "") || !strings.Contains(s.lost, tc.lost) {
				t.Errorf("of a loss it says %q, want %q", s.lost, tc.lost)
			}
			if (s.quarantined == "") != (tc.quarantined == "") || !strings.Contains(s.quarantined, tc.quarantined) {
				t.Errorf("of those who stay out it says %q, want %q", s.quarantined, tc.quarantined)
			}
		})
	}
}

// All see each other no more, and all answer: nobody is lost.
func TestMembersThatSeeNobody(t *testing.T) {
	f := found{views: map[string]view{}}
	for _, pod := range three.Members[0] {
		f.views[pod] = view{uuid: pod, id: "1:1", transactions: "x:1",
			sees: map[string]seen{"a": {"UNREACHABLE", ""}, "b": {"UNREACHABLE", ""}, "c": {"UNREACHABLE", ""}}}
		f.views[pod].sees[pod] = seen{stateOnline, rolePrimary}
	}
	if s := next(f, three, Formed); s.phase != Waiting || !strings.Contains(s.lost, "Check the network") {
		t.Errorf("got %+v", s)
	}
}
