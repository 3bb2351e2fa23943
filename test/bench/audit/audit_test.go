// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// event is a line of the log, so many seconds after noon.
func event(seconds int, user, verb, group, resource string, code int) string {
	return fmt.Sprintf(
		`{"kind":"Event","verb":%q,"user":{"username":%q},"objectRef":{"resource":%q,"apiGroup":%q,"namespace":"n"},`+
			`"responseStatus":{"code":%d},"requestReceivedTimestamp":%q}`+"\n",
		verb, user, resource, group, code, noon.Add(time.Duration(seconds)*time.Second).Format(time.RFC3339Nano))
}

func TestCount(t *testing.T) {
	log := strings.Join([]string{
		event(0, "op", "list", "", "pods", 200),
		event(1, "op", "watch", "", "pods", 200),
		event(2, "op", "get", "", "pods", 404),
		event(3, "op", "patch", "apps", "statefulsets", 200),
		event(4, "op", "patch", "apps", "statefulsets", 409),
		event(5, "op", "create", "", "pods", 403),
		event(6, "op", "update", "coordination.k8s.io", "leases", 409),
		event(7, "op", "create", "authorization.k8s.io", "subjectaccessreviews", 201),
		event(8, "agent", "patch", "", "pods", 200),
		event(10, "op", "delete", "", "pods", 200),
		`{"verb":"get","user":{"username":"op"},"requestReceivedTimestamp":"2026-01-01T12:00:01Z"}` + "\n",
		`{"verb":"get","us`,
	}, "")
	windows := []Window{{noon, noon.Add(10 * time.Second)}, {noon.Add(10 * time.Second), noon.Add(20 * time.Second)}}
	counts, err := Count(strings.NewReader(log), windows, strings.ToUpper)
	if err != nil {
		t.Fatal(err)
	}
	op := counts[0]["OP"]
	if op.Reads != 3 || op.Writes != 3 || op.Conflicts != 1 || op.Refused != 1 {
		t.Errorf("got %+v, want 3 reads, 3 writes, 1 conflict, 1 refused", op)
	}
	if op.Changes["patch statefulsets.apps"] != 2 || op.Verbs["watch"] != 1 || op.Verbs["update"] != 0 {
		t.Errorf("got %+v", op)
	}
	if want := noon.Add(7 * time.Second); !op.Last.Equal(want) {
		t.Errorf("the last is at %v, want %v", op.Last, want)
	}
	if agent := counts[0]["AGENT"]; agent == nil || agent.Writes != 1 {
		t.Errorf("the agent: %+v", agent)
	}
	if later := counts[1]["OP"]; later == nil || later.Writes != 1 || later.Reads != 0 {
		t.Errorf("the second window: %+v", later)
	}
}

func TestCountRefusesWhatIsNoLog(t *testing.T) {
	if _, err := Count(strings.NewReader("hello\n"), nil, strings.ToUpper); err == nil ||
		!strings.Contains(err.Error(), "audit log") {
		t.Errorf("got %v", err)
	}
}
