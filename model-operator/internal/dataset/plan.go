// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// facts are what is decided on beside the Dataset.
type facts struct {
	now time.Time
	// image of the agents.
	image string
	// operations by name: those of the status that have not been told the end of. One that does not exist is absent.
	operations map[string]*platformv1.Operation
	// progress says how far what they fetch is, by the names of Operations: of those whose pods say it.
	progress map[string]string
	// claims of the Dataset by name.
	claims map[string]*corev1.PersistentVolumeClaim
	// taken are the names of claims of another Dataset of the name, which was there before.
	taken map[string]bool
	// mounted is a pod that has not ended, by the name of a claim that it mounts: of those in going.
	mounted map[string]string
	// spent are the pods of the Dataset's own Operations that have ended, by the name of a claim that they mount: of those
	// in going. Kubernetes keeps a claim as long as there is such a pod.
	spent map[string][]*corev1.Pod
	// ended is a pod of somebody else that has ended, by the name of a claim that it keeps: of those in going.
	ended map[string]string
	// users are the Inferences that use the Dataset.
	users []*aiv1.Inference
	// check says what is wrong with an inline template.
	check func(text string) error
}

// plan is what to do now, in this order.
type plan struct {
	// finalizer says whether the Dataset is to have one, and used whether it is to have that of what others use.
	finalizer, used bool
	// claims and operations to create; the latter complete but for their owner.
	claims     []*corev1.PersistentVolumeClaim
	operations []*platformv1.Operation
	// cancel names Operations to cancel.
	cancel []string
	// remove are claims to delete, and discard the pods that have ended and keep them.
	remove  []*corev1.PersistentVolumeClaim
	discard []*corev1.Pod
	// outcome of all versions.
	outcome outcome.Outcome
	// wake is when to look again although nothing happened; zero for never.
	wake time.Time
}

// recheck is how soon a claim is looked at again that pods mount: nobody tells when these end.
const recheck = 10 * time.Second

// decide plans what comes of a Dataset now, and fills in its status but for the conditions.
func decide(ds *aiv1.Dataset, f facts) plan {
	if !ds.DeletionTimestamp.IsZero() {
		return depart(ds, f)
	}
	d := decision{ds: ds, facts: f, plan: plan{finalizer: deletes(ds), used: len(f.users) > 0}, going: going(ds, f)}
	retry := ds.Annotations[aiv1.DatasetRetryAnnotation]
	d.retry = retry != "" && retry != ds.Status.LastRetry
	before := map[aiv1.DatasetVersionName]aiv1.DatasetVersionStatus{}
	for _, st := range ds.Status.Versions {
		before[st.Name] = st
	}
	ds.Status.Versions = nil
	for i := range ds.Spec.Versions {
		name := ds.Spec.Versions[i].Name
		st, known := before[name]
		if known && st.SpecDigest != "" && st.SpecDigest != digestOf(&ds.Spec.Versions[i]) {
			// What is known is of an earlier version of the name, which nobody saw being taken out.
			d.stop(&st)
			st = aiv1.DatasetVersionStatus{Attempt: st.Attempt}
		}
		st.Name = name
		delete(before, name)
		ds.Status.Versions = append(ds.Status.Versions, st)
	}
	// A version may be made from one that comes later.
	for i := range ds.Spec.Versions {
		d.version(&ds.Spec.Versions[i], &ds.Status.Versions[i])
	}
	if d.retried || !slices.ContainsFunc(ds.Status.Versions, preparing) {
		// While it waits for the end of a preparation, it is for that one.
		ds.Status.LastRetry = retry
	}
	for i := range ds.Status.Versions {
		ds.Status.Versions[i].InUse = f.inUse(ds, ds.Status.Versions[i].Name)
	}
	d.takenOut(before)
	d.summarize()
	return d.plan
}

func preparing(st aiv1.DatasetVersionStatus) bool { return st.Phase == aiv1.DatasetPreparing }

// decision is a plan in the making.
type decision struct {
	plan

	ds    *aiv1.Dataset
	facts facts
	// going are the claims that are to be deleted, by name, and why.
	going map[string]string
	// retry says that versions that failed are prepared again, and retried that one is.
	retry, retried bool
	// room is what the claims of this turn take of spec.maxSize.
	room int64
}

// add takes the outcome of a version in.
func (d *decision) add(o outcome.Outcome) { d.outcome = outcome.Worst(d.outcome, o) }

