// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// dataFixture is a set with two generations of volumes, and an Operation that has the one take the place of the other.
type dataFixture struct {
	*testing.T
	set    *platformv1.WorkloadSet
	wanted opsflow.Data
	// c does what a verb asks for, as the operator does: nothing else looks at the set.
	c *Controller
}

func newDataFixture(t *testing.T) *dataFixture {
	t.Helper()
	own := (&fixture{t: t}).client(env.System.Config)
	f := &dataFixture{T: t, c: &Controller{
		Deps:   Deps{Now: time.Now, Settings: settings.New(render.Settings{AgentImage: "agents:1"}), Domain: testDomain},
		client: own, live: own},
		wanted: opsflow.Data{Set: setName, Generation: "g2", Mark: "backup-uid", Copy: "copy", CopyDigest: "sha256:1"}}
	f.set = &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: setName,
			Labels: map[string]string{platformv1.ApplicationUIDLabel: "uid"}},
		Spec: platformv1.WorkloadSetSpec{
			Application: "redis-a", Component: "redis", Set: "main",
			Plugin: platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:1"}, Version: "7.0",
			Replicas: 2, Revision: "1", Template: runtime.RawExtension{Raw: []byte(`{}`)},
			Plan:    runtime.RawExtension{Raw: []byte(`{}`)},
			Volumes: []platformv1.SetVolume{{Name: "data", Storage: platformv1.Storage{Size: resource.MustParse("1Gi")}}},
		},
	}
	f.set.Labels[platformv1.ComponentLabel], f.set.Labels[platformv1.SetLabel] = "redis", "main"
	f.must(env.Client.Create(t.Context(), f.set))
	for _, generation := range []string{"", "g2"} {
		claim := accept.Claim(f.at(generation), 0, f.set.Spec.Volumes[0])
		// There is nobody to take it away, so that it is seen to go.
		claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
		f.must(env.Client.Create(t.Context(), claim))
	}
	f.mark(f.wanted.Mark)
	backup := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "copy"}}
	backup.Spec.ApplicationRef.Name, backup.Spec.RepositoryRef.Name, backup.Spec.Method = "redis-a", "store", "rdb"
	backup.Spec.Timeout.Duration = time.Hour
	f.must(own.Create(t.Context(), backup))
	f.must(env.Client.Create(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "store"},
			Spec: f.claim("").Spec}))
	f.must(env.Client.Create(t.Context(),
		&platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "store"},
			Spec: platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "store"}}}))
	f.copied(platformv1.BackupCompleted)
	return f
}

func (f *dataFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// at is the set with volumes of a generation.
func (f *dataFixture) at(generation string) *platformv1.WorkloadSet {
	set := f.set.DeepCopy()
	set.Spec.Data = &platformv1.SetData{Generation: generation}
	return set
}

// claim of the first pod, of a generation.
func (f *dataFixture) claim(generation string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace,
			Name: platformv1.ClaimNameIn(generation, "data", f.set.FirstPod())}}
	f.must(env.Client.Get(f.Context(), client.ObjectKeyFromObject(claim), claim))
	return claim
}

func (f *dataFixture) patch(obj client.Object, body string) {
	f.Helper()
	f.must(env.Client.Patch(f.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))))
}

// mark says whose data the volumes of the other generation have.
func (f *dataFixture) mark(uid string) {
	f.patch(f.claim("g2"), `{"metadata":{"annotations":{"`+platformv1.RestoredAnnotation+`":"`+uid+`"}}}`)
}

// point says which volumes the set has.
func (f *dataFixture) point(data string) { f.patch(f.set, `{"spec":{"data":`+data+`}}`) }

// wrote says who wrote last on volumes that the pods had before.
func (f *dataFixture) wrote(record string) {
	f.Helper()
	set := f.set.DeepCopy()
	f.must(env.Client.Status().Patch(f.Context(), set,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"formerPrimaries":[`+record+`]}}`))))
}

// copied says how the safety copy stands.
func (f *dataFixture) copied(phase platformv1.BackupPhase) {
	backup := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "copy"}}
	f.must(f.c.client.Status().Patch(f.Context(), backup,
		client.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"phase":"`+string(phase)+`","digest":"sha256:1","completionTime":"`+
				time.Now().UTC().Format(time.RFC3339)+`"}}`))))
}

