// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// deletes says whether claims go with what they are for.
func deletes(ds *aiv1.Dataset) bool {
	return ds.Spec.Retention != nil && ds.Spec.Retention.DeletionPolicy == aiv1.DatasetDelete
}

// going are the claims that are to be deleted, by name, and why. It looks at no pods.
func going(ds *aiv1.Dataset, f facts) map[string]string {
	if !deletes(ds) {
		return nil
	}
	expired, specified := expiring(ds, f), map[aiv1.DatasetVersionName]bool{}
	for i := range ds.Spec.Versions {
		specified[ds.Spec.Versions[i].Name] = true
	}
	all := map[string]string{}
	for name, claim := range f.claims {
		version := aiv1.DatasetVersionName(claim.Labels[aiv1.DatasetVersionLabel])
		switch {
		case !ds.DeletionTimestamp.IsZero():
			all[name] = "the Dataset is being deleted"
		case !specified[version] && f.inUse(ds, version) == 0:
			all[name] = "the version was taken out"
		case expired[version] != "":
			all[name] = expired[version]
		}
	}
	return all
}

// expiring are the versions whose claims go by keep and expireAfter, and why; those that have gone before as well.
func expiring(ds *aiv1.Dataset, f facts) map[aiv1.DatasetVersionName]string {
	all, needed := map[aiv1.DatasetVersionName]string{}, map[aiv1.DatasetVersionName]bool{}
	phases := map[aiv1.DatasetVersionName]*aiv1.DatasetVersionStatus{}
	for i := range ds.Status.Versions {
		phases[ds.Status.Versions[i].Name] = &ds.Status.Versions[i]
	}
	var kept []*aiv1.DatasetVersionStatus
	for i := range ds.Spec.Versions {
		v := &ds.Spec.Versions[i]
		st := phases[v.Name]
		if v.From != nil && (st == nil || st.Phase != aiv1.DatasetReady && st.Phase != aiv1.DatasetExpired) {
			needed[v.From.Version] = true
		}
		switch {
		case st == nil || !hasOwnClaim(v):
		case st.Phase == aiv1.DatasetExpired:
			all[v.Name] = cmp.Or(st.Message, "it has expired")
		case st.Phase == aiv1.DatasetReady:
			kept = append(kept, st)
		}
	}
	slices.SortStableFunc(kept, func(a, b *aiv1.DatasetVersionStatus) int {
		return b.PreparedTime.Compare(a.PreparedTime.Time)
	})
	r := ds.Spec.Retention
	for i, st := range kept {
		switch {
		case needed[st.Name], f.inUse(ds, st.Name) > 0:
		case r.Keep != nil && i >= int(*r.Keep):
			all[st.Name] = fmt.Sprintf("retention.keep is %d, and so many were prepared later", *r.Keep)
		case r.ExpireAfter != nil && !f.now.Before(st.PreparedTime.Add(r.ExpireAfter.Duration)):
			all[st.Name] = fmt.Sprintf("retention.expireAfter %s is over", r.ExpireAfter.Duration)
		}
	}
	return all
}

// expire deletes the claim of a version that has expired, once no pod mounts it.
func (d *decision) expire(claim, why string, st *aiv1.DatasetVersionStatus) {
	if pod := d.facts.mounted[claim]; pod != "" {
		st.Message = fmt.Sprintf("%s, and its claim goes when pod %q does not mount it any more", why, pod)
		d.again(d.facts.now.Add(recheck))
		return
	}
	d.delete(d.facts.claims[claim])
	st.Phase, st.Message, st.Claim = aiv1.DatasetExpired, why, ""
}

// takenOut ends what is under way for versions that are no longer in the spec, and tells of the claims that are still
// to go.
func (d *decision) takenOut(before map[aiv1.DatasetVersionName]aiv1.DatasetVersionStatus) {
	for _, st := range before {
		d.stop(&st)
		d.ds.Status.PastAttempts = max(d.ds.Status.PastAttempts, st.Attempt)
	}
	slices.Sort(d.cancel)
	for _, name := range slices.Sorted(maps.Keys(d.going)) {
		claim := d.facts.claims[name]
		version := aiv1.DatasetVersionName(claim.Labels[aiv1.DatasetVersionLabel])
		if slices.ContainsFunc(d.ds.Spec.Versions, func(v aiv1.DatasetVersion) bool { return v.Name == version }) {
			continue
		}
		st := aiv1.DatasetVersionStatus{Name: version, Phase: aiv1.DatasetRemoving, Digest: before[version].Digest,
			Attempt: before[version].Attempt}
		st.Message = d.leave(claim)
		d.ds.Status.Versions = append(d.ds.Status.Versions, st)
		d.add(outcome.Waiting(platformv1.ReasonDeleting, fmt.Sprintf("version %q was taken out: %s", version,
			st.Message)))
	}
}

// stop cancels what prepares a version.
func (d *decision) stop(st *aiv1.DatasetVersionStatus) {
	op := d.facts.operations[st.Operation]
	if st.Phase == aiv1.DatasetPreparing && op != nil && !op.Status.Phase.Ended() {
		d.cancel = append(d.cancel, op.Name)
	}
}

// leave deletes a claim once no pod mounts it, and says how it stands with it.
func (d *decision) leave(claim *corev1.PersistentVolumeClaim) string {
	if pod := d.facts.mounted[claim.Name]; pod != "" {
		d.again(d.facts.now.Add(recheck))
		return fmt.Sprintf("pod %q mounts PersistentVolumeClaim %q, which goes when no pod does", pod, claim.Name)
	}
	d.delete(claim)
	if pod := d.facts.ended[claim.Name]; pod != "" {
		return fmt.Sprintf(
			"PersistentVolumeClaim %q is being deleted, and goes when somebody deletes pod %q, which has ended", claim.Name, pod)
	}
	return fmt.Sprintf("PersistentVolumeClaim %q is being deleted", claim.Name)
}

// delete deletes a claim, and what is left of the pods that prepared it.
func (d *decision) delete(claim *corev1.PersistentVolumeClaim) {
	d.remove = append(d.remove, claim)
	d.discard = append(d.discard, d.facts.spent[claim.Name]...)
}

// depart lets a Dataset go that is being deleted: with its claims where the policy says so.
func depart(ds *aiv1.Dataset, f facts) plan {
	d := decision{ds: ds, facts: f, going: going(ds, f)}
	for i := range ds.Status.Versions {
		d.stop(&ds.Status.Versions[i])
	}
	if why := f.keptBy(); why != "" {
		d.finalizer, d.used = deletes(ds), true
		d.outcome = outcome.Waiting(platformv1.ReasonDeleting, why)
		return d.plan
	}
	message := "what it owns is being removed"
	for _, name := range slices.Sorted(maps.Keys(d.going)) {
		said := d.leave(f.claims[name])
		if f.mounted[name] != "" || d.outcome.Kind() == outcome.KindDone {
			message = said
			d.add(outcome.Waiting(platformv1.ReasonDeleting, said))
		}
	}
	d.finalizer = len(d.going) > 0
	d.outcome = outcome.Waiting(platformv1.ReasonDeleting, message)
	return d.plan
}