// version decides on one version.
func (d *decision) version(v *aiv1.DatasetVersion, st *aiv1.DatasetVersionStatus) {
	claim := claimName(d.ds, v.Name)
	if why := d.going[claim]; why != "" {
		d.expire(claim, why, st)
		return
	}
	switch st.Phase {
	case aiv1.DatasetExpired:
		return
	case aiv1.DatasetPreparing:
		d.follow(v, st)
	case aiv1.DatasetReady:
		if have := d.facts.claims[claim]; hasOwnClaim(v) && (have == nil || !have.DeletionTimestamp.IsZero()) {
			*st = aiv1.DatasetVersionStatus{Name: st.Name, Attempt: st.Attempt}
			d.begin(v, st)
		}
	case aiv1.DatasetFailed:
	default:
		d.begin(v, st)
	}
	if st.Phase == aiv1.DatasetFailed && d.retry {
		d.retried = true
		d.begin(v, st)
	}
	if st.Phase == aiv1.DatasetFailed {
		d.add(outcome.Stalled(platformv1.ReasonOperationFailed, fmt.Sprintf(
			"version %q cannot be prepared: %s; mend that and annotate the Dataset with %s, or take the version out",
			v.Name, st.Message, aiv1.DatasetRetryAnnotation)))
	}
}

// waits has a version wait, and says for what.
func (d *decision) waits(st *aiv1.DatasetVersionStatus, o outcome.Outcome) {
	st.Phase, st.Message = aiv1.DatasetPending, o.Message()
	d.add(o.Saying(fmt.Sprintf("version %q: %s", st.Name, o.Message())))
}

// begin begins an attempt to prepare a version, where nothing stands against it.
func (d *decision) begin(v *aiv1.DatasetVersion, st *aiv1.DatasetVersionStatus) {
	parent, o := d.parent(v)
	if o.Kind() != outcome.KindDone {
		d.waits(st, o)
		return
	}
	if o := d.claim(v); o.Kind() != outcome.KindDone {
		d.waits(st, o)
		return
	}
	text, err := templateOf(d.facts.image, claimName(d.ds, v.Name), v, sizeOf(d.ds, v), parent, d.facts.check)
	if err != nil {
		d.waits(st, outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error()))
		return
	}
	if hasOwnClaim(v) && d.facts.claims[claimName(d.ds, v.Name)] == nil {
		claim := claimOf(d.ds, v)
		d.claims, d.room = append(d.claims, claim), d.room+storageOf(claim)
	}
	attempt := cmp.Or(st.Attempt, d.ds.Status.PastAttempts) + 1
	op := operationOf(d.ds, v.Name, text, attempt)
	d.operations = append(d.operations, op)
	*st = aiv1.DatasetVersionStatus{Name: st.Name, Phase: aiv1.DatasetPreparing, Attempt: attempt,
		SpecDigest: digestOf(v), Operation: op.Name, Message: "waiting for the Operation to begin"}
	if parent != nil {
		st.Provenance = &aiv1.DatasetProvenance{Version: parent.Name, Digest: parent.Digest, Images: imagesOf(v.From)}
	}
	d.add(outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("version %q is being prepared by Operation %q",
		v.Name, op.Name)))
}

// parent is the version that another one is made from; nil for one with a source. The outcome says what has to come
// first.
func (d *decision) parent(v *aiv1.DatasetVersion) (*aiv1.DatasetVersionStatus, outcome.Outcome) {
	if v.From == nil {
		return nil, outcome.Done()
	}
	at := slices.IndexFunc(d.ds.Status.Versions,
		func(st aiv1.DatasetVersionStatus) bool { return st.Name == v.From.Version })
	if at < 0 {
		return nil, outcome.Stalled(platformv1.ReasonReferenceNotFound,
			fmt.Sprintf("from.version %q is not in spec.versions: add it", v.From.Version))
	}
	parent := &d.ds.Status.Versions[at]
	switch parent.Phase {
	case aiv1.DatasetReady:
		return parent, outcome.Done()
	case aiv1.DatasetExpired:
		return nil, outcome.Stalled(platformv1.ReasonReferenceNotFound, fmt.Sprintf(
			"from.version %q has expired and cannot be read: add it under another name, and make the version from that one",
			parent.Name))
	}
	return nil, outcome.Waiting(platformv1.ReasonNeedNotReady, fmt.Sprintf("from.version %q is not ready", parent.Name))
}

