// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/version"
)

// keepRestore leaves a component that is there with the Backup that it was made to begin with, and one without as it
// is: data comes first or never. One whose sets begin with a part of the data each has it no more when all of them have
// begun: a set that is made later is to have none.
func keepRestore(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec) {
	for i := range wanted {
		existing := f.Components[wanted[i].Component]
		if existing == nil {
			continue
		}
		wanted[i].RestoreFrom = existing.Spec.RestoreFrom.DeepCopy()
		if from := wanted[i].RestoreFrom; from != nil && len(from.Sets) > 0 && app.Status.RestoredFrom != nil {
			wanted[i].RestoreFrom = nil
		}
	}
}

// Restore has the component that a Backup is of begin with its data. What has to be mended in the object is refused;
// what it waits for is a Backup that is not there, or not whole. The wanted are those of Check.
func Restore(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec) (refusals []*render.Refusal,
	waits *render.Refusal) {
	from := app.Spec.RestoreFrom
	if from == nil || app.Status.RestoredFrom != nil {
		return nil, nil
	}
	for i := range wanted {
		if wanted[i].RestoreFrom != nil {
			return stillWanted(&wanted[i]), nil
		}
	}
	switch b := f.Backup; {
	case b == nil:
		return nil, refuse(platformv1.ReasonBackupNotFound,
			"there is no Backup %q in namespace %q: it begins when there is one, or name another one in a new object",
			from.Backup, app.Namespace)
	case !b.DeletionTimestamp.IsZero() || b.Status.Phase == platformv1.BackupDeleting:
		return []*render.Refusal{refuse(platformv1.ReasonRestoreRefused, "Backup %q is being deleted: name another one",
			from.Backup)}, nil
	case b.Status.Phase == platformv1.BackupFailed:
		return []*render.Refusal{refuse(platformv1.ReasonRestoreRefused,
			"Backup %q failed, and there is nothing to restore: name another one", from.Backup)}, nil
	case b.Status.Phase != platformv1.BackupCompleted:
		return nil, refuse(platformv1.ReasonBackupNotCompleted, "Backup %q is not complete yet: the instance begins when "+
			"it is",
			from.Backup)
	}
	place, refusal, waits := archive.Logs(app, f.Backup, f.Logs)
	if waits != nil {
		return nil, waits
	}
	if refusal == nil {
		refusal = fits(app, f, wanted, place)
	}
	if refusal != nil {
		return []*render.Refusal{refusal}, nil
	}
	return nil, nil
}

// stillWanted refuses to have other sets while the parts of the data are on their way: what goes would take its part
// with it.
func stillWanted(spec *platformv1.ComponentSpec) []*render.Refusal {
	from := spec.RestoreFrom
	if len(from.Sets) == 0 || slices.Equal(from.Sets, setNames(spec)) {
		return nil
	}
	return []*render.Refusal{refuse(platformv1.ReasonRestoreRefused, "component %q is being filled with the data of "+
		"Backup %q, which is of the %d sets %s: keep these until the condition Restored is True, and change their "+
		"number then",
		spec.Component, from.Backup, len(from.Sets), strings.Join(from.Sets, ", "))}
}

// setNames are those of the sets of a component, in order.
func setNames(spec *platformv1.ComponentSpec) []string {
	var names []string
	for _, set := range spec.Sets {
		names = append(names, set.Name)
	}
	slices.Sort(names)
	return names
}

// parts are the sets that a Backup has a part of the data of, in order; none where it is in one part.
func parts(b *platformv1.Backup) []string {
	var names []string
	for _, source := range b.Status.Sources {
		names = append(names, source.Set)
	}
	slices.Sort(names)
	return names
}

// fits gives the component the Backup when it can begin with that, or says why it cannot. place is where the logs are
// that lead to a target, where that does not say it itself.
func fits(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec,
	place *platformv1.ComponentArchive) *render.Refusal {
	b := f.Backup
	no := func(format string, args ...any) *render.Refusal {
		return refuse(platformv1.ReasonRestoreRefused, "it cannot begin with Backup %q: "+format,
			append([]any{b.Name}, args...)...)
	}
	was, is := b.Status.Version, app.Spec.Version
	if b.Status.Plugin == nil || b.Status.Plugin.Name != app.Spec.Plugin {
		name := "an unknown one"
		if b.Status.Plugin != nil {
			name = b.Status.Plugin.Name
		}
		return no("it is of plugin %s, and this is an instance of %s", name, app.Spec.Plugin)
	}
	method, of := methodOf(app, f, wanted, b.Spec.Method)
	goesOn := method != nil && method.Restore != nil && method.Restore.Versions == schema.VersionsLater
	switch {
	case !goesOn && version.Major(was) != version.Major(is):
		return no("it is of version %s, and this is version %s: a restore keeps the major version. Set version to %s, and "+
			"upgrade afterwards", was, is, was)
	case version.Compare(is, was) < 0:
		return no("it is of version %s, and this is version %s, which is older: set version to %s or a later one", was, is,
			was)
	case method == nil:
		return no("topology %q of plugin %s version %s knows no backup method %q", app.Spec.Topology, app.Spec.Plugin,
			app.Spec.PluginVersion, b.Spec.Method)
	}
	return begins(b, way{app.Spec.RestoreFrom.Target, place}, method, of, wanted, no)
}

