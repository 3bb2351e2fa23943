// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// noon is the time of all tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sizeOfTest is that of claims.
var sizeOfTest = resource.NewQuantity(1<<30, resource.BinarySI)

// web is a version from a web server.
func web(name aiv1.DatasetVersionName) aiv1.DatasetVersion {
	return aiv1.DatasetVersion{Name: name, Files: []aiv1.DatasetFile{{Path: "a.csv", SHA256: strings.Repeat("a", 64)}},
		Source: &aiv1.DatasetSource{HTTP: &aiv1.DatasetHTTPSource{URL: "https://a/b"}}}
}

// madeFrom is a version that is made from another one.
func madeFrom(name, parent aiv1.DatasetVersionName) aiv1.DatasetVersion {
	return aiv1.DatasetVersion{Name: name, From: &aiv1.DatasetFrom{Version: parent,
		Steps: []aiv1.DatasetStep{{Name: "clean", Image: "tool@sha256:1"}}}}
}

// place is a Dataset and what is known beside it.
type place struct {
	*testing.T
	ds *aiv1.Dataset
	f  facts
}

func newPlace(t *testing.T, versions ...aiv1.DatasetVersion) *place {
	t.Helper()
	p := &place{T: t, ds: &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "digits",
		UID: "12345678-1"}}}
	p.ds.Spec = aiv1.DatasetSpec{ServiceAccountName: "preparer",
		Storage: aiv1.DatasetStorage{Size: resource.MustParse("1Gi")}, Versions: versions}
	p.f = facts{now: noon, image: "agent:1", operations: map[string]*platformv1.Operation{},
		claims: map[string]*corev1.PersistentVolumeClaim{},
		taken:  map[string]bool{}, mounted: map[string]string{}, check: func(string) error { return nil }}
	return p
}

// turn decides, and has all happen that was decided.
func (p *place) turn() plan {
	p.Helper()
	decided := decide(p.ds, p.f)
	for _, claim := range decided.claims {
		p.f.claims[claim.Name] = claim
	}
	for _, op := range decided.operations {
		p.f.operations[op.Name] = op
	}
	for _, claim := range decided.remove {
		delete(p.f.claims, claim.Name)
	}
	return decided
}

// end ends the Operation of a version so long ago.
func (p *place) end(version aiv1.DatasetVersionName, phase platformv1.OperationPhase, ago time.Duration) {
	p.Helper()
	op := p.f.operations[p.status(version).Operation]
	if op == nil {
		p.Fatalf("version %q has no Operation: %+v", version, p.status(version))
	}
	op.Status = platformv1.OperationStatus{Phase: phase, CompletionTime: new(metav1.NewTime(noon.Add(-ago))),
		Error: "file a.csv: another digest",
		Steps: []platformv1.StepStatus{{Name: "fetch", Outputs: map[string]string{"digest": strings.Repeat("d", 64),
			"files": "1", "bytes": "7"}}}}
}

func (p *place) status(version aiv1.DatasetVersionName) *aiv1.DatasetVersionStatus {
	p.Helper()
	for i := range p.ds.Status.Versions {
		if p.ds.Status.Versions[i].Name == version {
			return &p.ds.Status.Versions[i]
		}
	}
	return &aiv1.DatasetVersionStatus{}
}

// prepared has a version be ready since so long.
func (p *place) prepared(version aiv1.DatasetVersionName, ago time.Duration) {
	p.Helper()
	p.end(version, platformv1.OperationSucceeded, ago)
	p.turn()
	p.want(version, aiv1.DatasetReady, "")
}

func (p *place) want(version aiv1.DatasetVersionName, phase aiv1.DatasetPhase, message string) {
	p.Helper()
	if st := p.status(version); st.Phase != phase || !strings.Contains(st.Message, message) ||
		(st.Claim != "") != (phase == aiv1.DatasetReady) {
		p.Errorf("version %q is %+v, want %s: %s", version, st, phase, message)
	}
}

func says(t *testing.T, decided plan, kind outcome.Kind, reason, text string) {
	t.Helper()
	if o := decided.outcome; o.Kind() != kind || o.Reason() != reason || !strings.Contains(o.Message(), text) {
		t.Errorf("got %v %s: %q, want %v %s: %q", o.Kind(), o.Reason(), o.Message(), kind, reason, text)
	}
}

