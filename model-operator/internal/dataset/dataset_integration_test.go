// SPDX-License-Identifier: Apache-2.0

//go:build integration

package dataset

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/transfer"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// raw is a version from a web server, in YAML.
const raw = `{name: "1.0", files: [{path: a.csv, sha256: ` +
	`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}], source: {http: {url: "http://data.example.com"}}}`

// clean is made from it.
const clean = `{name: clean, from: {version: "1.0", steps: [{name: strip, image: "example/tool:1", args: ["${x}"]}, ` +
	`{name: shuffle, image: "example/tool:2"}]}}`

// mountsOf are the claims of a Job by where they are mounted, with a word for those that are read-only.
func mountsOf(job *batchv1.Job) map[string]string {
	spec, all := job.Spec.Template.Spec, map[string]string{}
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, volume := range spec.Volumes {
			if claim := volume.PersistentVolumeClaim; claim != nil && volume.Name == m.Name {
				all[m.MountPath] = claim.ClaimName
				if m.ReadOnly && claim.ReadOnly {
					all[m.MountPath] += " read-only"
				}
			}
		}
	}
	return all
}

// The operator is killed while files are fetched and between the steps, and no attempt is made twice.
func TestVersionsArePreparedAlthoughTheOperatorIsKilled(t *testing.T) {
	b := newBench(t)
	kill := serve(t)
	ds := b.dataset("digits", `versions: [`+clean+`, `+raw+`]`)
	b.reaches(ds, "clean", aiv1.DatasetPending, `from.version "1.0" is not ready`)
	fetch := b.job("1.0", "fetch")
	if c := fetch.Spec.Template.Spec.Containers[0]; c.Image != "agent:test" || !slices.Equal(c.Command,
		[]string{"/agent-ops", "dataset"}) || *fetch.Spec.Template.Spec.SecurityContext.FSGroup != agents {
		t.Errorf("the container is %+v", c)
	}
	if got := mountsOf(fetch); len(got) != 1 || got["/dataset"] != "dataset-digits.1.0" {
		t.Errorf("the claims are %v", got)
	}
	kill()
	b.end("1.0", "fetch", 0, outcomeOf("1"))
	kill = serve(t)
	st := b.reaches(ds, "1.0", aiv1.DatasetReady, "")
	if st.Claim != "dataset-digits.1.0" || st.Digest != "sha256:"+strings.Repeat("1", 64) || st.Files != 1 ||
		st.Bytes != 12 || st.Attempt != 1 {
		t.Errorf("the version is %+v", st)
	}
	strip := b.job("clean", "strip")
	if got := mountsOf(strip); got["/input"] != "dataset-digits.1.0 read-only" ||
		got["/output"] != "dataset-digits.clean" || strip.Spec.Template.Spec.Containers[0].Args[0] != "${x}" {
		t.Errorf("the claims are %v, the container %+v", got, strip.Spec.Template.Spec.Containers[0])
	}
	b.end("clean", "strip", 0, "")
	b.job("clean", "shuffle")
	kill()
	serve(t)
	b.end("clean", "shuffle", 0, "")
	b.end("clean", "seal", 0, outcomeOf("2"))
	st = b.reaches(ds, "clean", aiv1.DatasetReady, "")
	if from := st.Provenance; st.Attempt != 1 || from == nil || from.Version != "1.0" ||
		from.Digest != "sha256:"+strings.Repeat("1", 64) || !slices.Equal(from.Images, []string{"example/tool:1",
		"example/tool:2"}) {
		t.Errorf("the version is %+v of %+v", st, from)
	}
	testkit.WaitForReady(t, env.Client, ds)
	if ds.Status.Ready != "2/2" || ds.Status.Latest != "clean" || ds.Status.Phase != platformv1.PhaseReady {
		t.Errorf("the status is %+v", ds.Status)
	}
	var operations platformv1.OperationList
	if err := env.Client.List(t.Context(), &operations, client.InNamespace(b.namespace)); err != nil ||
		len(operations.Items) != 2 {
		t.Errorf("there are %d Operations: %v", len(operations.Items), err)
	}
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// Nobody is told the claim of a version whose files are others. Unlike a download that was cut off, it is tried again
// only when somebody asks for it.
func TestWrongDigestIsToldAndTheClaimIsNot(t *testing.T) {
	b := newBench(t)
	serve(t)
	ds := b.dataset("digits", `versions: [`+raw+`]`)
	const said = "file a.csv: the file has the SHA-256 digest bb, and aa is wanted"
	b.end("1.0", "fetch", 1, "file a.csv: the download was cut off after 3 bytes")
	b.end("1.0", "fetch", transfer.ExitRefused, said)
	if st := b.reaches(ds, "1.0", aiv1.DatasetFailed, said); st.Claim != "" || st.Digest != "" {
		t.Errorf("the version is %+v", st)
	}
	b.says(ds, platformv1.ReasonOperationFailed, said)
	err := testkit.Edit(t.Context(), env.Client, ds,
		func() { ds.Annotations = map[string]string{aiv1.DatasetRetryAnnotation: "now"} })
	if err != nil {
		t.Fatal(err)
	}
	b.end("1.0", "fetch", 0, outcomeOf("a"))
	if st := b.reaches(ds, "1.0", aiv1.DatasetReady, ""); st.Attempt != 2 {
		t.Errorf("the version is %+v", st)
	}
}

// What cannot be prepared says why, and the versions beside it are.
func TestBadInputIsTold(t *testing.T) {
	b := newBench(t)
	serve(t)
	held := &corev1.PersistentVolumeClaim{ObjectMeta: b.meta("dataset-taken.1.0"),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *sizeOfTest}}}}
	b.create(held)
	b.says(b.dataset("taken", `versions: [`+raw+`]`), platformv1.ReasonNameTaken,
		`PersistentVolumeClaim "`+b.namespace+`/dataset-taken.1.0"`)
	full := b.dataset("full", "maxSize: 1Gi\nversions: ["+raw+`, `+strings.Replace(raw, `"1.0"`, `"2.0"`, 1)+`]`)
	b.says(full, platformv1.ReasonQuotaExceeded, `version "2.0": its claim needs 1Gi, and of spec.maxSize 0 are left`)
	b.reaches(full, "1.0", aiv1.DatasetPreparing, "")
	powerless := b.datasetOf("default", "powerless", `versions: [`+raw+`]`)
	b.says(powerless, platformv1.ReasonOperationFailed, `cannot create resource "jobs"`)
}

