// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// devcluster runs the dev cluster's tool and returns what it printed. A test that needs its powers fails without it.
func devcluster(t *testing.T, arguments ...string) string {
	t.Helper()
	if len(set.devcluster) == 0 {
		t.Fatalf("cannot run \"devcluster %s\": set DEVCLUSTER to the program; this test needs powers over nodes or the audit log, which the API does not give", strings.Join(arguments, " "))
	}
	command := exec.CommandContext(t.Context(), set.devcluster[0], append(slices.Clone(set.devcluster[1:]), arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("cannot run \"devcluster %s\": %v: %s", strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

// write is one finished request that asked the API server for a change.
type write struct {
	at time.Time
	// user is who asked, by full name.
	user string
	verb string
	// resource is "resource.group" or "resource.group/subresource".
	resource        string
	namespace, name string
	code            int
}

func (w write) String() string {
	return fmt.Sprintf("%s %s %s/%s by %s: %d", w.verb, w.resource, w.namespace, w.name, w.user, w.code)
}

// actor is the part of the product that a write belongs to.
type actor string

const (
	byOperator actor = "operator"
	byAgents   actor = "agents"
	byOthers   actor = "others"
)

// by tells the operators' and the agents' accounts from all others. The agents
// of a pod use the account of its WorkloadSet, which only the product makes.
func (w write) by() actor {
	account, ok := strings.CutPrefix(w.user, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	switch {
	case !ok:
		return byOthers
	case namespace == operatorNamespace:
		return byOperator
	case strings.HasSuffix(name, "-main"):
		return byAgents
	}
	return byOthers
}

// lease says whether a write belongs to leader election: the Lease itself and the event about it.
func (w write) lease() bool {
	return strings.HasPrefix(w.resource, "leases.") ||
		strings.HasPrefix(w.resource, "events") && strings.HasPrefix(w.name, operatorName+".zeroinfra.github.com.")
}

// auditLog reads the writes from a moment on.
type auditLog struct {
	t    *testing.T
	path string
	file *os.File
	// rest is the beginning of a line whose end is not yet written.
	rest []byte
	seen []write
}

// auditFromNow begins to read the audit log at its present end.
func auditFromNow(t *testing.T) *auditLog {
	t.Helper()
	a := &auditLog{t: t, path: devcluster(t, "audit-log")}
	a.open()
	if _, err := a.file.Seek(0, io.SeekEnd); err != nil {
		t.Fatalf("cannot read the audit log: %v", err)
	}
	t.Cleanup(func() { a.file.Close() })
	return a
}

func (a *auditLog) open() {
	a.t.Helper()
	file, err := os.Open(a.path)
	if err != nil {
		a.t.Fatalf("cannot read the audit log: %v", err)
	}
	a.file = file
}

// rotated says whether the API server has gone on to a new file.
func (a *auditLog) rotated() bool {
	mine, err := a.file.Stat()
	if err != nil {
		a.t.Fatalf("cannot read the audit log: %v", err)
	}
	current, err := os.Stat(a.path)
	return err == nil && !os.SameFile(mine, current)
}

// record is the part of an audit event that the tests read.
type record struct {
	Verb      string                    `json:"verb"`
	User      struct{ Username string } `json:"user"`
	ObjectRef *struct {
		Resource, Subresource, APIGroup, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus           struct{ Code int } `json:"responseStatus"`
	RequestReceivedTimestamp metav1.MicroTime   `json:"requestReceivedTimestamp"`
	Annotations              map[string]string  `json:"annotations"`
}

// writes returns all writes since the log was opened, oldest first.
func (a *auditLog) writes() []write {
	a.t.Helper()
	rotated := a.rotated()
	data, err := io.ReadAll(a.file)
	if err != nil {
		a.t.Fatalf("cannot read the audit log: %v", err)
	}
	data = append(a.rest, data...)
	end := bytes.LastIndexByte(data, '\n') + 1
	for line := range bytes.Lines(data[:end]) {
		if w, ok := a.parse(line); ok {
			a.seen = append(a.seen, w)
		}
	}
	a.rest = bytes.Clone(data[end:])
	if rotated {
		a.file.Close()
		a.open()
		return a.writes()
	}
	return slices.Clone(a.seen)
}

func (a *auditLog) parse(line []byte) (write, bool) {
	a.t.Helper()
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		a.t.Fatalf("cannot read a line of the audit log: %v", err)
	}
	if r.ObjectRef == nil {
		return write{}, false
	}
	resource := strings.TrimSuffix(r.ObjectRef.Resource+"."+r.ObjectRef.APIGroup, ".")
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return write{
		at: r.RequestReceivedTimestamp.Time, user: r.User.Username, verb: r.Verb, resource: resource,
		namespace: r.ObjectRef.Namespace, name: r.ObjectRef.Name, code: r.ResponseStatus.Code,
	}, true
}

// product returns the writes of operators and agents, leader election left out.
func (a *auditLog) product() []write {
	a.t.Helper()
	return slices.DeleteFunc(a.writes(), func(w write) bool { return w.by() == byOthers || w.lease() })
}

// in keeps the writes in one namespace.
func in(namespace string, all []write) []write {
	return slices.DeleteFunc(slices.Clone(all), func(w write) bool { return w.namespace != namespace })
}

// flush makes sure that the log has everything that was answered until now: it looks for a write of its own.
func (s *space) flush(a *auditLog) {
	s.Helper()
	marker := &corev1.ConfigMap{ObjectMeta: named("marker-" + rand.String(8))}
	s.create(marker)
	s.eventually(settleIn, "the audit log shows a write of this test", func() error {
		for _, w := range a.writes() {
			if w.namespace == s.name && w.resource == "configmaps" && w.verb == "create" && w.name == marker.Name {
				return nil
			}
		}
		return fmt.Errorf("it is not there")
	})
	s.delete(marker)
}

// tally counts writes by verb and resource, as lines for people.
func tally(all []write) string {
	counts := map[string]int{}
	for _, w := range all {
		counts[fmt.Sprintf("%-8s %s %s", w.by(), w.verb, w.resource)]++
	}
	lines := ""
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		lines += fmt.Sprintf("\n  %3d  %s", counts[key], key)
	}
	return lines
}

// count returns the number of writes of one actor.
func count(all []write, who actor) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(w write) bool { return w.by() != who }))
}

// conflicts returns the writes that the API server answered with 409.
func conflicts(all []write) []write {
	return slices.DeleteFunc(slices.Clone(all), func(w write) bool { return w.code != http.StatusConflict })
}