// While a version is fetched its message is what its pod said of how far it is, and the pod is asked again.
func TestVersionSaysHowFarItsFetchIs(t *testing.T) {
	p := newPlace(t, web("1.0"))
	p.turn()
	op := p.f.operations[p.status("1.0").Operation]
	op.Status = platformv1.OperationStatus{Phase: platformv1.OperationRunning, Progress: "1/1 fetch"}
	for said, want := range map[string]string{"": "1/1 fetch", "fetch: 1.0 GiB of 4.0 GiB, 25 %": "1.0 GiB of 4.0 GiB"} {
		if p.f.progress = nil; said != "" {
			p.f.progress = map[string]string{op.Name: said}
		}
		decided := p.turn()
		p.want("1.0", aiv1.DatasetPreparing, want)
		says(t, decided, outcome.KindWaiting, platformv1.ReasonProgressing, want)
		if !decided.wake.Equal(p.f.now.Add(askEvery)) {
			t.Errorf("%q: the next look is at %s", said, decided.wake)
		}
	}
}

func TestVersionIsReadOnlyOnceItsFilesAreRight(t *testing.T) {
	p := newPlace(t, web("1.0"))
	first := p.turn()
	if len(first.claims) != 1 || len(first.operations) != 1 || first.claims[0].Name != "dataset-digits.1.0" ||
		first.claims[0].OwnerReferences != nil {
		t.Fatalf("the plan is %+v", first)
	}
	p.want("1.0", aiv1.DatasetPreparing, "waiting for the Operation")
	// A controller that died before it wrote the status finds the same names.
	st := p.ds.Status
	p.ds.Status = aiv1.DatasetStatus{}
	again := decide(p.ds, p.f)
	if len(again.claims) != 0 || again.operations[0].Name != first.operations[0].Name {
		t.Errorf("the second plan is %+v", again)
	}
	p.ds.Status = st
	p.end("1.0", platformv1.OperationFailed, 0)
	says(t, p.turn(), outcome.KindStalled, platformv1.ReasonOperationFailed,
		`version "1.0" cannot be prepared: file a.csv: another digest`)
	p.want("1.0", aiv1.DatasetFailed, "another digest")
	p.turn()
	p.want("1.0", aiv1.DatasetFailed, "another digest")

	p.ds.Annotations = map[string]string{aiv1.DatasetRetryAnnotation: "1"}
	if retry := p.turn(); len(retry.operations) != 1 || retry.operations[0].Name == first.operations[0].Name {
		t.Fatalf("the plan of the retry is %+v", retry)
	}
	p.prepared("1.0", 0)
	if st := p.status("1.0"); st.Digest != "sha256:"+strings.Repeat("d", 64) || st.Files != 1 || st.Bytes != 7 ||
		st.Attempt != 2 || st.PreparedTime == nil {
		t.Errorf("the status is %+v", st)
	}
	if done := p.turn(); done.outcome.Kind() != outcome.KindDone || p.ds.Status.Ready != "1/1" ||
		p.ds.Status.Latest != "1.0" {
		t.Errorf("the outcome is %v, the status %+v", done.outcome, p.ds.Status)
	}
	// Somebody deletes the claim.
	clear(p.f.claims)
	if lost := p.turn(); len(lost.claims) != 1 || len(lost.operations) != 1 {
		t.Errorf("the plan is %+v", lost)
	}
	p.want("1.0", aiv1.DatasetPreparing, "")
}

func TestRefusalIsToldInTheWordsOfTheSource(t *testing.T) {
	p := newPlace(t, web("1.0"))
	p.turn()
	p.end("1.0", platformv1.OperationFailed, 0)
	p.f.operations[p.status("1.0").Operation].Status.Error = `job a failed: exit code 78: file a.csv: a answers ` +
		`"403 Forbidden"; it is not tried again after exit code 78`
	says(t, p.turn(), outcome.KindStalled, platformv1.ReasonOperationFailed,
		`file a.csv: a answers "403 Forbidden"; it is not tried again after exit code 78; mend that and annotate the Dataset`)
}

