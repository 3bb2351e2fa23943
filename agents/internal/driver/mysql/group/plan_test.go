// SPDX-License-Identifier: Apache-2.0

package group

import (
	"strings"
	"testing"
)

var three = Shape{Members: [][]string{{"a", "b", "c"}}}

// members are views by pod; the uuid of a pod is its name. Each word is <pod>:<state>[:<role>], and all of them see
// the same. A * behind a pod is for a certificate that is outdated, and a - for an empty volume.
func members(words string) found {
	f := found{views: map[string]view{}, missing: map[[2]string]string{}}
	sees := map[string]seen{}
	plain := strings.NewReplacer("*", "", "-", "")
	for word := range strings.FieldsSeq(plain.Replace(words)) {
		parts := append(strings.Split(word, ":"), "SECONDARY")
		if parts[1] != "OFFLINE" && parts[1] != "down" {
			sees[parts[0]] = seen{parts[1], parts[2]}
		}
	}
	for word := range strings.FieldsSeq(words) {
		parts := strings.Split(plain.Replace(word), ":")
		v := view{uuid: parts[0], transactions: "x:1-9", sees: map[string]seen{}, outdated: strings.Contains(word, "*")}
		if strings.Contains(word, "-") {
			v.transactions = ""
		}
		switch parts[1] {
		case "down", "UNREACHABLE":
			v = view{problem: "no route"}
		case "OFFLINE":
		default:
			v.id, v.sees = "1:1", sees
		}
		f.views[parts[0]] = v
	}
	return f
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name, members string
		shape         Shape
		missing       map[[2]string]string
		history       History
		want          string
	}{
		{"all are in", "a:ONLINE:PRIMARY b:ONLINE c:ONLINE", three, nil, Formed, "Done"},
		{"the first begins", "a:OFFLINE b:OFFLINE c:OFFLINE", three, nil, Unformed, "Working bootstrap a"},
		{"one does not answer at the beginning", "a:OFFLINE b:down c:OFFLINE", three, nil, Unformed,
			"Waiting b does not answer"},
		{"one joins", "a:ONLINE:PRIMARY b:OFFLINE c:OFFLINE", three, nil, Unformed, "Working join b"},
		{"one copies", "a:ONLINE:PRIMARY b:RECOVERING c:OFFLINE", three, nil, Unformed, "Waiting b copies"},
		{"one is away", "a:ONLINE:PRIMARY b:ONLINE c:down", three, nil, Formed, "Waiting c does not answer"},
		{"one is expelled", "a:ONLINE:PRIMARY b:ONLINE c:OFFLINE", three, nil, Formed, "Working join c"},
		{"one has diverged", "a:ONLINE:PRIMARY b:ONLINE c:OFFLINE", three, map[[2]string]string{{"c", "a"}: "z:1"}, Formed,
			"Refused c has transactions that the group has not, and stays out of it: z:1"},
		{"all were down", "a:OFFLINE b:OFFLINE c:OFFLINE", three, map[[2]string]string{{"b", "a"}: "x:9", {"b", "c"}: "x:9"},
			Formed, "Working bootstrap b"},
		{"all were down and the first has lost its volume", "a-:OFFLINE b:OFFLINE c:OFFLINE", three,
			map[[2]string]string{{"b", "a"}: "x:1-9", {"c", "a"}: "x:1-10", {"c", "b"}: "x:10"}, Formed,
			"Working bootstrap c"},
		{"the first has lost its volume and waits for the others", "a-:OFFLINE b:down c:down", three, nil, Formed,
			"Waiting b does not answer: only when all"},
		{"the first has lost its volume and one stays down", "a-:OFFLINE b:OFFLINE c:down", three,
			map[[2]string]string{{"b", "a"}: "x:1-9"}, Formed, "Waiting c does not answer: only when all"},
		{"all were down and one stays so", "a:OFFLINE b:OFFLINE c:down", three, map[[2]string]string{{"b", "a"}: "x:9"},
			Formed, "Waiting c does not answer: only when all"},
		{"nobody has all", "a:OFFLINE b:OFFLINE c:OFFLINE", three,
			map[[2]string]string{{"a", "b"}: "y:1", {"b", "a"}: "z:1", {"a", "c"}: "y:1"}, Formed,
			"Refused no member has all transactions of the others"},
		{"the majority is lost", "a:ONLINE:PRIMARY b:UNREACHABLE c:UNREACHABLE", three, nil, Formed, "Waiting"},
		{"one leaves", "a:ONLINE:PRIMARY b:ONLINE c:ONLINE d:ONLINE", Shape{Members: three.Members, Leaving: []string{"d"}},
			nil, Formed, "Working leave d"},
		{"the primary leaves", "a:ONLINE b:ONLINE c:ONLINE d:ONLINE:PRIMARY",
			Shape{Members: three.Members, Leaving: []string{"d"}}, nil, Formed, "Working setPrimary d"},
		{"certificates are outdated", "a*:ONLINE:PRIMARY b:ONLINE c*:ONLINE", three, nil, Formed, "Working leave c renewed"},
		{"an outdated certificate waits for all members", "a:ONLINE:PRIMARY b*:ONLINE c:OFFLINE", three, nil, Formed,
			"Working join c"},
		{"the primary's certificate is outdated", "a*:ONLINE:PRIMARY b:ONLINE c:ONLINE", three, nil, Formed,
			"Working setPrimary a b becomes renewed"},
		{"who leaves is gone", "a:ONLINE:PRIMARY b:ONLINE c:ONLINE d:down",
			Shape{Members: three.Members, Leaving: []string{"d"}}, nil, Formed, "Done"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := members(tc.members)
			f.missing = tc.missing
			s := next(f, tc.shape, tc.history)
			got := strings.Join([]string{s.phase, string(s.action), s.pod, s.reason}, " ")
			for word := range strings.FieldsSeq(tc.want) {
				if !strings.Contains(got, word) {
					t.Fatalf("got %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// A server that was killed and is back is in its group for some seconds as what it was before.
func TestARestartedMemberWaitsUntilItIsOut(t *testing.T) {
	f := members("a:ONLINE:PRIMARY b:ONLINE c:OFFLINE")
	f.views["a"].sees["c"] = seen{"UNREACHABLE", "SECONDARY"}
	if s := next(f, three, Formed); s.phase != Waiting || !strings.Contains(s.reason, "c joins once") {
		t.Errorf("got %+v", s)
	}
	f.views["b"] = view{uuid: "b", transactions: "x:1-9"}
	delete(f.views["a"].sees, "b")
	f.views["a"].sees["d"] = seen{stateOnline, "SECONDARY"}
	if s := next(f, three, Formed); s.action != actionJoin || s.pod != "b" {
		t.Errorf("b is out, and waits for c: %+v", s)
	}
}

// A member that hung still takes itself for one of the group that has put it out meanwhile. It is left alone until it
// has noticed, whichever it is of them; one that is alone in a group of its own never does.
func TestAMemberThatHungIsLeftAloneUntilItNotices(t *testing.T) {
	for pod, others := range map[string]string{"a": "a:OFFLINE b:ONLINE:PRIMARY c:ONLINE",
		"b": "a:ONLINE:PRIMARY b:OFFLINE c:ONLINE", "c": "a:ONLINE:PRIMARY b:ONLINE c:OFFLINE"} {
		f := members(others)
		hung := view{uuid: pod, id: "1:0", transactions: "x:1-9", sees: map[string]seen{"a": {"ONLINE", "SECONDARY"},
			"b": {"ONLINE", "SECONDARY"}, "c": {"ONLINE", "SECONDARY"}}}
		hung.sees[pod] = seen{"ONLINE", "PRIMARY"}
		f.views[pod] = hung
		if s := next(f, three, Formed); s.phase != Waiting || !strings.Contains(s.reason, pod+" joins once it has noticed") {
			t.Errorf("%s hung: got %+v", pod, s)
		}
		for _, state := range []string{"ERROR", "OFFLINE"} {
			hung.sees[pod] = seen{state, ""}
			if s := next(f, three, Formed); s.action != actionJoin || s.pod != pod {
				t.Errorf("%s has noticed, and is %s: got %+v", pod, state, s)
			}
		}
	}
}

// A member is made anew only while another one is the primary of a group that takes writes: else it may be the one that
// has the last of them.
func TestSpare(t *testing.T) {
	for _, tc := range []struct{ members, pod, want string }{
		{"a:ONLINE:PRIMARY b:ONLINE c:ONLINE", "b", ""},
		{"a:ONLINE:PRIMARY b:ONLINE c:down", "c", ""},
		{"a:ONLINE:PRIMARY b:OFFLINE c:ONLINE", "b", ""},
		{"a:ONLINE:PRIMARY b:down c:down", "b", ""},
		{"a:ONLINE:PRIMARY b:ONLINE c:ONLINE", "a", "a is the primary"},
		{"a:ONLINE b:ONLINE c:ONLINE", "b", "elect a primary"},
		{"a:OFFLINE b:OFFLINE c:OFFLINE", "b", "b may have what the others have not"},
		{"a:down b:OFFLINE c:down", "b", "b may have what the others have not"},
		{"a:ONLINE:PRIMARY b:UNREACHABLE c:UNREACHABLE", "b", "b may have what the others have not"},
		{"a:OFFLINE b:OFFLINE c:down", "c", "run ForceQuorum"},
	} {
		err := members(tc.members).spare(three.Members[0], tc.pod)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s of %s: got %v, want %q", tc.pod, tc.members, err, tc.want)
		}
	}
	f := members("a:OFFLINE b:OFFLINE c:OFFLINE")
	for _, pod := range []string{"a", "b"} {
		f.views[pod] = view{uuid: pod, id: pod + ":1", sees: map[string]seen{pod: {stateOnline, rolePrimary}}}
	}
	if err := f.spare(three.Members[0], "c"); err == nil || !strings.Contains(err.Error(), "two groups") {
		t.Errorf("got %v", err)
	}
}

// No volume is filled anew where there was data, whoever comes first.
func TestNoDataWhereThereWasSome(t *testing.T) {
	f := members("a:OFFLINE b:OFFLINE c:OFFLINE")
	for pod, v := range f.views {
		v.transactions = ""
		f.views[pod] = v
	}
	if s := next(f, three, Formed); s.phase != Refused {
		t.Errorf("got %+v", s)
	}
	if s := next(f, three, Unformed); s.action != actionBootstrap || s.pod != "a" {
		t.Errorf("got %+v", s)
	}
}

// Two groups that both take writes are never made one.
func TestTwoGroups(t *testing.T) {
	f := members("a:OFFLINE b:OFFLINE c:OFFLINE")
	for _, pod := range []string{"a", "b"} {
		f.views[pod] = view{uuid: pod, id: pod + ":1", sees: map[string]seen{pod: {stateOnline, rolePrimary}}}
	}
	if s := next(f, three, Formed); s.phase != Refused || !strings.Contains(s.reason, "two groups") {
		t.Errorf("got %+v", s)
	}
}

// TestALoneMemberSaysWhatIsLost in each state in which it can be: cut off, expelled, or rejoining by itself.
func TestALoneMemberSaysWhatIsLost(t *testing.T) {
	for _, state := range []string{
		"a:ONLINE:PRIMARY b:UNREACHABLE c:UNREACHABLE", "a:ONLINE b:UNREACHABLE c:UNREACHABLE:PRIMARY",
		"a:RECOVERING b:UNREACHABLE c:UNREACHABLE:PRIMARY", "a:ERROR b:UNREACHABLE c:UNREACHABLE:PRIMARY",
		"a:ERROR b:down c:down", "a:OFFLINE b:UNREACHABLE c:UNREACHABLE", "a:OFFLINE b:down c:down",
		"a:UNREACHABLE b:down c:down",
	} {
		want := "run ForceQuorum with from=a and lost=b,c,"
		if strings.HasPrefix(state, "a:UNREACHABLE") {
			want = "no member that answers is the primary: a, b, c cannot be asked."
		}
		if s := next(members(state), three, Formed); s.phase != Waiting || !strings.Contains(s.lost, want) {
			t.Errorf("%s: got %s, %q", state, s.phase, s.lost)
		}
		if s := next(members(state), three, Unformed); s.lost != "" {
			t.Errorf("%s: there was no group, and it says %q", state, s.lost)
		}
	}
}
