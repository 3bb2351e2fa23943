// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// says checks what an effect is refused with.
func says(t *testing.T, answer *opsflow.Answer, err error, want string) {
	t.Helper()
	if err != nil || answer == nil || answer.Failure != opsflow.FailureRefused || !strings.Contains(answer.Problem, want) {
		t.Errorf("it says %+v, %v; want %q", answer, err, want)
	}
}

// Volumes of before stay, and the sentence says so, where the copy of them cannot be read, or something else has the
// place of what reads it.
func TestVolumesAreKeptWhereTheirCopyCannotBeRead(t *testing.T) {
	f := newDataFixture(t)
	f.does(opsflow.DataSwap, "")
	f.does(opsflow.DataOpen, "")
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "verify-copy-op"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "x", Image: "x"}}}}}}
	f.must(env.Client.Create(t.Context(), foreign))
	f.does(opsflow.DataDrop, `there is a Job "verify-copy-op" that is not of this Operation: delete it; the previous `+
		`volumes are kept`)
	f.must(env.Client.Delete(t.Context(), foreign, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	f.must(env.Client.Delete(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "store"}}))
	f.does(opsflow.DataDrop, `the safety copy cannot be read: BackupRepository "store" names PersistentVolumeClaim `+
		`"store", which is not there: create it in namespace`)
	repository := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "store"}}
	f.must(env.Client.Delete(t.Context(), repository))
	f.does(opsflow.DataDrop, `there is no BackupRepository "store", which the safety copy is kept in: the previous `+
		`volumes are kept`)
	backup := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: f.set.Namespace, Name: "copy"}}
	f.must(f.c.client.Delete(t.Context(), backup))
	f.does(opsflow.DataDrop, `the safety copy, Backup "copy", is missing, incomplete, or being deleted: the `+
		`previous volumes are kept`)
	if f.claim("").DeletionTimestamp != nil {
		t.Error("the volume of before goes")
	}
}

// An instance that is suspended or stopped takes no other data.
func TestDataIsNotRestoredIntoWhatDoesNotRun(t *testing.T) {
	f := newFixture(t, 1)
	c := &Controller{live: f.client(env.System.Config)}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "redis-a"}}
	seen := &observation{application: app.Name, facts: opsflow.Facts{Target: `Redis "a"`}}
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "back"}}
	for _, tc := range []struct {
		change func()
		want   string
	}{
		{func() {}, `there is no Backup "gone" in namespace "` + f.namespace + `": see kubectl get backups`},
		{func() { app.Spec.Running = new(bool) }, `Redis "a" is stopped: set spec.running to true first`},
		{func() { app.Spec.Suspend = true }, `Redis "a" is suspended: set spec.suspend to false first`},
	} {
		if err := testkit.Edit(t.Context(), env.Client, app, tc.change); err != nil {
			t.Fatal(err)
		}
		_, answer, err := c.restorable(t.Context(), op, seen, "gone")
		says(t, answer, err, tc.want)
	}
}