// verifier is the Job that reads the safety copy.
func (f *dataFixture) verifier() *batchv1.Job {
	f.Helper()
	job := &batchv1.Job{}
	f.must(env.Client.Get(f.Context(), client.ObjectKey{Namespace: f.set.Namespace, Name: "verify-copy-op"}, job))
	return job
}

// verified has that Job end with what its mover says.
func (f *dataFixture) verified(says string) {
	f.Helper()
	job, now := f.verifier(), metav1.Now()
	var plan mover.Plan
	f.must(json.Unmarshal([]byte(job.Spec.Template.Annotations[platformv1.MoverPlanAnnotation]), &plan))
	if plan.Verb != mover.VerbInspect || !plan.Verify || plan.Backup.Digest != "sha256:1" {
		f.Errorf("the safety copy is read as %+v", plan)
	}
	pod := testkit.PodOfJob(job)
	f.must(env.Client.Create(f.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: pod.Spec.Containers[0].Name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: says, FinishedAt: now}}}}
	f.must(env.Client.Status().Update(f.Context(), pod))
	f.must(env.EndJob(f.Context(), job, batchv1.JobComplete))
}

// does has a verb done; says is why it is refused, empty when it is not.
func (f *dataFixture) does(verb opsflow.DataVerb, says string) {
	f.Helper()
	f.wanted.Verb = verb
	answer, err := f.c.data(f.Context(),
		&platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "back", UID: "op"}}, nil,
		&f.wanted)
	f.must(err)
	if says == "" && answer.Failure != "" || !strings.Contains(answer.Problem, says) {
		f.Errorf("%s: it says %q, want %q", verb, answer.Problem, says)
	}
	f.must(env.Client.Get(f.Context(), client.ObjectKeyFromObject(f.set), f.set))
}

// is checks which volumes the set has.
func (f *dataFixture) is(want platformv1.SetData) {
	f.Helper()
	if data := f.set.Spec.Data; data == nil && want != (platformv1.SetData{}) || data != nil && *data != want {
		f.Errorf("it has %+v, want %+v", data, want)
	}
}

