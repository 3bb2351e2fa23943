// SPDX-License-Identifier: Apache-2.0

// Package accept says whether an Application can be had as it is asked for. It is pure: the controller of
// Applications and the validating webhook ask the same questions here, so that what one refuses the other does too.
//
// What a user has to mend in the object itself is a refusal. What may come right by itself, such as a plugin that
// is not loaded yet, holds an Application up and is no reason to refuse to store it.
package accept

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/scheduling"
)

// Facts are what is known beside the Application itself.
type Facts struct {
	// State of the plugin in the index; zero when it is not there.
	State plugin.State
	// Components that the Application owns, by their name in the plugin.
	Components map[string]*platformv1.Component
	// Classes are the names of all StorageClasses; the default one under "".
	Classes map[string]bool
	// Claims that hold data of the Application, or of an earlier one of its name, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Generations of the volumes that the pods of each WorkloadSet have, by the name of it.
	Generations map[string]string
	// Backup that the instance is to begin with; nil when it is not there, or not needed any more.
	Backup *platformv1.Backup
	// Archive is where the instance keeps what it archives, and Logs where those are that lead to the point in time that
	// it begins at.
	Archive, Logs archive.Place
	// Settings of the operator that its pods would be made with.
	Settings render.Settings
}

func refuse(reason, format string, args ...any) *render.Refusal {
	return &render.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Check returns the Components that an Application asks for, or each thing that is wrong with what it asks.
// The plugin must be usable: see Plugin.
func Check(app *platformv1.Application, f Facts) ([]platformv1.ComponentSpec, []*render.Refusal) {
	wanted, refusals := render.CheckedComponents(f.State.Bundle, app)
	if len(refusals) > 0 {
		return nil, refusals
	}
	if refusals = slices.Concat(topology(app, f), scaling(f, wanted), volumesStay(f, wanted), tlsChanges(f, wanted),
		windows(app), schedules(app, f), archive.Fill(app, f.archive(), wanted)); len(refusals) > 0 {
		return nil, refusals
	}
	keepRestore(app, f, wanted)
	return wanted, nil
}

// archive is what is known of where the instance keeps what it archives.
func (f Facts) archive() archive.Facts {
	return archive.Facts{Bundle: f.State.Bundle, Components: f.Components, Place: f.Archive}
}

// Supplied are the credentials that are supplied to an instance: by its spec, and by the BackupRepository that it keeps
// its archive in.
func Supplied(app *platformv1.Application, f Facts) []platformv1.Credential {
	return archive.Supplied(app, f.archive())
}

// ArchiveWaits says what an instance waits for that is to keep its archive in a BackupRepository; nil when nothing is
// missing. The wanted are those of Check.
func ArchiveWaits(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec) *render.Refusal {
	return archive.Waits(app, f.Archive, wanted)
}

// Plugin says why the plugin cannot be used; nil when it can. An instance that runs goes on without it. One that is to
// be made from another version than the one that it is pinned to needs one that takes over from that.
func Plugin(app *platformv1.Application, state plugin.State) *render.Refusal {
	name, version, pinned := app.Spec.Plugin, platformv1.CanonicalPluginVersion(app.Spec.PluginVersion), app.Status.Plugin
	bundle := state.Bundle
	moves := pinned != nil && pinned.Version != version
	switch {
	case bundle == nil && pinned != nil && !moves:
		return refuse(platformv1.ReasonPluginMissing, "%s", plugin.Unusable(name, version, state))
	case bundle == nil && len(state.Errors) > 0:
		messages := make([]string, 0, len(state.Errors))
		for _, err := range state.Errors {
			messages = append(messages, err.Error())
		}
		return refuse(platformv1.ReasonPluginInvalid, "plugin %s version %s was refused: %s", name, version,
			strings.Join(messages, "; "))
	case bundle == nil:
		return refuse(platformv1.ReasonPluginNotFound, "plugin %s has no version %s here: see kubectl get plugins", name,
			version)
	case moves && !slices.Contains(bundle.Manifest.AllowedUpgradeFrom, pinned.Version):
		return refuse(platformv1.ReasonUpgradeNotAllowed,
			"plugin %s version %s does not take over from version %s, which this instance is made from: it takes over from %s",
			name, version, pinned.Version, cmp.Or(strings.Join(bundle.Manifest.AllowedUpgradeFrom, ", "), "none"))
	case pinned != nil && !moves && pinned.Digest != bundle.Digest:
		return refuse(platformv1.ReasonPluginChanged, "plugin %s version %s has digest %s and this instance was made with "+
			"%s: install the original again, and changes under a new version", name, version, bundle.Digest, pinned.Digest)
	}
	return nil
}

// DefaultClassAnnotation marks the StorageClass that claims without one get.
const DefaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// Classes are the names of StorageClasses, as in Facts.
func Classes(classes []storagev1.StorageClass) map[string]bool {
	names := map[string]bool{}
	for i := range classes {
		names[classes[i].Name] = true
		if classes[i].Annotations[DefaultClassAnnotation] == "true" {
			names[""] = true
		}
	}
	return names
}

// Class says which StorageClass is absent, before anything is made; nil when none is. What a component has already is
// on its volumes.
func Class(f Facts, wanted []platformv1.ComponentSpec) *render.Refusal {
	for _, spec := range wanted {
		existing := f.Components[spec.Component]
		if spec.Storage != nil && existing == nil {
			if refusal := classFor(f, spec.Component, "storage", spec.Storage.StorageClassName); refusal != nil {
				return refusal
			}
		}
		had := 0
		if existing != nil {
			had = len(existing.Spec.AdditionalVolumes)
		}
		for i := had; i < len(spec.AdditionalVolumes); i++ {
			name := spec.AdditionalVolumes[i].StorageClassName
			if name == nil && spec.Storage != nil {
				name = spec.Storage.StorageClassName
			}
			if refusal := classFor(f, spec.Component, fmt.Sprintf("additionalVolumes[%d]", i), name); refusal != nil {
				return refusal
			}
		}
		if spec.Logs.On() && (existing == nil || !existing.Spec.Logs.On()) {
			if refusal := classFor(f, spec.Component, "logs.volume", spec.Logs.Volume.StorageClassName); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

func classFor(f Facts, component, field string, name *string) *render.Refusal {
	switch {
	case name == nil && !f.Classes[""]:
		return refuse(platformv1.ReasonStorageClassNotFound,
			"the cluster has no default StorageClass: name one in %s.storageClassName of component %q", field, component)
	case name != nil && !f.Classes[*name]:
		return refuse(platformv1.ReasonStorageClassNotFound,
			"there is no StorageClass %q: create it or name another one in %s.storageClassName of component %q", *name, field,
			component)
	}
	return nil
}

// topology refuses one that does not go on from what there is.
func topology(app *platformv1.Application, f Facts) []*render.Refusal {
	wanted, _ := f.State.Bundle.Topology(app.Spec.Topology)
	for _, name := range slices.Sorted(maps.Keys(f.Components)) {
		was := f.Components[name].Spec.Topology
		if was == "" || was == wanted.Name || slices.Contains(wanted.From, was) {
			continue
		}
		from := "it can change from " + strings.Join(wanted.From, ", ") + " only"
		if len(wanted.From) == 0 {
			from = "no topology can change to it"
		}
		return []*render.Refusal{refuse(platformv1.ReasonInvalidSpec,
			"topology cannot change from %q to %q: %s; set it back, or make another Application and copy the data", was,
			wanted.Name, from)}
	}
	return nil
}

// scaling refuses another number of pods or sets for components whose members the middleware counts
// when it is first made.
func scaling(f Facts, wanted []platformv1.ComponentSpec) []*render.Refusal {
	var refusals []*render.Refusal
	for i := range wanted {
		spec := &wanted[i]
		declared, ok := f.State.Bundle.Component(spec.Component)
		existing := f.Components[spec.Component]
		if !ok || existing == nil || declared.Scales() {
			continue
		}
		if declared.Scaling == schema.ScalingSets {
			refusals = append(refusals, setsStay(&existing.Spec, spec)...)
			continue
		}
		if was, is := members(&existing.Spec), members(spec); was != is {
			refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
				"component %q cannot be scaled once it is made: it was made with %s and the spec asks for %s; set it back",
				spec.Component, was, is))
		}
	}
	return refusals
}

// setsStay refuses another number of pods in a set that is made, and its removal; more sets may come.
func setsStay(was, wanted *platformv1.ComponentSpec) []*render.Refusal {
	var refusals []*render.Refusal
	for i := range was.Sets {
		one := membersOf(was, &was.Sets[i])
		at := slices.IndexFunc(wanted.Sets, func(s platformv1.ComponentSet) bool { return s.Name == was.Sets[i].Name })
		switch {
		case at < 0:
			refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
				"set %q of component %q cannot go once it is made: put it back; sets can only be added", was.Sets[i].Name,
				was.Component))
		case membersOf(wanted, &wanted.Sets[at]) != one:
			refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec, "set %q of component %q cannot be scaled once it "+
				"is made: it was made with %s and the spec asks for %s; set it back, and add another set",
				was.Sets[i].Name, was.Component, one, membersOf(wanted, &wanted.Sets[at])))
		}
	}
	return refusals
}

