// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Method by which a primary waits for others.
type Method string

// Methods.
const (
	// Any of them.
	Any Method = "any"
	// First of them that are there, in order of their names.
	First Method = "first"
)

// member is what the agent keeps of who may write, as far as the server depends on it.
type member struct {
	// Term in which the pod was named, or the one that it knows of.
	Term int64
	// List of members that it goes by.
	List permission.List
}

// readMember reads what the agent keeps in the folder.
func readMember(dir string) (member, error) {
	data, err := os.ReadFile(filepath.Join(dir, plan.MemberFile))
	if err != nil {
		return member{}, fmt.Errorf("cannot read the member file: %w", err)
	}
	var kept struct {
		State  permission.State  `json:"state"`
		Record permission.Record `json:"record"`
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return member{}, fmt.Errorf("cannot read the member file: %w", err)
	}
	if kept.State.Term != 0 {
		return member{kept.State.Term, kept.State.List}, nil
	}
	return member{kept.Record.Term, kept.Record.List}, nil
}

// waitsFor is the setting synchronous_standby_names of a primary in a pod; empty when it waits for nobody. Where there
// are copies to be and nobody to have them, it waits for a member that cannot come: itself.
func (l member) waitsFor(pod string, method Method) string {
	if l.List.SynchronousReplicas == 0 {
		return ""
	}
	others := l.others(pod)
	if len(others) == 0 {
		others = []string{pod}
	}
	for i := range others {
		others[i] = `"` + others[i] + `"`
	}
	return fmt.Sprintf("%s %d (%s)", strings.ToUpper(string(method)), l.List.SynchronousReplicas,
		strings.Join(others, ", "))
}

// others are the names of the members but for a pod, in order.
func (l member) others(pod string) []string {
	var names []string
	for _, m := range l.List.Members {
		if m.Name != pod {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// slots of the members, as an array of the server.
func (l member) slots() string {
	var names []string
	for _, m := range l.List.Members {
		names = append(names, slotOf(m.Name))
	}
	return "{" + strings.Join(names, ",") + "}"
}