func TestRetryThatComesDuringAPreparationIsForItsEnd(t *testing.T) {
	p := newPlace(t, web("1.0"), web("2.0"))
	retry := func(value string) { p.ds.Annotations = map[string]string{aiv1.DatasetRetryAnnotation: value} }
	p.turn()
	retry("1")
	if d := p.turn(); len(d.operations) != 0 || p.ds.Status.LastRetry != "" {
		t.Fatalf("it is not kept: %+v, last retry %q", d.operations, p.ds.Status.LastRetry)
	}
	p.end("1.0", platformv1.OperationFailed, 0)
	if d := p.turn(); len(d.operations) != 1 || p.ds.Status.LastRetry != "1" {
		t.Fatalf("it is not honoured: %+v, last retry %q", d.operations, p.ds.Status.LastRetry)
	}
	p.want("1.0", aiv1.DatasetPreparing, "")
	p.end("1.0", platformv1.OperationFailed, 0)
	if d := p.turn(); len(d.operations) != 0 {
		t.Errorf("one value is good for two retries: %+v", d.operations)
	}
	p.want("1.0", aiv1.DatasetFailed, "another digest")
	p.prepared("2.0", 0)

	t.Log("where nothing fails, it is not kept for what fails later")
	retry("2")
	if d := p.turn(); len(d.operations) != 1 {
		t.Fatalf("the plan is %+v", d)
	}
	retry("3")
	p.prepared("1.0", 0)
	if p.turn(); p.ds.Status.LastRetry != "3" {
		t.Errorf("it is kept: last retry %q", p.ds.Status.LastRetry)
	}
}

func TestVersionIsMadeFromOneThatIsReady(t *testing.T) {
	p := newPlace(t, madeFrom("clean", "raw"), web("raw"))
	p.turn()
	p.want("clean", aiv1.DatasetPending, `from.version "raw" is not ready`)
	p.prepared("raw", time.Hour)
	p.turn()
	p.want("clean", aiv1.DatasetPreparing, "")
	from := p.status("clean").Provenance
	if from == nil || from.Version != "raw" || from.Digest != p.status("raw").Digest || from.Images[0] != "tool@sha256:1" {
		t.Errorf("the provenance is %+v", from)
	}
	p.prepared("clean", 0)
	if p.ds.Status.Latest != "clean" || p.status("clean").Provenance == nil {
		t.Errorf("the status is %+v", p.ds.Status)
	}
}

func TestVersionOnAClaimOfTheUserHasNoneOfItsOwn(t *testing.T) {
	v := web("1.0")
	v.Source = &aiv1.DatasetSource{PVC: &aiv1.DatasetPVCSource{ClaimName: "sets", Path: "digits"}}
	p := newPlace(t, v)
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete,
		ExpireAfter: &metav1.Duration{Duration: time.Hour}}
	if first := p.turn(); len(first.claims) != 0 || len(first.operations) != 1 {
		t.Fatalf("the plan is %+v", first)
	}
	p.prepared("1.0", 2*time.Hour)
	p.turn()
	if st := p.status("1.0"); st.Phase != aiv1.DatasetReady || st.Claim != "sets" || st.Path != "digits" {
		t.Errorf("the status is %+v", st)
	}
}

func TestRefusals(t *testing.T) {
	for title, c := range map[string]struct {
		change       func(p *place)
		kind         outcome.Kind
		reason, text string
	}{
		"no room": {func(p *place) { p.ds.Spec.MaxSize = new(resource.MustParse("1Gi")) }, outcome.KindStalled,
			platformv1.ReasonQuotaExceeded,
			`version "2.0": its claim needs 1Gi, and of spec.maxSize 0 are left`},
		"a claim of another Dataset": {func(p *place) { p.f.taken["dataset-digits.1.0"] = true }, outcome.KindStalled,
			platformv1.ReasonNameTaken, "has an earlier version"},
		"a claim of another version": {func(p *place) {
			p.f.claims["dataset-digits.1.0"] = claimOf(p.ds,
				new(madeFrom("1.0", "0")))
		},
			outcome.KindStalled, platformv1.ReasonNameTaken, "has an earlier version"},
		"a claim on its way out": {func(p *place) {
			claim := claimOf(p.ds, &p.ds.Spec.Versions[0])
			claim.DeletionTimestamp = new(metav1.NewTime(noon))
			p.f.claims[claim.Name] = claim
		}, outcome.KindWaiting, platformv1.ReasonDeleting, "is being deleted"},
		"from none": {func(p *place) { p.ds.Spec.Versions[1] = madeFrom("2.0", "3.0") }, outcome.KindStalled,
			platformv1.ReasonReferenceNotFound, "add it"},
	} {
		t.Run(title, func(t *testing.T) {
			p := newPlace(t, web("1.0"), web("2.0"))
			c.change(p)
			says(t, p.turn(), c.kind, c.reason, c.text)
		})
	}
}