// tlsChanges refuses another TLS for components whose members would not find each other halfway through.
func tlsChanges(f Facts, wanted []platformv1.ComponentSpec) []*render.Refusal {
	var refusals []*render.Refusal
	for i := range wanted {
		declared, ok := f.State.Bundle.Component(wanted[i].Component)
		existing := f.Components[wanted[i].Component]
		if !ok || existing == nil || declared.TLS == nil || atRest(existing) ||
			equality.Semantic.DeepEqual(existing.Spec.TLS, wanted[i].TLS) {
			continue
		}
		switch declared.TLS.ChangePolicy {
		case schema.TLSChangeStopped:
		case schema.TLSChangeStoppedOrSinglePod:
			if alone(existing, &wanted[i]) {
				continue
			}
		default:
			continue
		}
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"tls of component %q cannot change while it runs, since its members would no longer trust each other: "+
				"set it back; or set running to false first, change tls when the pods are gone, and set running to true again",
			wanted[i].Component))
	}
	return refusals
}

// atRest says whether no pod of a component runs or is about to.
func atRest(component *platformv1.Component) bool {
	s := &component.Status
	return s.ObservedGeneration == component.Generation && len(s.Pods) == 0 &&
		(!component.Spec.IsRunning() || len(s.Sets) == 0)
}

