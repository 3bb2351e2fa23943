// SPDX-License-Identifier: Apache-2.0

package framework

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

// DevCluster runs the dev cluster's tool and returns what it printed. A test that needs its powers fails without it.
func DevCluster(t *testing.T, arguments ...string) string {
	t.Helper()
	if len(Config.DevCluster) == 0 {
		t.Fatalf("cannot run \"devcluster %s\": set DEVCLUSTER to the program; this test needs powers over nodes or the "+
			"audit log, which the API does not give", strings.Join(arguments, " "))
	}
	command := exec.CommandContext(t.Context(), Config.DevCluster[0],
		append(slices.Clone(Config.DevCluster[1:]), arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("cannot run \"devcluster %s\": %v: %s", strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

// AuditedWrite is one finished request that asked the API server for a change.
type AuditedWrite struct {
	at time.Time
	// user is who asked, by full name.
	user string
	verb string
	// resource is "resource.group" or "resource.group/subresource".
	resource        string
	namespace, Name string
	Code            int
}

// String names the write: verb, object, code and user.
func (w AuditedWrite) String() string {
	return fmt.Sprintf("%s %s %s/%s by %s: %d", w.verb, w.resource, w.namespace, w.Name, w.user, w.Code)
}

// Actor is the part of the product that a write belongs to.
type Actor string

const (
	// OperatorActor is the operator.
	OperatorActor Actor = "operator"
	// AgentsActor are the agents in the pods.
	AgentsActor Actor = "agents"
	// OtherActor is any other client.
	OtherActor Actor = "others"
)

// Actor tells the operators' and the agents' accounts from all others. The agents
// of a pod use the account of its WorkloadSet, which only the product makes.
func (w AuditedWrite) Actor() Actor {
	account, ok := strings.CutPrefix(w.user, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	switch {
	case !ok:
		return OtherActor
	case namespace == OperatorNamespace:
		return OperatorActor
	case strings.HasSuffix(name, "-main"):
		return AgentsActor
	}
	return OtherActor
}

// lease says whether a write belongs to leader election: the Lease itself and the event about it.
func (w AuditedWrite) lease() bool {
	return strings.HasPrefix(w.resource, "leases.") ||
		strings.HasPrefix(w.resource, "events") && strings.HasPrefix(w.Name, OperatorName+".zeroinfra.github.com.")
}

// AuditLog reads the writes from a moment on.
type AuditLog struct {
	t    *testing.T
	path string
	file *os.File
	// rest is the beginning of a line whose end is not yet written.
	rest []byte
	seen []AuditedWrite
}

// StartAudit begins to read the audit log at its present end.
func StartAudit(t *testing.T) *AuditLog {
	t.Helper()
	a := &AuditLog{t: t, path: DevCluster(t, "audit-log")}
	a.open()
	if _, err := a.file.Seek(0, io.SeekEnd); err != nil {
		t.Fatalf("cannot read the audit log: %v", err)
	}
	t.Cleanup(func() { a.file.Close() })
	return a
}

func (a *AuditLog) open() {
	a.t.Helper()
	file, err := os.Open(a.path)
	if err != nil {
		a.t.Fatalf("cannot read the audit log: %v", err)
	}
	a.file = file
}

// rotated says whether the API server has gone on to a new file.
func (a *AuditLog) rotated() bool {
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

// Writes returns all writes since the log was opened, oldest first.
func (a *AuditLog) Writes() []AuditedWrite {
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
		return a.Writes()
	}
	return slices.Clone(a.seen)
}

func (a *AuditLog) parse(line []byte) (AuditedWrite, bool) {
	a.t.Helper()
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		a.t.Fatalf("cannot read a line of the audit log: %v", err)
	}
	if r.ObjectRef == nil {
		return AuditedWrite{}, false
	}
	resource := strings.TrimSuffix(r.ObjectRef.Resource+"."+r.ObjectRef.APIGroup, ".")
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return AuditedWrite{
		at: r.RequestReceivedTimestamp.Time, user: r.User.Username, verb: r.Verb, resource: resource,
		namespace: r.ObjectRef.Namespace, Name: r.ObjectRef.Name, Code: r.ResponseStatus.Code,
	}, true
}

// ProductWrites returns the writes of operators and agents, leader election left out.
func (a *AuditLog) ProductWrites() []AuditedWrite {
	a.t.Helper()
	return slices.DeleteFunc(a.Writes(), func(w AuditedWrite) bool { return w.Actor() == OtherActor || w.lease() })
}

// WritesInNamespace keeps the writes in one namespace.
func WritesInNamespace(namespace string, all []AuditedWrite) []AuditedWrite {
	return slices.DeleteFunc(slices.Clone(all), func(w AuditedWrite) bool { return w.namespace != namespace })
}

// Flush makes sure that the log has everything that was answered until now: it looks for a write of its own.
func (s *Namespace) Flush(a *AuditLog) {
	s.Helper()
	marker := &corev1.ConfigMap{ObjectMeta: ObjectMeta("marker-" + rand.String(8))}
	s.Create(marker)
	s.Eventually(SettleTimeout, "the audit log shows a write of this test", func() error {
		for _, w := range a.Writes() {
			if w.namespace == s.Name && w.resource == "configmaps" && w.verb == "create" && w.Name == marker.Name {
				return nil
			}
		}
		return fmt.Errorf("it is not there")
	})
	s.Delete(marker)
}

// Tally counts writes by verb and resource, as lines for people.
func Tally(all []AuditedWrite) string {
	counts := map[string]int{}
	for _, w := range all {
		counts[fmt.Sprintf("%-8s %s %s", w.Actor(), w.verb, w.resource)]++
	}
	lines := ""
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		lines += fmt.Sprintf("\n  %3d  %s", counts[key], key)
	}
	return lines
}

// CountWrites returns the number of writes of one actor.
func CountWrites(all []AuditedWrite, who Actor) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(w AuditedWrite) bool { return w.Actor() != who }))
}

// Conflicts returns the writes that the API server answered with 409.
func Conflicts(all []AuditedWrite) []AuditedWrite {
	return slices.DeleteFunc(slices.Clone(all), func(w AuditedWrite) bool { return w.Code != http.StatusConflict })
}

// QuietPeriod is how long nothing may have been written for the suite to count as at rest.
const QuietPeriod = 5 * time.Second