// methodOf is the method of that name among those of the components of an instance, with its component; nil for none.
func methodOf(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec,
	name string) (*schema.BackupMethod, *schema.Component) {
	var components []string
	for i := range wanted {
		components = append(components, wanted[i].Component)
	}
	methods, of := f.State.Bundle.In(app.Spec.Topology).BackupMethodsOf(components)
	for i := range methods {
		if methods[i].Name == name {
			return &methods[i], of[i]
		}
	}
	return nil, nil
}

// way is a point in time that is asked for, nil for none, and where the logs are that lead there, nil where it says so
// itself.
type way struct {
	target *platformv1.RestoreTarget
	logs   *platformv1.ComponentArchive
}

func begins(b *platformv1.Backup, to way, method *schema.BackupMethod, of *schema.Component,
	wanted []platformv1.ComponentSpec,
	no func(string, ...any) *render.Refusal) *render.Refusal {
	if method.Restore == nil {
		return no("this version of the plugin restores nothing of method %q: take a later one", method.Name)
	}
	if why := unreachable(b, method, of, to); why != "" {
		return no("%s", why)
	}
	for i := range wanted {
		spec := &wanted[i]
		if spec.Component != of.Name {
			continue
		}
		if spec.Storage == nil || spec.Pods() == 0 {
			return no("component %q has no volume, or no pods", spec.Component)
		}
		room := spec.Storage.Size.DeepCopy()
		if method.Objects != "" {
			// They are spread over all volumes, with what is kept for the loss of some.
			room.Mul(int64(spec.Pods()))
		} else if refusal := sameSets(b, of, spec, no); refusal != nil {
			return refusal
		}
		if needs := largest(b); room.CmpInt64(needs) < 0 {
			return no("its data has %s, and the volumes of component %q have %s: ask for more storage",
				resource.NewQuantity(needs, resource.BinarySI), spec.Component, room.String())
		}
		spec.RestoreFrom = &platformv1.ComponentRestore{Backup: b.Name, UID: b.UID, Method: method.Name, Sets: parts(b),
			Target: to.target.DeepCopy(), Archive: to.logs}
	}
	return nil
}

// sameSets refuses sets other than those that the Backup has the data of.
func sameSets(b *platformv1.Backup, of *schema.Component, spec *platformv1.ComponentSpec,
	no func(string, ...any) *render.Refusal) *render.Refusal {
	has, wants := parts(b), setNames(spec)
	switch {
	case len(has) == 0 && of.Single(), len(has) > 0 && slices.Equal(has, wants):
		return nil
	case len(has) == 0:
		return no("its data is in one part, and component %q has its data in a part for each set: it is for another topology",
			spec.Component)
	case of.Single():
		return no("its data is in %d parts, one for each set, and component %q has its data in one: it is for another "+
			"topology", len(has), spec.Component)
	case len(has) != len(wants):
		return no("it has the data of %d sets, and component %q is to have %d: ask for %d, and change the number when the "+
			"condition Restored is True", len(has), spec.Component, len(wants), len(has))
	}
	return no("it has the data of the sets %s, and component %q is to have %s: name them like those",
		strings.Join(has, ", "), spec.Component, strings.Join(wants, ", "))
}

// largest is how many bytes one volume needs at most.
func largest(b *platformv1.Backup) int64 {
	if len(b.Status.Sources) == 0 {
		return b.Status.RawSize
	}
	var most int64
	for _, source := range b.Status.Sources {
		most = max(most, source.RawSize)
	}
	return most
}

// unreachable says why a point in time cannot be reached from a Backup, as far as that is known without the logs.
func unreachable(b *platformv1.Backup, method *schema.BackupMethod, of *schema.Component, to way) string {
	target := to.target
	if target == nil {
		return ""
	}
	if method.Restore.Target == nil {
		return fmt.Sprintf("this version of the plugin reaches no point in time with method %q: leave target out",
			method.Name)
	}
	at, err := target.Moment()
	if err != nil {
		return fmt.Sprintf("target.time is %q, which is no time: write one such as 2026-01-31T12:30:00Z", target.Time)
	}
	if since := b.Status.CompletionTime; since != nil && at.Before(since.Time) {
		return fmt.Sprintf("target.time is %s, and the Backup was complete at %s: name an earlier Backup, or a later time",
			target.Time, since.UTC().Format(time.RFC3339))
	}
	if err := method.Restore.Target.Check(target, of.Archive); err != nil {
		return "target: " + err.Error()
	}
	if to.logs != nil && !of.Archive.Takes(to.logs) {
		return fmt.Sprintf("target: the plugin finds no logs %s: name another BackupRepository", archive.KindOf(to.logs))
	}
	return ""
}