// Data of a Backup is put into the one set that is there, has pods with volumes, whose writer the engine names, and
// that no other restore has hold of.
func TestDataIsNotRestoredIntoASetThatCannotTakeIt(t *testing.T) {
	bundle, _, problems := pluginfolder.Load("../../../../database-operator/plugins/redis/1.0.0")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	facts := accept.Facts{State: plugin.State{Bundle: bundle}, Settings: render.Settings{AgentImage: "agents:1"}}
	app := testkit.BuildApplication(env.Namespace(t), "redis-a").Domain(testDomain).Plugin("redis", "1.0.0").Version(
		"7.0").Topology("standalone").Build()
	wanted, refusals := accept.Check(app, facts)
	if len(refusals) > 0 {
		t.Fatal(refusals[0].Message)
	}
	wanted[0].RestoreFrom = &platformv1.ComponentRestore{Backup: "nightly", UID: "uid", Method: "rdb"}
	c := &Controller{Deps: Deps{Domain: testDomain}, live: (&fixture{t: t}).client(env.System.Config)}
	finds := func(want string) {
		t.Helper()
		answer, err := c.find(t.Context(), app, facts, &wanted[0], &restoreSource{})
		if want == "" && err == nil && answer == nil {
			return
		}
		says(t, answer, err, want)
	}
	finds("WorkloadSet " + setName + " is not there yet")
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: setName},
		Spec: platformv1.WorkloadSetSpec{
			Application: app.Name, Component: "redis", Set: "main",
			Plugin: platformv1.PluginReference{Name: "redis", Version: "1.0.0"}, Version: "7.0", Replicas: 1, Revision: "1",
			Template: runtime.RawExtension{Raw: []byte(`{}`)}, Plan: runtime.RawExtension{Raw: []byte(`{}`)}}}
	if err := env.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	finds(`the members of component "redis" elect their primary, and keep a state of their membership that the ` +
		`engine cannot change: make another instance with restoreFrom`)
	volumes := []platformv1.SetVolume{{Name: "data", Storage: platformv1.Storage{Size: resource.MustParse("1Gi")}}}
	for _, tc := range []struct {
		change func()
		want   string
	}{
		{func() { set.Spec.Authority = rollout.AuthorityEngine }, `component "redis" has no pods with volumes`},
		{func() { set.Spec.Volumes = volumes }, ""},
		{func() { set.Spec.Replicas = 0 }, `component "redis" has no pods with volumes`},
		{func() {
			set.Spec.Replicas, set.Spec.Data = 1, &platformv1.SetData{Generation: "g2", Access: platformv1.DataClosed}
		},
			setName + " is in the midst of another restore"},
	} {
		if err := testkit.Edit(t.Context(), env.Client, set, tc.change); err != nil {
			t.Fatal(err)
		}
		finds(tc.want)
	}
}

// A password is not made anew in a Secret of somebody else, without the plugin, or where the plugin has none of that
// name.
func TestAPasswordThatIsNotOurs(t *testing.T) {
	f := newFixture(t, 1)
	bundle := testBundle()
	bundle.Components.Credentials = []schema.Credential{{Name: "default"}}
	f.index = plugin.NewIndex()
	f.index.Set("redis", "1.0.0", bundle, nil)
	c := &Controller{Deps: Deps{Index: f.index}, live: f.client(env.System.Config)}
	app := &platformv1.Application{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "redis-a"}, app); err != nil {
		t.Fatal(err)
	}
	seen := &observation{application: app.Name, facts: opsflow.Facts{Application: app}}
	rotate := func(credential string) (*opsflow.Answer, error) {
		return c.rotate(t.Context(), seen, &opsflow.Effect{Key: "k", Rotation: &opsflow.Rotation{Credential: credential}})
	}
	answer, err := rotate("root")
	says(t, answer, err, `plugin "redis" has no credential "root"`)
	if answer, err := rotate("default"); err != nil || answer.Problem != `Secret "redis-a-default" to be made` {
		t.Errorf("it says %+v, %v", answer, err)
	}
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace,
		Name: platformv1.CredentialNameFor(app.Name, "default")}})
	answer, err = rotate("default")
	says(t, answer, err, `Secret "redis-a-default" is not of Application "redis-a"`)
	f.index = plugin.NewIndex()
	c.Index = f.index
	answer, err = rotate("default")
	says(t, answer, err, `plugin "redis" version "`)
}

// What is asked of a target that is not there yet is refused where an Application of somebody else has its name.
func TestAPlanOfWhatWouldHaveATakenName(t *testing.T) {
	f := newFixture(t, 1)
	f.create(testkit.BuildApplication(f.namespace, "redis-b").Domain(testDomain).Build())
	f.controller(nil)
	op := f.operation("plan", opsflow.TemplatePlan, func(op *platformv1.Operation) {
		op.Spec.TargetRef.Name, op.Spec.DryRun, op.Spec.TargetSpec = "b", true, "version: \"7.0\"\n"
	})
	f.waitPhase(op, platformv1.OperationFailed)
	want := `Redis "b" would be made as Application "redis-b", and that is there and is not of it: give it another name`
	if !strings.Contains(op.Status.Error, want) {
		t.Errorf("it says %q, want %q", op.Status.Error, want)
	}
}
