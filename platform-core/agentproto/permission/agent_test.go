// SPDX-License-Identifier: Apache-2.0

package permission_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

var (
	one   = permission.Member{Name: "pod-0", Identity: "a"}
	two   = permission.Member{Name: "pod-1", Identity: "b"}
	three = permission.Member{Name: "pod-2", Identity: "c"}
)

const at = 100 * time.Second

func named(t *testing.T, m permission.Member, term int64, members ...permission.Member) permission.Record {
	t.Helper()
	record, err := permission.Record{}.Bootstrap(members)
	if err != nil {
		t.Fatal(err)
	}
	record.Term = term
	if record, err = record.Name(m); err != nil {
		t.Fatal(err)
	}
	return record
}

// primary returns an agent that learned that it is named, and asked the others.
func primary(t *testing.T, members ...permission.Member) (*permission.Agent, *permission.Round) {
	t.Helper()
	agent := permission.NewAgent(one, permission.State{})
	agent.Learn(named(t, one, 4, members...))
	round := agent.Ask(at)
	if round == nil {
		t.Fatal("the agent is named and does not ask")
	}
	return agent, round
}

func TestPermissionCountsFromTheRequest(t *testing.T) {
	agent, round := primary(t, one, two, three)
	agent.Acknowledged(round, two)
	if agent.Valid(at) {
		t.Error("it may write before the last member answered")
	}
	agent.Acknowledged(round, three)
	if !agent.Valid(at + permission.Validity - 1) {
		t.Error("all members answered and it may not write")
	}
	if agent.Valid(at + permission.Validity) {
		t.Error("its permission does not end")
	}
}

func TestSoleMemberNeedsNobody(t *testing.T) {
	agent, _ := primary(t, one)
	if !agent.Valid(at) {
		t.Error("a sole member may not write")
	}
}

func TestNamesAloneGiveNoPermission(t *testing.T) {
	agent, _ := primary(t, one, two)
	if agent.Valid(at) {
		t.Error("a record that was not read consistently gave a permission")
	}
	agent.Read(at, named(t, one, 4, one, two))
	if !agent.Valid(at) {
		t.Error("a consistent read that names it gave none")
	}
}

func TestReadThatNamesAnotherGivesNoPermission(t *testing.T) {
	agent := permission.NewAgent(one, permission.State{})
	agent.Learn(named(t, one, 4, one, two))
	for _, other := range []permission.Member{two, {Name: one.Name, Identity: "new"}} {
		agent.Read(at, named(t, other, 4, one, two, other))
		if agent.Valid(at) {
			t.Errorf("a read that names %v in its term gave it a permission", other)
		}
	}
}

func TestMemberWithAnotherDiskDoesNotCount(t *testing.T) {
	agent, round := primary(t, one, two)
	agent.Acknowledged(round, permission.Member{Name: two.Name, Identity: "new"})
	if agent.Valid(at) {
		t.Error("a member that lost its promises gave a permission")
	}
	agent = permission.NewAgent(permission.Member{Name: one.Name, Identity: "new"}, permission.State{})
	agent.Read(at, named(t, one, 4, one, two))
	if agent.Named() || agent.Valid(at) {
		t.Error("a pod with an empty disk writes in the place of the one that had the data")
	}
}

func TestPromiseSurvivesARestart(t *testing.T) {
	member := permission.NewAgent(two, permission.State{})
	if promised := member.Promise(5); promised != 5 {
		t.Fatalf("it promised %d, want 5", promised)
	}
	member = permission.NewAgent(two, member.State())
	if ok, promised := member.Acknowledge(4); ok || promised != 5 {
		t.Errorf("it acknowledged a lower term than it promised: %v, %d", ok, promised)
	}
	if promised := member.Promise(4); promised != 5 {
		t.Errorf("it took its promise back: %d", promised)
	}
	if ok, _ := member.Acknowledge(5); !ok {
		t.Error("it refuses the term that it promised")
	}
}