// claim says what stands against the claim of a version; Done for nothing.
func (d *decision) claim(v *aiv1.DatasetVersion) outcome.Outcome {
	if !hasOwnClaim(v) {
		return outcome.Done()
	}
	name := claimName(d.ds, v.Name)
	have := d.facts.claims[name]
	switch {
	case d.facts.taken[name] || have != nil && have.Annotations[aiv1.DatasetDigestAnnotation] != digestOf(v):
		return outcome.Stalled(platformv1.ReasonNameTaken, fmt.Sprintf(
			"PersistentVolumeClaim %q has an earlier version of that name: add this one under another name, or delete the claim",
			name))
	case have != nil && !have.DeletionTimestamp.IsZero():
		return outcome.WaitingFor(recheck, platformv1.ReasonDeleting,
			fmt.Sprintf("PersistentVolumeClaim %q is being deleted: it goes when no pod mounts it", name))
	case have != nil || d.ds.Spec.MaxSize == nil:
		return outcome.Done()
	}
	used := d.room
	for _, other := range d.facts.claims {
		used += storageOf(other)
	}
	if size, most := sizeOf(d.ds, v), d.ds.Spec.MaxSize.Value(); used+size > most {
		return outcome.Stalled(platformv1.ReasonQuotaExceeded, fmt.Sprintf(
			"its claim needs %s, and of spec.maxSize %s are left: take versions out with the deletion policy Delete, or raise "+
				"maxSize", sized(size), sized(max(most-used, 0))))
	}
	return outcome.Done()
}

// follow tells how far the Operation of a version is, and what came of it.
func (d *decision) follow(v *aiv1.DatasetVersion, st *aiv1.DatasetVersionStatus) {
	op := d.facts.operations[st.Operation]
	switch {
	case op == nil:
		st.Phase, st.Message = aiv1.DatasetFailed, fmt.Sprintf("Operation %q was deleted before it ended", st.Operation)
	case op.Status.Phase == platformv1.OperationSucceeded:
		d.prepared(v, st, op)
	case op.Status.Phase.Ended():
		st.Phase, st.Message = aiv1.DatasetFailed, cmp.Or(strings.TrimSuffix(op.Status.Error, "."),
			fmt.Sprintf("Operation %q was cancelled", op.Name))
	default:
		st.Message = cmp.Or(d.facts.progress[op.Name], op.Status.Progress, "waiting for the Operation to begin")
		if fetches(v) {
			// Its pod tells nobody by itself.
			d.again(d.facts.now.Add(askEvery))
		}
		d.add(outcome.Waiting(platformv1.ReasonProgressing,
			fmt.Sprintf("version %q is being prepared by Operation %q: %s", v.Name, op.Name, st.Message)))
	}
}

// prepared has a version be ready, by what its Operation said.
func (d *decision) prepared(v *aiv1.DatasetVersion, st *aiv1.DatasetVersionStatus, op *platformv1.Operation) {
	said := map[string]string{}
	for _, step := range op.Status.Steps {
		if step.Outputs["digest"] != "" {
			said = step.Outputs
		}
	}
	var err error
	if st.Files, err = strconv.ParseInt(said["files"], 10, 64); err == nil {
		st.Bytes, err = strconv.ParseInt(said["bytes"], 10, 64)
	}
	if err != nil {
		st.Phase = aiv1.DatasetFailed
		st.Message = fmt.Sprintf("Operation %q does not say what the version has", op.Name)
		return
	}
	st.Phase, st.Message, st.Digest, st.PreparedTime = aiv1.DatasetReady, "", "sha256:"+said["digest"],
		op.Status.CompletionTime
	if st.PreparedTime == nil {
		st.PreparedTime = new(metav1.NewTime(d.facts.now))
	}
	st.Claim = claimName(d.ds, v.Name)
	if !hasOwnClaim(v) {
		st.Claim, st.Path = v.Source.PVC.ClaimName, v.Source.PVC.Path
	}
	// What is made from it, and what retention makes of it, is decided in the next turn, which this one brings about.
	d.again(d.facts.now)
}

// again has the Dataset be looked at again at a time.
func (d *decision) again(at time.Time) {
	if d.wake.IsZero() || at.Before(d.wake) {
		d.wake = at
	}
}

// summarize fills in what the status says of all versions.
func (d *decision) summarize() {
	ready, latest := 0, (*aiv1.DatasetVersionStatus)(nil)
	for i := range d.ds.Spec.Versions {
		st := &d.ds.Status.Versions[i]
		if st.Phase != aiv1.DatasetReady {
			continue
		}
		ready++
		if latest == nil || latest.PreparedTime.Before(st.PreparedTime) {
			latest = st
		}
		if r := d.ds.Spec.Retention; r != nil && r.ExpireAfter != nil && hasOwnClaim(&d.ds.Spec.Versions[i]) {
			if at := st.PreparedTime.Add(r.ExpireAfter.Duration); at.After(d.facts.now) {
				d.again(at)
			}
		}
	}
	d.ds.Status.Ready, d.ds.Status.Latest = fmt.Sprintf("%d/%d", ready, len(d.ds.Spec.Versions)), ""
	if latest != nil {
		d.ds.Status.Latest = latest.Name
	}
}