func TestRetentionDeletesNoClaimThatAPodMounts(t *testing.T) {
	p := newPlace(t, web("1.0"), web("2.0"), web("3.0"), madeFrom("4.0", "1.0"))
	p.turn()
	p.prepared("1.0", 3*time.Hour)
	p.prepared("2.0", 2*time.Hour)
	p.prepared("3.0", time.Hour)
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete, Keep: new(int32(1)),
		ExpireAfter: &metav1.Duration{Duration: 4 * time.Hour}}
	p.f.mounted["dataset-digits.2.0"] = "reader"
	decided := p.turn()
	if !decided.finalizer || len(decided.remove) != 0 || decided.wake != noon.Add(recheck) {
		t.Errorf("the plan is %+v", decided)
	}
	p.want("1.0", aiv1.DatasetReady, "") // 4.0 is still to be made from it.
	p.want("2.0", aiv1.DatasetReady,
		`retention.keep is 1, and so many were prepared later, and its claim goes when pod "reader"`)
	delete(p.f.mounted, "dataset-digits.2.0")
	p.turn()
	p.want("2.0", aiv1.DatasetExpired, "retention.keep is 1")
	p.prepared("4.0", 0)
	p.turn()
	p.want("1.0", aiv1.DatasetExpired, "retention.keep is 1")
	p.want("4.0", aiv1.DatasetReady, "")
	p.f.now = noon.Add(5 * time.Hour)
	p.turn()
	p.want("4.0", aiv1.DatasetExpired, "retention.expireAfter 4h0m0s is over")
	if done := p.turn(); done.outcome.Kind() != outcome.KindDone || len(p.f.claims) != 0 || len(done.operations) != 0 {
		t.Errorf("the plan is %+v, the claims %v", done, p.f.claims)
	}
}

func TestVersionThatIsTakenOutKeepsItsClaimUnlessThePolicyIsDelete(t *testing.T) {
	p := newPlace(t, web("1.0"), web("2.0"))
	p.turn()
	p.prepared("1.0", time.Hour)
	p.ds.Spec.Versions = p.ds.Spec.Versions[:1]
	decided := p.turn()
	if len(decided.cancel) != 1 || len(decided.remove) != 0 || len(p.ds.Status.Versions) != 1 {
		t.Errorf("the plan is %+v", decided)
	}
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete}
	p.f.mounted["dataset-digits.2.0"] = "reader"
	says(t, p.turn(), outcome.KindWaiting, platformv1.ReasonDeleting,
		`version "2.0" was taken out: pod "reader" mounts`)
	p.want("2.0", aiv1.DatasetRemoving, "reader")
	clear(p.f.mounted)
	if gone := p.turn(); len(gone.remove) != 1 {
		t.Errorf("the plan is %+v", gone)
	}
	if p.turn(); len(p.ds.Status.Versions) != 1 {
		t.Errorf("the versions are %+v", p.ds.Status.Versions)
	}
}

// What prepared an earlier version of a name says nothing of one that is added later: its claim may be another one, or
// have other files.
func TestVersionThatIsAddedAgainIsPreparedAgain(t *testing.T) {
	p := newPlace(t, web("1.0"), web("2.0"))
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete}
	p.turn()
	p.prepared("1.0", time.Hour)
	p.prepared("2.0", time.Hour)
	used := map[string]bool{p.status("1.0").Operation: true, p.status("2.0").Operation: true}
	for range 3 {
		p.ds.Spec.Versions = p.ds.Spec.Versions[:1]
		p.turn()
		p.turn()
		if len(p.ds.Status.Versions) != 1 || len(p.f.claims) != 1 {
			t.Fatalf("the versions are %+v, the claims %v", p.ds.Status.Versions, p.f.claims)
		}
		p.ds.Spec.Versions = append(p.ds.Spec.Versions, web("2.0"))
		decided := p.turn()
		if len(decided.claims) != 1 || len(decided.operations) != 1 || used[decided.operations[0].Name] {
			t.Fatalf("the plan is %+v", decided)
		}
		used[decided.operations[0].Name] = true
		p.want("2.0", aiv1.DatasetPreparing, "waiting for the Operation")
		p.prepared("2.0", 0)
	}
}