func TestPeersDoNotRaiseTheTerm(t *testing.T) {
	member := permission.NewAgent(two, permission.State{Promised: 4})
	for _, term := range []int64{5, math.MaxInt64} {
		if ok, promised := member.Acknowledge(term); ok || promised != 4 || member.State().Promised != 4 {
			t.Errorf("it acknowledged term %d, which only a peer told it of: %v, %d, %v", term, ok, promised, member.State())
		}
	}
	member.Learn(named(t, one, 5, one, two))
	if ok, _ := member.Acknowledge(5); !ok {
		t.Error("it refuses the term that it learned of")
	}
	agent := permission.NewAgent(one, permission.State{})
	agent.Read(at, named(t, one, 4, one, two))
	if agent.Refused(math.MaxInt64); !agent.Valid(at) || agent.State().Promised != 4 {
		t.Errorf("a refusal pushed the term to %d", agent.State().Promised)
	}
}

func TestPrimaryStopsAtAHigherTerm(t *testing.T) {
	for name, hear := range map[string]func(*permission.Agent, permission.Record){
		"promise": func(a *permission.Agent, _ permission.Record) { a.Promise(5) },
		"refusal": func(a *permission.Agent, _ permission.Record) { a.Refused(5) },
		"record":  func(a *permission.Agent, r permission.Record) { a.Learn(r.Depose()) },
	} {
		t.Run(name, func(t *testing.T) {
			record := named(t, one, 4, one, two)
			agent := permission.NewAgent(one, permission.State{})
			agent.Read(at, record)
			hear(agent, record)
			if agent.Valid(at) || agent.Named() {
				t.Error("it writes on")
			}
			agent.Read(at+1, record)
			if agent.Valid(at + 1) {
				t.Error("an older record that came late gave a permission")
			}
		})
	}
}

func TestLateRecordsChangeNothing(t *testing.T) {
	nobody, err := permission.Record{}.Bootstrap([]permission.Member{one, two})
	if err != nil {
		t.Fatal(err)
	}
	first, err := nobody.Name(one)
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.Change([]permission.Member{one, two, three})
	if err != nil {
		t.Fatal(err)
	}
	agent := permission.NewAgent(one, permission.State{})
	agent.Read(at, second)
	agent.Learn(first)
	agent.Learn(nobody)
	if !agent.Valid(at) || agent.State().List.Version != second.List.Version {
		t.Errorf("it went back: valid %v, list %v", agent.Valid(at), agent.State().List)
	}
	round := agent.Ask(at)
	agent.Learn(second)
	agent.Acknowledged(round, two)
	if len(round.Members) != 1 || round.Members[0] != three {
		t.Errorf("it asks %v, want the third member of the new list", round.Members)
	}
}

func TestUnsafeChangesOfARecordAreRefused(t *testing.T) {
	record := named(t, one, 4, one, two)
	changed, err := record.Change([]permission.Member{one, three})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func() (permission.Record, error)
		want   error
	}{
		"two writers in one term": {func() (permission.Record, error) { return record.Name(two) },
			permission.ErrPrimary},
		"a list on top of one that is not confirmed": {
			func() (permission.Record, error) { return changed.Change([]permission.Member{one}) }, permission.ErrUnconfirmed},
		"a list between two writers": {
			func() (permission.Record, error) { return record.Depose().Change([]permission.Member{one}) },
			permission.ErrNoPrimary},
		"a member that the writer may not ask": {func() (permission.Record, error) { return changed.Depose().Name(three) },
			permission.ErrNotEligible},
		"a member that is taken off": {func() (permission.Record, error) { return changed.Depose().Name(two) },
			permission.ErrNotEligible},
		"an end of a writer that is named": {record.Ended, permission.ErrPrimary},
	} {
		if _, err := c.change(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := record.Change([]permission.Member{two}); err == nil {
		t.Error("a list without its writer was taken")
	}
	if _, err := record.Bootstrap([]permission.Member{two}); err == nil {
		t.Error("a set that has a writer was begun anew")
	}
	if got := changed.Confirm(3, changed.List.Version); got.Previous == nil {
		t.Error("a confirmation of another term counted")
	}
	if got := changed.Confirm(4, changed.List.Version-1); got.Previous == nil {
		t.Error("a confirmation of the list before counted")
	}
	if got := changed.Confirm(4, changed.List.Version); got.Previous != nil {
		t.Error("the confirmation did not count")
	}
}
