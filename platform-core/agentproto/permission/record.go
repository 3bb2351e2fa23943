// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"errors"
	"fmt"
	"slices"
)

// Member of a set: a pod, and what its promises are kept on.
type Member struct {
	// Name of the pod.
	Name string `json:"name"`
	// Identity of the volume, or of the pod where there is none. A pod that comes back with an empty
	// disk has another one.
	Identity string `json:"identity"`
}

// List of the members whose acknowledgement a primary needs, itself among them.
type List struct {
	// Version grows at each change.
	Version int64    `json:"version"`
	Members []Member `json:"members"`
	// SynchronousReplicas is how many of the other members have a write before a client is told of it; 0 for none. It is
	// about data and no permission depends on it.
	SynchronousReplicas int `json:"synchronousReplicas,omitempty"`
}

// Has says whether a member is in the list.
func (l List) Has(m Member) bool { return slices.Contains(l.Members, m) }

// Record is what the API server holds about who may write. The zero Record is that of a set that never had a primary.
type Record struct {
	// Term grows at each change of the primary.
	Term int64 `json:"term"`
	// Primary may write in this term; nil between two primaries. The status of a WorkloadSet has it as primary.member.
	Primary *Member `json:"member,omitempty"`
	// List that the primary should go by.
	List List `json:"list"`
	// Previous is the list that it may still go by, until it confirmed List.
	Previous *List `json:"previous,omitempty"`
}

// Errors of changes of a record that would not be safe.
var (
	// ErrNoPrimary says that nobody is named.
	ErrNoPrimary = errors.New("there is no primary in this term")
	// ErrPrimary says that somebody is named already: in one term there is one primary.
	ErrPrimary = errors.New("there is a primary in this term")
	// ErrUnconfirmed says that the primary may still go by an earlier list.
	ErrUnconfirmed = errors.New("the primary has not confirmed the list of members")
	// ErrNotEligible says that the primary before may have a permission without this member.
	ErrNotEligible = errors.New("the member is not in every list that the primary may apply")
)

// Eligible says whether a member can be the next primary: the one before it needs its acknowledgement, whichever list
// it goes by.
func (r Record) Eligible(m Member) bool {
	return r.List.Has(m) && (r.Previous == nil || r.Previous.Has(m))
}

// Founding says whether nobody can have a permission by the record: no member ever had data that it speaks of.
func (r Record) Founding() bool {
	return r.Primary == nil && r.Previous == nil && len(r.List.Members) == 0
}

// Refound is the record of a set whose members are gone for good, and with them their data: those that come in their
// place are others, and none of the former terms is theirs.
func (r Record) Refound() Record {
	return Record{Term: r.Term + 1, List: List{Version: r.List.Version + 1}}
}

// Bootstrap gives a set that never had a primary its first list, in a term without a primary.
func (r Record) Bootstrap(members []Member) (Record, error) {
	if !r.Founding() {
		return Record{}, fmt.Errorf("term %d: the set had a primary before", r.Term)
	}
	return Record{Term: r.Term + 1, List: List{Version: r.List.Version + 1, Members: slices.Clone(members)}}, nil
}

// Depose begins the next term, with nobody named. A record that names nobody stays as it is: its term had no primary.
func (r Record) Depose() Record {
	if r.Primary != nil {
		r.Term++
		r.Primary = nil
	}
	return r
}

// Name lets a member write in the term of the record. Its permission needs the list of the record from the start.
func (r Record) Name(m Member) (Record, error) {
	if r.Primary != nil {
		return Record{}, fmt.Errorf("cannot name %s in term %d: %w: %s", m.Name, r.Term, ErrPrimary, r.Primary.Name)
	}
	if !r.Eligible(m) {
		return Record{}, fmt.Errorf("cannot name %s in term %d: %w", m.Name, r.Term, ErrNotEligible)
	}
	r.Primary, r.Previous = &m, nil
	return r, nil
}

// Change gives the primary another list, which it has to confirm.
func (r Record) Change(members []Member) (Record, error) {
	return r.ChangeSynchronousReplicas(members, r.List.SynchronousReplicas)
}

// ChangeSynchronousReplicas is Change with another number of copies.
func (r Record) ChangeSynchronousReplicas(members []Member, replicas int) (Record, error) {
	switch {
	case r.Primary == nil:
		return Record{}, fmt.Errorf("cannot change the members in term %d: %w", r.Term, ErrNoPrimary)
	case r.Previous != nil:
		return Record{}, fmt.Errorf("cannot change the members in term %d: %w", r.Term, ErrUnconfirmed)
	case !slices.Contains(members, *r.Primary):
		return Record{}, fmt.Errorf("cannot change the members in term %d: the primary %s would not be one of them", r.Term,
			r.Primary.Name)
	}
	previous := r.List
	r.Previous = &previous
	r.List = List{Version: previous.Version + 1, Members: slices.Clone(members), SynchronousReplicas: replicas}
	return r, nil
}

// Ended takes note that the process of the former primary has ended for good, on proof: which list it went by no longer
// matters.
func (r Record) Ended() (Record, error) {
	if r.Primary != nil {
		return Record{}, fmt.Errorf("term %d: %w: %s", r.Term, ErrPrimary, r.Primary.Name)
	}
	r.Previous = nil
	return r, nil
}

// Confirm takes note of the list that the primary says it goes by. What is said of another term or list changes
// nothing.
func (r Record) Confirm(term, version int64) Record {
	if r.Primary != nil && term == r.Term && version == r.List.Version {
		r.Previous = nil
	}
	return r
}