// alone says whether a component has one pod at most, and is to have no more.
func alone(component *platformv1.Component, wanted *platformv1.ComponentSpec) bool {
	s := &component.Status
	return s.ObservedGeneration == component.Generation && len(s.Pods) <= 1 && component.WantedPods() <= 1 &&
		wanted.Pods() <= 1
}

// windows refuses what cannot be read as a maintenance window.
func windows(app *platformv1.Application) []*render.Refusal {
	if _, err := maintenance.Parse(app.Spec.Maintenance); err != nil {
		return []*render.Refusal{refuse(platformv1.ReasonInvalidSpec, "%v", err)}
	}
	return nil
}

// schedules refuses those that cannot be read, and Operations that the plugin would not run.
func schedules(app *platformv1.Application, f Facts) []*render.Refusal {
	var refusals []*render.Refusal
	for _, problem := range scheduling.Check(app) {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec, "%v", problem))
	}
	for i := range app.Spec.Schedules {
		if refusal := scheduled(app, &app.Spec.Schedules[i], f); refusal != nil {
			refusals = append(refusals, refuse(refusal.Reason, "schedules[%d] %q: operation: %s", i, app.Spec.Schedules[i].Name,
				refusal.Message))
		}
	}
	return refusals
}

// scheduled refuses what an Operation of a schedule could never do.
func scheduled(app *platformv1.Application, schedule *platformv1.Schedule, f Facts) *opsflow.Refusal {
	spec := scheduling.SpecOf(app, schedule)
	target, refusal := opsflow.ParseTarget(spec.TargetRef)
	if refusal != nil {
		return refusal
	}
	template, refusal := opsflow.FindTemplate(spec, f.State.Bundle.In(app.Spec.Topology))
	if refusal != nil {
		return refusal
	}
	if slices.ContainsFunc(template.Steps, func(step optemplate.Step) bool { return step.Approval != nil }) {
		return &opsflow.Refusal{Reason: platformv1.ReasonInvalidSpec, Message: fmt.Sprintf(
			"template %q waits for somebody else than the author to approve, and a schedule is no author: take another template",
			template.Name)}
	}
	return opsflow.Check(&platformv1.Operation{Spec: spec}, target, "", template)
}

// members says in words which pods a component has.
func members(spec *platformv1.ComponentSpec) string {
	var sets []string
	for i := range spec.Sets {
		set := &spec.Sets[i]
		text := membersOf(spec, set)
		if len(spec.Sets) > 1 || set.Name != platformv1.DefaultSet {
			text = fmt.Sprintf("%s in set %q", text, set.Name)
		}
		sets = append(sets, text)
	}
	slices.Sort(sets)
	return strings.Join(sets, " and ")
}

// membersOf says in words which pods a set has.
func membersOf(spec *platformv1.ComponentSpec, set *platformv1.ComponentSet) string {
	text := fmt.Sprintf("%d replicas", spec.ReplicasOf(set))
	if len(set.ExcludedOrdinals) > 0 {
		text += fmt.Sprintf(" without ordinals %v", slices.Sorted(slices.Values(set.ExcludedOrdinals)))
	}
	return text
}