// Volumes take the place of others when they are those that were filled, and the others go when there is a copy of
// them.
func TestVolumesTakeTheirPlace(t *testing.T) {
	f := newDataFixture(t)
	closed := platformv1.SetData{Generation: "g2", Access: platformv1.DataClosed}
	f.mark("another")
	f.does(opsflow.DataSwap, "does not have the restored data")
	f.mark(f.wanted.Mark)
	for _, halted := range []string{"running", "suspend"} {
		f.patch(f.set, fmt.Sprintf(`{"spec":{%q:%t}}`, halted, halted == "suspend"))
		f.does(opsflow.DataSwap, setName+" is stopped or suspended by now: run the Operation again when it runs")
		f.is(platformv1.SetData{})
		f.patch(f.set, fmt.Sprintf(`{"spec":{%q:null}}`, halted))
	}
	f.does(opsflow.DataSwap, "")
	f.is(closed)
	f.does(opsflow.DataDiscard, "they are kept")
	f.does(opsflow.DataDrop, "the previous volumes are kept")
	f.mark("another")
	f.does(opsflow.DataOpen, "no client is led there")
	f.is(closed)
	f.mark(f.wanted.Mark)
	f.does(opsflow.DataOpen, "")
	f.is(platformv1.SetData{Generation: "g2"})
	f.mark("another")
	// What clients write is there by now.
	f.does(opsflow.DataOpen, "")
	f.does(opsflow.DataDrop, "the previous volumes are kept")
	f.mark(f.wanted.Mark)
	for _, phase := range []platformv1.BackupPhase{platformv1.BackupFailed, platformv1.BackupDeleting} {
		f.copied(phase)
		f.does(opsflow.DataDrop, "the safety copy")
	}
	f.copied(platformv1.BackupCompleted)
	f.wanted.CopyDigest = "sha256:2"
	f.does(opsflow.DataDrop, "the safety copy")
	if f.claim("").DeletionTimestamp != nil {
		t.Fatal("the volume of before goes")
	}
	f.wanted.CopyDigest = "sha256:1"
	f.does(opsflow.DataDrop, "is verified before the previous volumes are deleted")
	f.does(opsflow.DataDrop, "is verified before the previous volumes are deleted")
	f.verified(`{"reason":"RepositoryUnreachable","message":"no answer"}`)
	f.does(opsflow.DataDrop, "no answer; the previous volumes are kept")
	// What another attempt may mend is tried anew, and what none can is not.
	f.does(opsflow.DataDrop, "is verified before the previous volumes are deleted")
	f.verified(`{"reason":"BackupDamaged","message":"part 1 is gone"}`)
	f.does(opsflow.DataDrop, "part 1 is gone; the previous volumes are kept")
	f.does(opsflow.DataDrop, "part 1 is gone; the previous volumes are kept")
	if f.claim("").DeletionTimestamp != nil {
		t.Fatal("the volume of before goes")
	}
	f.must(env.Client.Delete(t.Context(), f.verifier(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	f.does(opsflow.DataDrop, "is verified before the previous volumes are deleted")
	f.verified(`{"digest":"sha256:1"}`)
	// Whatever was written there after the swap is in no copy.
	f.wanted.FormerTerm = 4
	f.does(opsflow.DataDrop, "no longer known which pod was the last primary")
	f.wrote(`{"term":6,"list":{"version":2}}`)
	f.does(opsflow.DataDrop, "were written again")
	f.wrote(`{"term":4,"list":{"version":2}}`)
	f.does(opsflow.DataDrop, "")
	if f.claim("").DeletionTimestamp == nil || f.claim("g2").DeletionTimestamp != nil {
		t.Error("the wrong volume goes")
	}
}

// Pods go back where there is something to go back to; else no client is led anywhere, and nothing is deleted.
func TestVolumesComeBack(t *testing.T) {
	f := newDataFixture(t)
	f.does(opsflow.DataSwap, "")
	f.does(opsflow.DataReturn, "")
	f.is(platformv1.SetData{})
	f.point(`{"generation":"g2","access":"Closed"}`)
	f.must(env.Client.Delete(t.Context(), f.claim("")))
	f.does(opsflow.DataReturn, "was deleted: no client is led to the restored data")
	f.is(platformv1.SetData{Generation: "g2", Access: platformv1.DataClosed})
	f.does(opsflow.DataDiscard, "they are kept")
	f.point(`{"generation":"g3","access":null}`)
	for _, verb := range []opsflow.DataVerb{opsflow.DataSwap, opsflow.DataOpen, opsflow.DataReturn, opsflow.DataDrop} {
		f.does(verb, `generation "g3" by now`)
	}
}

// A copy lacks what was written since, so that it stands for no volumes when it is older than some minutes, however
// long a swap waited.
func TestAnOldSafetyCopy(t *testing.T) {
	f := newDataFixture(t)
	f.c.Now = func() time.Time { return time.Now().Add(longestCopyAge + time.Minute) }
	f.does(opsflow.DataSwap, "lacks what was written since")
	f.is(platformv1.SetData{})
	f.c.Now = func() time.Time { return time.Now().Add(longestCopyAge - time.Minute) }
	f.does(opsflow.DataSwap, "")
	// Pods that have gone are not held up.
	f.c.Now = func() time.Time { return time.Now().Add(time.Hour) }
	f.does(opsflow.DataSwap, "")
	f.is(platformv1.SetData{Generation: "g2", Access: platformv1.DataClosed})
}

// What an Operation made goes also where the set is gone.
func TestVolumesOfASetThatIsGone(t *testing.T) {
	f := newDataFixture(t)
	f.patch(f.claim("g2"), `{"metadata":{"annotations":{"`+platformv1.PreparedAnnotation+`":"op"}}}`)
	f.wanted.Set = "gone"
	f.does(opsflow.DataDiscard, "")
	if f.claim("g2").DeletionTimestamp == nil {
		t.Error("it stays")
	}
}

// Pods do not go back without the one that wrote last: what others have may lack what it acknowledged.
func TestVolumesOfAPodThatIsNotWanted(t *testing.T) {
	f := newDataFixture(t)
	f.point(`{"generation":"g2","access":"Closed"}`)
	f.wrote(`{"term":4,"list":{"version":2},"member":{"name":"` + setName + `-1","identity":"one"}}`)
	second := accept.Claim(f.at(""), 1, f.set.Spec.Volumes[0])
	f.must(env.Client.Create(t.Context(), second))
	f.patch(f.set, `{"spec":{"replicas":1}}`)
	f.does(opsflow.DataReturn, "scale back so that pod "+setName+"-1 is wanted")
	f.is(platformv1.SetData{Generation: "g2", Access: platformv1.DataClosed})
	f.patch(f.set, `{"spec":{"replicas":2}}`)
	f.does(opsflow.DataReturn, "")
	f.is(platformv1.SetData{})
}

// A claim that goes while it is filled is not noted as filled, nor is one that was made anew under its name.
func TestVolumesThatGoWhileTheyAreFilled(t *testing.T) {
	f := newDataFixture(t)
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "back", UID: "op"}}
	source := &restoreSource{backup: &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{UID: "another"}}, set: f.at("g2")}
	job := fillerOf(source, "another")
	notes := func(want string) {
		t.Helper()
		lost, err := f.c.noteRestored(t.Context(), op, source, job)
		if f.must(err); want == "" && lost != "" || !strings.Contains(lost, want) {
			t.Errorf("it says %q, want %q", lost, want)
		}
	}
	notes("was deleted while it was filled")
	f.patch(f.claim("g2"), `{"metadata":{"annotations":{"`+platformv1.PreparedAnnotation+`":"op"}}}`)
	notes("")
	if got := f.claim("g2").Annotations[platformv1.RestoredAnnotation]; got != "another" {
		t.Errorf("it is marked with %q", got)
	}
	former := f.claim("g2")
	former.UID = "former"
	if err := f.c.annotate(t.Context(), former, platformv1.RestoredAnnotation, "former"); !apierrors.IsInvalid(err) {
		t.Errorf("another claim of its name: %v", err)
	}
	f.must(env.Client.Delete(t.Context(), f.claim("g2")))
	notes("was deleted while it was filled")
	f.patch(f.claim("g2"), `{"metadata":{"finalizers":null}}`)
	notes("was deleted while it was filled")
}

