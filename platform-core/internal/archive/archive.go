// SPDX-License-Identifier: Apache-2.0

// Package archive says where an instance keeps what it archives: in a BackupRepository of its namespace that it names.
// It is pure: whoever knows what there is asks here, so that all come to the same place, or to the same refusal.
package archive

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Facts are what is known beside the Application itself.
type Facts struct {
	// Bundle of its plugin.
	Bundle *plugin.Bundle
	// Components that the Application owns, by their name in the plugin.
	Components map[string]*platformv1.Component
	// Place that it names.
	Place Place
}

func refuse(reason, format string, args ...any) *render.Refusal {
	return &render.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Place is what is known of a BackupRepository that an Application names.
type Place struct {
	// Repository; nil when there is none of the name.
	Repository *platformv1.BackupRepository
	// Claim of the volume that it is on; nil when it is not there, or nobody looked.
	Claim *corev1.PersistentVolumeClaim
	// Unseen says that nobody looked for the claim: whoever answers a request of the API server asks nobody.
	Unseen bool
}

// lacks says what of a repository is not there; nil when all is.
func (p Place) lacks(name, namespace, field string) *render.Refusal {
	r := p.Repository
	switch {
	case r == nil:
		return refuse(platformv1.ReasonRepositoryNotFound, "there is no BackupRepository %q in namespace %q, which %s "+
			"names: create it there, or name another one; those of other namespaces cannot be named", name, namespace, field)
	case !r.DeletionTimestamp.IsZero():
		return refuse(platformv1.ReasonRepositoryNotFound,
			"BackupRepository %q, which %s names, is being deleted: name another one", name, field)
	case r.Spec.NFS != nil && !p.Unseen && p.Claim == nil:
		return refuse(platformv1.ReasonClaimNotFound,
			"BackupRepository %q, which %s names, has no PersistentVolumeClaim %q yet: the operator makes it", name, field,
			r.ClaimName())
	case r.ClaimName() != "" && !p.Unseen && (p.Claim == nil || !p.Claim.DeletionTimestamp.IsZero()):
		return refuse(platformv1.ReasonClaimNotFound,
			"BackupRepository %q, which %s names, is on PersistentVolumeClaim %q, which is not there: create it in namespace %q",
			name, field, r.ClaimName(), namespace)
	}
	return nil
}

// at is the folder of an Application there.
func (p Place) at(namespace, application string) *platformv1.ComponentArchive {
	r := p.Repository
	place := &platformv1.ComponentArchive{
		Repository: r.Name, Folder: platformv1.ArchiveFolderFor(r.Spec.Prefix(), namespace, application),
		Claim: r.ClaimName(),
	}
	if s3 := r.Spec.S3; s3 != nil {
		place.Bucket = &platformv1.ArchiveBucket{
			Endpoint: strings.TrimSuffix(s3.Endpoint, "/"), Name: s3.Bucket, Region: s3.Region,
			AddressingStyle:      s3.AddressingStyle,
			CredentialsSecretRef: s3.CredentialsSecretRef, CASecretRef: s3.CASecretRef.DeepCopy(),
		}
	}
	return place
}

// Lacks says what of the BackupRepository is not there that an Application keeps its archive in; nil when all is, or
// none is wanted.
func Lacks(app *platformv1.Application, place Place) *render.Refusal {
	if app.Spec.Archive == nil {
		return nil
	}
	return place.lacks(app.Spec.Archive.RepositoryRef.Name, app.Namespace, "archive.repositoryRef")
}

// Waits says what an instance waits for that is to keep its archive somewhere else than it does by now, or begins to;
// nil when nothing is missing. One that keeps it there already goes on: what it needs it has.
func Waits(app *platformv1.Application, place Place, wanted []platformv1.ComponentSpec) *render.Refusal {
	lacks := Lacks(app, place)
	if lacks == nil || slices.ContainsFunc(wanted,
		func(spec platformv1.ComponentSpec) bool { return spec.Archive != nil }) {
		return nil
	}
	return lacks
}

// Fill has the components that archive something do that in the BackupRepository that the Application names, or says
// why they cannot. While something of it is not there they keep to what they were told before.
func Fill(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec) []*render.Refusal {
	if app.Spec.Archive == nil {
		return nil
	}
	bundle, found := f.Bundle.In(app.Spec.Topology), false
	for i := range wanted {
		declared, _ := bundle.Component(wanted[i].Component)
		if declared.Archive == nil {
			continue
		}
		found = true
		if refusals := saidTwice(app, declared); len(refusals) > 0 {
			return refusals
		}
		place, refusals := placed(app, f, bundle, declared, &wanted[i])
		if len(refusals) > 0 {
			return refusals
		}
		if wanted[i].Archive = place; place == nil {
			continue
		}
		supply(wanted, declared.Archive.CredentialsFor(place))
	}
	if !found {
		return []*render.Refusal{refuse(platformv1.ReasonInvalidSpec, "topology %q of plugin %s version %s keeps no "+
			"archive in a BackupRepository: take archive out, or take a later version of the plugin",
			app.Spec.Topology, app.Spec.Plugin, app.Spec.PluginVersion)}
	}
	return nil
}

// supply adds credentials to those that an instance has, which all of its components list.
func supply(wanted []platformv1.ComponentSpec, credentials []platformv1.Credential) {
	for _, credential := range credentials {
		for i := range wanted {
			has := slices.ContainsFunc(wanted[i].Credentials,
				func(c platformv1.ComponentCredential) bool { return c.Name == credential.Name })
			if !has {
				wanted[i].Credentials = append(slices.Clip(wanted[i].Credentials),
					platformv1.ComponentCredential{Credential: credential})
			}
		}
	}
}

// Supplied are the credentials that are supplied to an instance: by its spec, and by the BackupRepository that it keeps
// its archive in.
func Supplied(app *platformv1.Application, f Facts) []platformv1.Credential {
	all := slices.Clone(app.Spec.Credentials)
	if app.Spec.Archive == nil || f.Bundle == nil {
		return all
	}
	bundle := f.Bundle.In(app.Spec.Topology)
	for i := range bundle.Components.Components {
		declared := &bundle.Components.Components[i]
		if declared.Archive == nil {
			continue
		}
		place := known(app, f, declared.Name)
		if place == nil {
			continue
		}
		for _, credential := range declared.Archive.CredentialsFor(place) {
			if !slices.ContainsFunc(all, func(c platformv1.Credential) bool { return c.Name == credential.Name }) {
				all = append(all, credential)
			}
		}
	}
	return all
}

// known is where a component keeps its archive as far as anybody knows: what it was told before stands while something
// of the repository is not there.
func known(app *platformv1.Application, f Facts, component string) *platformv1.ComponentArchive {
	if Lacks(app, f.Place) == nil {
		return f.Place.at(app.Namespace, app.Name)
	}
	existing := f.Components[component]
	if existing == nil || existing.Spec.Archive == nil ||
		existing.Spec.Archive.Repository != app.Spec.Archive.RepositoryRef.Name {
		return nil
	}
	return existing.Spec.Archive.DeepCopy()
}

// saidTwice refuses parameters and credentials that say where the archive is beside the repository.
func saidTwice(app *platformv1.Application, declared *schema.Component) []*render.Refusal {
	var refusals []*render.Refusal
	add := func(what, name string) {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"%s %q says where the archive is, and archive.repositoryRef does so, too: take one of them out", what, name))
	}
	for _, name := range declared.Archive.ParameterNames() {
		for i := range app.Spec.Components {
			c := &app.Spec.Components[i]
			if c.Name != declared.Name {
				continue
			}
			_, set := c.Parameters[name]
			for j := range c.Sets {
				_, also := c.Sets[j].Parameters[name]
				set = set || also
			}
			if set {
				add("parameter", name)
			}
		}
	}
	for _, name := range declared.Archive.CredentialNames() {
		if app.Spec.Supplies(name) {
			add("credential", name)
		}
	}
	return refusals
}

