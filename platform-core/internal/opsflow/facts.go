// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// Facts are all that a decision rests on, beside the Operation itself.
type Facts struct {
	// Now is the time.
	Now time.Time
	// Template that the Operation runs.
	Template plugin.OperationTemplate
	// Target in words, for messages.
	Target string
	// Sets are the names of the WorkloadSets of the target that are there.
	Sets []string
	// Pods that those sets are to have now, those that are absent included, in any order.
	Pods []Pod
}

// Pod is one pod that the target is to have.
type Pod struct {
	// Name of the pod, and where it belongs.
	Name, Component, Set string
	// Ordinal within its set.
	Ordinal int32
	// Access that clients have in the pod's role; empty while the role is not known.
	Access platformv1.RoleAccess
	// UID of the pod; empty while there is none under this name.
	UID types.UID
	// Presence of the pod.
	Presence Presence
	// Report of its status agent.
	Report report.Report
	// Answer of its process manager to the call that was made in this turn; nil when none was.
	Answer *Answer
}

// Presence says whether a pod can be called.
type Presence string

// Values of Presence.
const (
	// PodAbsent: there is no pod under this name.
	PodAbsent Presence = "Absent"
	// PodComing: the pod is there and has no address yet.
	PodComing Presence = "Coming"
	// PodRunning: the pod has an address.
	PodRunning Presence = "Running"
	// PodGoing: the pod is being deleted.
	PodGoing Presence = "Going"
)

// Answer is what became of a call.
type Answer struct {
	// Call as the process manager has it on record; zero when Problem is set.
	Call report.Call
	// Latest is the key of the latest call that the process manager has on record. It differs from Call.Key
	// when somebody else called after us, so that the report shows that call in place of ours.
	Latest string
	// Failure says how the call itself failed; empty when it was answered.
	Failure Failure
	// Problem is a sentence that says why it failed.
	Problem string
}

// Failure says how a call failed.
type Failure string

// Values of Failure.
const (
	// FailureUnreachable: nobody answered; the call is to be made again.
	FailureUnreachable Failure = "Unreachable"
	// FailureRefused: the agent will not do it.
	FailureRefused Failure = "Refused"
)

// inOrder returns the pods of the components that a template acts on, those that take no writes first.
func (f Facts) inOrder() []Pod {
	var pods []Pod
	for _, pod := range f.Pods {
		if len(f.Template.Targets) == 0 || slices.Contains(f.Template.Targets, pod.Component) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(
			cmp.Compare(writes(a), writes(b)),
			cmp.Compare(a.Component, b.Component),
			cmp.Compare(a.Set, b.Set),
			cmp.Compare(a.Ordinal, b.Ordinal),
		)
	})
	return pods
}

func writes(pod Pod) int {
	if pod.Access == platformv1.RoleReadWrite {
		return 1
	}
	return 0
}

// pod returns the pod under this name; nil when its set is not to have one.
func (f Facts) pod(name string) *Pod {
	for i := range f.Pods {
		if f.Pods[i].Name == name {
			return &f.Pods[i]
		}
	}
	return nil
}

// hasSetOf says whether the set that a pod is of is there.
func (f Facts) hasSetOf(pod string) bool {
	return slices.Contains(f.Sets, pod[:max(0, strings.LastIndex(pod, "-"))])
}
