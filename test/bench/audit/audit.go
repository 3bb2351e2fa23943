// SPDX-License-Identifier: Apache-2.0

// Package audit counts, from the audit log of an API server, who asked for what and when.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Request is one finished request.
type Request struct {
	// At is when the API server received it.
	At time.Time
	// User is who asked, by full name.
	User string
	// Verb as RBAC has it, for example list.
	Verb string
	// Resource is "resource.group" or "resource.group/subresource".
	Resource string
	// Code of the answer.
	Code int
}

// Write says whether the request asked for a change.
func (r Request) Write() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		// These ask for an answer, and change nothing.
		return !strings.HasSuffix(r.Resource, "reviews.authentication.k8s.io") &&
			!strings.HasSuffix(r.Resource, "reviews.authorization.k8s.io")
	}
	return false
}

// lease says whether the request belongs to leader election or to the sign of life of a node.
func (r Request) lease() bool { return strings.HasPrefix(r.Resource, "leases.") }

// line is the part of an audit event that is read here.
type line struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef *struct{ Resource, Subresource, APIGroup string }
	Status    struct{ Code int } `json:"responseStatus"`
	At        time.Time          `json:"requestReceivedTimestamp"`
}

// parse reads one line of the log. It is nothing when the request was for no object, or for a Lease.
func parse(data []byte) (Request, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return Request{}, fmt.Errorf("cannot read a line of the audit log: %w", err)
	}
	if l.ObjectRef == nil {
		return Request{}, nil
	}
	resource := strings.TrimSuffix(l.ObjectRef.Resource+"."+l.ObjectRef.APIGroup, ".")
	if l.ObjectRef.Subresource != "" {
		resource += "/" + l.ObjectRef.Subresource
	}
	r := Request{At: l.At, User: l.User.Username, Verb: l.Verb, Resource: resource, Code: l.Status.Code}
	if r.lease() {
		return Request{}, nil
	}
	return r, nil
}

// Tally counts requests of one user in one window.
type Tally struct {
	// Verbs counts by verb.
	Verbs map[string]int `json:"verbs,omitempty"`
	// Changes counts the writes by verb and resource, for example "patch pods".
	Changes map[string]int `json:"changes,omitempty"`
	// Reads and Writes, watches left out.
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	// Conflicts are requests that were answered with 409.
	Conflicts int `json:"conflicts"`
	// Refused requests: answered with 4xx or 5xx, but for 404, and for conflicts.
	Refused int `json:"refused"`
	// Last is when the last one came.
	Last time.Time `json:"-"`
}

func (t *Tally) add(r Request) {
	if t.Verbs == nil {
		t.Verbs, t.Changes = map[string]int{}, map[string]int{}
	}
	t.Verbs[r.Verb]++
	switch {
	case r.Verb == "watch":
		return
	case r.Write():
		t.Writes++
		t.Changes[r.Verb+" "+r.Resource]++
	default:
		t.Reads++
	}
	switch {
	case r.Code == http.StatusConflict:
		t.Conflicts++
	case r.Code >= 400 && r.Code != http.StatusNotFound:
		t.Refused++
	}
	if r.At.After(t.Last) {
		t.Last = r.At
	}
}

// Window is a stretch of time, its end left out.
type Window struct{ From, To time.Time }

func (w Window) has(at time.Time) bool { return !at.Before(w.From) && at.Before(w.To) }

// Count reads the log and returns, for each window, the tally of each actor. The actor
// of a user is what name makes of it. Leases are left out.
func Count(log io.Reader, windows []Window, name func(user string) string) ([]map[string]*Tally, error) {
	counts := make([]map[string]*Tally, len(windows))
	for i := range counts {
		counts[i] = map[string]*Tally{}
	}
	reader := bufio.NewReaderSize(log, 1<<20)
	for {
		data, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// What has no end is still being written, and is of no window.
			return counts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the audit log: %w", err)
		}
		r, err := parse(data)
		if err != nil {
			return nil, err
		}
		for i, w := range windows {
			if r.Verb == "" || !w.has(r.At) {
				continue
			}
			actor := name(r.User)
			if counts[i][actor] == nil {
				counts[i][actor] = &Tally{}
			}
			counts[i][actor].add(r)
		}
	}
}