// placed is where a component keeps its archive: nil while that is not known.
func placed(app *platformv1.Application, f Facts, bundle *plugin.Bundle, declared *schema.Component,
	spec *platformv1.ComponentSpec) (*platformv1.ComponentArchive, []*render.Refusal) {
	name, place := app.Spec.Archive.RepositoryRef.Name, known(app, f, spec.Component)
	if Lacks(app, f.Place) != nil {
		return place, nil
	}
	no := func(format string, args ...any) []*render.Refusal {
		return []*render.Refusal{refuse(platformv1.ReasonArchiveRefused,
			"component %q cannot keep its archive in BackupRepository %q: "+format,
			append([]any{spec.Component, name}, args...)...)}
	}
	if f.Place.Repository.Spec.Encryption != nil {
		return nil, no("what is archived is not encrypted, and that repository is: name one without encryption")
	}
	if !declared.Archive.Takes(place) {
		return nil, no("the plugin knows no archive %s: name another one", KindOf(place))
	}
	if claim := f.Place.Claim; claim != nil {
		if why := unshared(claim, spec); why != "" {
			return nil, no("%s", why)
		}
	}
	var refusals []*render.Refusal
	for _, err := range bundle.CheckArchive(declared, app.Spec.Version, place) {
		refusals = append(refusals, no("%s", err.Message)...)
	}
	return place, refusals
}