// fillerOf is a Job that fills the volumes of a source with the data of a Backup.
func fillerOf(source *restoreSource, backup string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "fill",
		Labels: map[string]string{platformv1.BackupLabel: backup}}}
	for _, claim := range source.claims() {
		job.Spec.Template.Spec.Volumes = append(job.Spec.Template.Spec.Volumes,
			corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
	}
	return job
}

// Volumes have the data that was brought to them, and not that of whoever is the first pod, or of what has the name of
// the Backup, by now.
func TestVolumesThatWereFilledForOthers(t *testing.T) {
	f := newDataFixture(t)
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "back", UID: "op"}}
	source := &restoreSource{backup: &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "another"}},
		set: f.at("g2")}
	f.patch(f.claim("g2"), `{"metadata":{"annotations":{"`+platformv1.PreparedAnnotation+`":"op"}}}`)
	first := fillerOf(source, "another")
	excluded := *source
	excluded.set = f.at("g2")
	excluded.set.Spec.ExcludedOrdinals = []int32{0}
	for want, tc := range map[string]struct {
		source *restoreSource
		job    *batchv1.Job
	}{
		"another Backup has its name": {source, fillerOf(source, "former")},
		"another pod is the first":    {&excluded, first},
	} {
		lost, err := f.c.noteRestored(t.Context(), op, tc.source, tc.job)
		if f.must(err); !strings.Contains(lost, want) {
			t.Errorf("it says %q, want %q", lost, want)
		}
	}
	if got := f.claim("g2").Annotations[platformv1.RestoredAnnotation]; got != f.wanted.Mark {
		t.Errorf("it is marked with %q", got)
	}
}

// Volumes that an Operation made, and did not come to note, go with it; those of others stay.
func TestVolumesThatNobodyNoted(t *testing.T) {
	f := newDataFixture(t)
	f.wanted.Set = ""
	f.does(opsflow.DataDiscard, "")
	if f.claim("g2").DeletionTimestamp != nil {
		t.Error("a volume goes that is not of the Operation")
	}
	f.patch(f.claim("g2"), `{"metadata":{"annotations":{"`+platformv1.PreparedAnnotation+`":"op"}}}`)
	f.does(opsflow.DataDiscard, "")
	if f.claim("g2").DeletionTimestamp == nil {
		t.Error("it stays")
	}
}
