// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Facts are all that a decision rests on, beside the Operation itself.
type Facts struct {
	// Now is the time.
	Now time.Time
	// Template that the Operation runs.
	Template optemplate.Template
	// Plugin that the template was looked up in; nil for none.
	Plugin *platformv1.PluginReference
	// NoPlugin says why the plugin of the target is not at hand; nil when it is. Only a run that can go back without it
	// has one.
	NoPlugin *Refusal
	// Parameters of the Operation, defaults included.
	Parameters map[string]string
	// Target in words, for messages.
	Target string
	// Reference of the target, and the component that it is or is part of; empty for all.
	Reference platformv1.TargetReference
	Component string
	// Set is the name of the only set that the target is; empty for all.
	Set string
	// Application of the target.
	Application *platformv1.Application
	// Components of the Application's topology, by their name in the plugin.
	Components []string
	// UpdateOrder of the components, as the topology says.
	UpdateOrder []string
	// Unreloadable are the components whose processes take another configuration over with a restart only.
	Unreloadable map[string]bool
	// Actions that the plugin declares, by component.
	Actions map[string][]plan.Action
	// Resources of a component whose Application declares none, as the plugin says.
	Resources map[string]corev1.ResourceRequirements
	// Declared is the outermost object, whose spec says what the Application is to be.
	Declared Declared
	// Credentials that the plugin declares.
	Credentials []Credential
	// BackupMethods that the plugin declares for the Components.
	BackupMethods []BackupMethod
	// Self is the outermost object for a template that makes or deletes it; nil when it is absent. Remains is what is left
	// of one that was deleted, in words.
	Self    *Self
	Remains []string
	// Sets are the names of the WorkloadSets of the target that are there.
	Sets []string
	// Writing has those of them whose primary the engine names, by name.
	Writing map[string]Writing
	// Electing are those of them with a pod that takes writes whom the engine does not name, by name.
	Electing map[string]bool
	// Data has on which volumes the pods of each of them are, by name, for a template that changes that.
	Data map[string]DataState
	// HandingOver are those of them whose primary hands over by a declared action, by name.
	HandingOver map[string]bool
	// Pods that those sets are to have now, those that are absent included, in any order.
	Pods []Pod
	// Answers to the effects of this reconcile, by key.
	Answers map[string]*Answer
	// Lists remembers the items of steps with forEach within a reconcile, by step; nil to compute them each time.
	Lists map[string][]string
	// ParentEnded says that the Operation whose step this one is has ended or is about to.
	ParentEnded bool
	// Preempted says in words what ends the run; empty for nothing.
	Preempted string
	// Held says what a run that has begun nothing waits for before it does; nil for nothing.
	Held *Hold
	// Forecast says what the engine would do for an edit, for a dry run, by step, and for those of what its steps run by
	// the path of steps that leads there.
	Forecast map[string]Forecast
	// Others finds a template that a step runs, and Admit says why an Operation of it would be refused; nil but for a dry
	// run.
	Others func(name string) (optemplate.Template, *Refusal)
	Admit  func(op *platformv1.Operation, template optemplate.Template) *Refusal
}

// Hold is the maintenance window that a run waits for.
type Hold struct {
	// Until is when it opens.
	Until time.Time
	// Words are the text after "waiting for": which window, and what is to happen in it.
	Words string
}

// Forecast is what an edit would bring about.
type Forecast struct {
	// Fields that it changes, in words; none when all is so already.
	Fields []string
	// Changes that the engine makes for them, in order.
	Changes []platformv1.PlannedChange
}

// Writing is a WorkloadSet whose primary the engine names.
type Writing struct {
	Component string
	// Record of who may write; nil before the first.
	Record *platformv1.PrimaryRecord
	// Pending says what is waited for while nobody takes writes; empty when somebody does.
	Pending string
}

// Declared is what the outermost object says of itself.
type Declared struct {
	// Object in words, for example Redis "a".
	Object string
	// ObservedGeneration that its conditions speak of.
	ObservedGeneration int64
	// Ready, with why it is not.
	Ready   Condition
	Stalled Condition
}

// Condition is True or not, and what it says.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Pod is one pod that the target is to have.
type Pod struct {
	// Name of the pod, and where it belongs.
	Name, Component, Set string
	// Ordinal within its set.
	Ordinal int32
	// Access that clients have in the pod's role; empty while the role is not known.
	Access platformv1.RoleAccess
	// Reported is the access that they have in the role that the pod itself reports; empty while that is not known.
	Reported platformv1.RoleAccess
	// UID of the pod; empty while there is none under this name.
	UID types.UID
	// Presence of the pod.
	Presence Presence
	// Ready is what the cluster says of the pod: not True as well where its node does not answer any more.
	Ready metav1.ConditionStatus
	// Report of its status agent.
	Report report.Report
	// Claims are its volumes, for a template that deletes some.
	Claims []Claim
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

// acted are the pods of the components that a template acts on.
func (f Facts) acted() []Pod {
	var pods []Pod
	for _, pod := range f.Pods {
		if len(f.Template.Targets) == 0 || slices.Contains(f.Template.Targets, pod.Component) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// inOrder returns the pods of the components that a template acts on: components in the order in which they are
// updated, and those that take no writes first.
func (f Facts) inOrder() []Pod {
	pods := f.acted()
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(
			cmp.Compare(slices.Index(f.UpdateOrder, a.Component), slices.Index(f.UpdateOrder, b.Component)),
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

// unhealthyReason says what is wrong with a pod, to follow its name; empty for one that runs, is ready and reports that
// its middleware is healthy.
func (p *Pod) unhealthyReason() string {
	said := ""
	if p.Report.Message != "" {
		said = ": " + p.Report.Message
	}
	switch {
	case p.Presence == PodAbsent:
		return "is not there"
	case p.Presence == PodGoing:
		return "is being deleted"
	case p.Presence == PodComing:
		return "has yet to start"
	case p.Report.Health == "":
		return "has yet to report"
	case p.Report.Health != report.Healthy:
		return "reports that it is " + string(p.Report.Health) + said
	case p.Ready != metav1.ConditionTrue:
		return "is not ready"
	}
	return ""
}

// behind says, to follow its name, that a pod does not follow the one that writes, as far as the engine knows that:
// where it names who writes, those follow that are in the list of members.
func (f Facts) behind(p *Pod) string {
	record := f.Writing[platformv1.WorkloadSetNameOf(p.Name)].Record
	if record == nil || len(record.List.Members) == 0 ||
		slices.ContainsFunc(record.List.Members, func(m platformv1.SetMember) bool { return m.Name == p.Name }) {
		return ""
	}
	return "does not follow the primary"
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

// SetMates returns the names of the other pods of the set of a pod.
func (f Facts) SetMates(name string) []string {
	var others []string
	if one := f.pod(name); one != nil {
		for i := range f.Pods {
			if other := &f.Pods[i]; other.Name != name && other.Component == one.Component && other.Set == one.Set {
				others = append(others, other.Name)
			}
		}
	}
	return others
}

// TermOf is the term of the set that a pod is of; 0 where nobody names its primary.
func (f Facts) TermOf(pod string) int64 {
	if record := f.Writing[platformv1.WorkloadSetNameOf(pod)].Record; record != nil {
		return record.Term
	}
	return 0
}

// hasSetOf says whether the set that a pod is of is there.
func (f Facts) hasSetOf(pod string) bool {
	return slices.Contains(f.Sets, platformv1.WorkloadSetNameOf(pod))
}