// unshared says why the pods of a component cannot all mount a volume, beside movers; empty when they can. One that is
// bound has the modes of its volume.
func unshared(claim *corev1.PersistentVolumeClaim, spec *platformv1.ComponentSpec) string {
	modes := claim.Spec.AccessModes
	if len(claim.Status.AccessModes) > 0 {
		modes = claim.Status.AccessModes
	}
	pods := spec.Pods()
	if a := spec.Autoscaling; a != nil {
		pods = max(pods, a.MaxReplicas*int32(len(spec.Sets)))
	}
	switch has := func(mode corev1.PersistentVolumeAccessMode) bool { return slices.Contains(modes, mode) }; {
	case has(corev1.ReadWriteMany), has(corev1.ReadWriteOnce) && pods <= 1:
		return ""
	case has(corev1.ReadWriteOnce):
		return fmt.Sprintf("PersistentVolumeClaim %q can be mounted by one node alone (ReadWriteOnce), and it is to have "+
			"%d pods, which run on several: name a repository whose volume is ReadWriteMany, on NFS or in a bucket, or ask "+
			"for one pod", claim.Name, pods)
	case has(corev1.ReadWriteOncePod):
		return fmt.Sprintf("PersistentVolumeClaim %q can be mounted by one pod alone (ReadWriteOncePod), and movers have "+
			"to mount it beside the pods: name another repository", claim.Name)
	}
	return fmt.Sprintf("PersistentVolumeClaim %q cannot be written to: name another repository", claim.Name)
}

// Logs is where the logs are that lead from a Backup to a target, where that names a BackupRepository, which is the
// place. What is not there is waited for.
func Logs(app *platformv1.Application, backup *platformv1.Backup, place Place) (at *platformv1.ComponentArchive,
	refusal, waits *render.Refusal) {
	target := app.Spec.RestoreFrom.Target
	if target == nil || target.RepositoryRef == nil {
		return nil, nil, nil
	}
	name := target.RepositoryRef.Name
	if lacks := place.lacks(name, app.Namespace, "restoreFrom.target.repositoryRef"); lacks != nil {
		return nil, nil, lacks
	}
	if place.Repository.Spec.Encryption != nil {
		return nil, refuse(platformv1.ReasonRestoreRefused, "restoreFrom.target names BackupRepository %q, which is "+
			"encrypted: no archive is kept in such a one; name the one that the instance kept its archive in", name), nil
	}
	return place.at(backup.Namespace, backup.Spec.ApplicationRef.Name), nil, nil
}

// KindOf says in words what kind of a place it is.
func KindOf(place *platformv1.ComponentArchive) string {
	if place.Claim != "" {
		return "on a volume"
	}
	return "in a bucket"
}