// A Dataset with the deletion policy Delete takes its claims with it, once no pod mounts them.
func TestClaimThatAPodMountsStays(t *testing.T) {
	b := newBench(t)
	serve(t)
	ds := b.dataset("digits", "retention: {deletionPolicy: Delete}\nversions: ["+raw+"]")
	b.end("1.0", "fetch", 0, outcomeOf("1"))
	claim := b.reaches(ds, "1.0", aiv1.DatasetReady, "").Claim
	reader := &corev1.Pod{ObjectMeta: b.meta("reader"), Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a", Image: "a"}},
		Volumes: []corev1.Volume{{Name: "set", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: true}}}},
	}}
	b.create(reader)
	if err := env.Client.Delete(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	b.says(ds, platformv1.ReasonDeleting,
		`pod "reader" mounts PersistentVolumeClaim "dataset-digits.1.0", which goes when no pod does`)
	if ds.Status.Phase != platformv1.PhaseDeleting {
		t.Errorf("the phase is %s", ds.Status.Phase)
	}
	if err := env.Client.Delete(t.Context(), reader, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	release(b, claim)
	testkit.WaitGone(t, env.Client, ds)
}

// A version that was taken out and comes back has another claim, and is fetched to it. What fetched it before is still
// on record.
func TestVersionThatComesBackIsFetchedAgain(t *testing.T) {
	b := newBench(t)
	serve(t)
	second := strings.Replace(raw, `"1.0"`, `"2.0"`, 1)
	ds := b.dataset("digits", "retention: {deletionPolicy: Delete}\nversions: ["+raw+`, `+second+`]`)
	b.end("1.0", "fetch", 0, outcomeOf("1"))
	b.end("2.0", "fetch", 0, outcomeOf("2"))
	b.reaches(ds, "1.0", aiv1.DatasetReady, "")
	claim := b.reaches(ds, "2.0", aiv1.DatasetReady, "").Claim
	back := ds.Spec.Versions[1]
	if err := testkit.Edit(t.Context(), env.Client, ds,
		func() { ds.Spec.Versions = ds.Spec.Versions[:1] }); err != nil {
		t.Fatal(err)
	}
	release(b, claim)
	testkit.WaitFor(t, env.Client, ds, "has no version 2.0", func() error {
		if len(ds.Status.Versions) != 1 {
			return fmt.Errorf("the versions are %+v", ds.Status.Versions)
		}
		return nil
	})
	if err := testkit.Edit(t.Context(), env.Client, ds,
		func() { ds.Spec.Versions = append(ds.Spec.Versions, back) }); err != nil {
		t.Fatal(err)
	}
	b.end("2.0", "fetch", 0, outcomeOf("3"))
	if st := b.reaches(ds, "2.0", aiv1.DatasetReady, ""); st.Digest != "sha256:"+strings.Repeat("3", 64) {
		t.Errorf("the version is %+v", st)
	}
}

// What an Inference is to mount can neither be taken out nor deleted.
func TestDatasetInUseStays(t *testing.T) {
	b := newBench(t)
	serve(t)
	second := strings.Replace(raw, `"1.0"`, `"2.0"`, 1)
	ds := b.dataset("digits", `versions: [`+raw+`, `+second+`]`)
	i := &aiv1.Inference{ObjectMeta: b.meta("chat")}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}
	i.Spec.Datasets = []aiv1.InferenceDataset{{Name: "digits", Version: "1.0"}}
	b.create(i)
	testkit.WaitFor(t, env.Client, ds, "counts its users", func() error {
		for _, st := range ds.Status.Versions {
			if (st.InUse == 1) != (st.Name == "1.0") {
				return fmt.Errorf("the versions are %+v", ds.Status.Versions)
			}
		}
		if len(ds.Status.Versions) != 2 {
			return fmt.Errorf("there are %d versions", len(ds.Status.Versions))
		}
		return nil
	})
	testkit.Refused(t, testkit.Edit(t.Context(), env.Client, ds, func() { ds.Spec.Versions = ds.Spec.Versions[1:] }),
		"a version that an Inference uses cannot be taken out")
	if err := env.Client.Delete(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	b.says(ds, platformv1.ReasonDeleting, `it is used by Inference "chat", and goes when nothing uses it any more`)
	if err := env.Client.Delete(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, ds)
}

// release waits until a claim is being deleted, and plays the controller that lets it go.
func release(b *bench, name string) {
	b.Helper()
	testkit.Eventually(b, "the end of the claim "+name, func(ctx context.Context) error {
		claim := &corev1.PersistentVolumeClaim{}
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && claim.DeletionTimestamp != nil:
			err = env.Client.Patch(ctx, claim, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`)))
		}
		return fmt.Errorf("it is there: %v", err)
	})
}

// A Dataset that is deleted leaves its claims, and one of its name does not take them.
func TestClaimsAreRetained(t *testing.T) {
	b := newBench(t)
	serve(t)
	ds := b.dataset("digits", `versions: [`+raw+`]`)
	b.end("1.0", "fetch", 0, outcomeOf("1"))
	b.reaches(ds, "1.0", aiv1.DatasetReady, "")
	if err := env.Client.Delete(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, ds)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: b.meta("dataset-digits.1.0")}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil ||
		claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 {
		t.Errorf("the claim is %+v: %v", claim.ObjectMeta, err)
	}
	b.says(b.dataset("digits", `versions: [`+raw+`]`), platformv1.ReasonNameTaken,
		`"dataset-digits.1.0" has an earlier version of that name`)
}

// Nobody has a version prepared with the rights of an account that he may not use.
func TestAccountIsLentByWhoMayUseIt(t *testing.T) {
	b := newBench(t)
	bob := env.User(b, b.namespace, "bob", rbacv1.PolicyRule{APIGroups: []string{aiv1.GroupVersion.Group},
		Resources: []string{"datasets"}, Verbs: []string{"create"}})
	ds := &aiv1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "lent"}, Spec: aiv1.DatasetSpec{
		ServiceAccountName: "preparer", Storage: aiv1.DatasetStorage{Size: *sizeOfTest},
		Versions: []aiv1.DatasetVersion{web("1.0")}}}
	testkit.Eventually(t, "the refusal", func(ctx context.Context) error {
		err := bob.Create(ctx, ds.DeepCopy())
		if err == nil || !strings.Contains(err.Error(),
			"user 'bob' may not have a version prepared as ServiceAccount 'preparer'") {
			return fmt.Errorf("the error is %v", err)
		}
		return nil
	})
}

// The status of a version says how much of how much its pod has fetched.
func TestTheStatusSaysHowFarAFetchIs(t *testing.T) {
	// An address of its own, so that the port of all such pods is free there.
	const address = "127.25.0.1"
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(transfer.Port)))
	if err != nil {
		t.Fatal(err)
	}
	pods := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"bytes":1073741824,"total":4294967296,"files":0,"of":1}`)
	}))
	if err := pods.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	pods.Listener = listener
	pods.Start()
	t.Cleanup(pods.Close)
	b := newBench(t)
	serve(t)
	ds := b.dataset("digits", `versions: [`+raw+`]`)
	job := b.job("1.0", "fetch")
	pod := testkit.PodOfJob(job)
	// By these the operator knows it.
	maps.Copy(pod.Labels, job.Spec.Template.Labels)
	b.create(pod)
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address
	pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	if err := env.Client.Status().Update(b.Context(), pod); err != nil {
		t.Fatal(err)
	}
	b.reaches(ds, "1.0", aiv1.DatasetPreparing, "fetch: 1.0 GiB of 4.0 GiB, 25 %")
}