// A version whose name another one has taken meanwhile is not the one that is there.
func TestVersionThatWasReplacedIsNotTakenForTheFormer(t *testing.T) {
	onClaim := func(claim string) aiv1.DatasetVersion {
		v := web("1.0")
		v.Source = &aiv1.DatasetSource{PVC: &aiv1.DatasetPVCSource{ClaimName: claim}}
		return v
	}
	p := newPlace(t, onClaim("former"))
	p.turn()
	first := p.status("1.0").Operation
	p.ds.Spec.Versions[0] = onClaim("next")
	decided := p.turn()
	if len(decided.cancel) != 1 || decided.cancel[0] != first || len(decided.operations) != 1 ||
		decided.operations[0].Name == first {
		t.Errorf("the plan is %+v", decided)
	}
	p.prepared("1.0", 0)
	p.ds.Spec.Versions[0] = web("1.0")
	p.turn()
	p.want("1.0", aiv1.DatasetPreparing, "")
	p.prepared("1.0", 0)
	p.ds.Spec.Versions[0].Files[0].SHA256 = strings.Repeat("b", 64)
	says(t, p.turn(), outcome.KindStalled, platformv1.ReasonNameTaken, "has an earlier version of that name")
	p.want("1.0", aiv1.DatasetPending, "has an earlier version of that name")
}

func TestDatasetGoesWithItsClaimsWhereThePolicyIsDelete(t *testing.T) {
	p := newPlace(t, web("1.0"))
	p.turn()
	p.ds.DeletionTimestamp = new(metav1.NewTime(noon))
	if kept := p.turn(); kept.finalizer || len(kept.remove) != 0 || len(kept.cancel) != 1 {
		t.Errorf("the plan is %+v", kept)
	}
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete}
	p.f.mounted["dataset-digits.1.0"] = "reader"
	waits := p.turn()
	says(t, waits, outcome.KindWaiting, platformv1.ReasonDeleting,
		`pod "reader" mounts PersistentVolumeClaim "dataset-digits.1.0", which goes when no pod does`)
	if !waits.finalizer || len(waits.remove) != 0 {
		t.Errorf("the plan is %+v", waits)
	}
	clear(p.f.mounted)
	p.f.spent = map[string][]*corev1.Pod{"dataset-digits.1.0": {{}}, "another": {{}}}
	p.f.ended = map[string]string{"dataset-digits.1.0": "yesterday"}
	goes := p.turn()
	says(t, goes, outcome.KindWaiting, platformv1.ReasonDeleting,
		`is being deleted, and goes when somebody deletes pod "yesterday", which has ended`)
	if !goes.finalizer || len(goes.remove) != 1 || len(goes.discard) != 1 {
		t.Errorf("the plan is %+v", goes)
	}
	if gone := p.turn(); gone.finalizer {
		t.Errorf("the plan is %+v", gone)
	}
}

// user is an Inference that mounts versions of the Dataset.
func user(name string, versions ...aiv1.DatasetVersionName) *aiv1.Inference {
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, version := range versions {
		i.Status.Datasets = append(i.Status.Datasets, aiv1.InferenceDatasetStatus{Name: "digits", Version: version})
	}
	return i
}

// What an Inference uses keeps its claim, whatever retention and the deletion policy say.
func TestVersionInUseStays(t *testing.T) {
	p := newPlace(t, web("1.0"), web("2.0"))
	p.turn()
	p.prepared("1.0", 2*time.Hour)
	p.prepared("2.0", time.Hour)
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete, Keep: new(int32(1))}
	next := user("next")
	next.Spec.Datasets = []aiv1.InferenceDataset{{Name: "digits", Version: "2.0"}, {Name: "other", Version: "1.0"}}
	p.f.users = []*aiv1.Inference{user("chat", "1.0"), next}
	if kept := p.turn(); !kept.used || len(kept.remove) != 0 {
		t.Errorf("the plan is %+v", kept)
	}
	p.want("1.0", aiv1.DatasetReady, "")
	if p.status("1.0").InUse != 1 || p.status("2.0").InUse != 1 {
		t.Errorf("the versions are %+v", p.ds.Status.Versions)
	}
	p.ds.Spec.Versions = p.ds.Spec.Versions[1:]
	if kept := p.turn(); len(kept.remove) != 0 {
		t.Errorf("the plan is %+v", kept)
	}
	p.ds.DeletionTimestamp = new(metav1.NewTime(noon))
	kept := p.turn()
	says(t, kept, outcome.KindWaiting, platformv1.ReasonDeleting,
		`it is used by Inference "chat" and 1 more, and goes when nothing uses it any more`)
	if !kept.finalizer || !kept.used || len(kept.remove) != 0 {
		t.Errorf("the plan is %+v", kept)
	}
	p.f.users = nil
	if goes := p.turn(); !goes.finalizer || goes.used || len(goes.remove) != 2 {
		t.Errorf("the plan is %+v", goes)
	}
}
