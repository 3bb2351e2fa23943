// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

var db = Instance{Plugin: "db", PluginVersion: "1.0.0", Component: "server", Size: resource.MustParse("3Gi"),
	Role: "primary", Replicas: "replicas", Whole: "a DB"}

// fullInstance says everything that there is to say in an InstanceSpec.
const fullInstance = `
version: "7"
resources: {limits: {memory: 1Gi}}
storage: {size: 4Gi, storageClassName: fast}
parameters: {depth: "4"}
service: {type: NodePort}
tls: {enabled: true}
scheduling: {nodeSelector: {disk: fast}}
podDisruptionBudget: {minAvailable: 1}
networkPolicy: {}
maintenance: {windows: [{schedule: "0 2 * * *", duration: 1h, timeZone: UTC}]}
schedules: [{name: nightly, schedule: "0 2 * * *", timeZone: UTC, operation: {templateRef: Restart}}]
monitoring: {enabled: true}
running: false
suspend: true
deletionPolicy: Delete
deletionProtection: true
adoptVolumes: 6f2c1c1e
restoreFrom: {backup: nightly}
operationHistory: {ttl: 720h, limit: 7}
`

// Each field of an InstanceSpec is in the Application; a field that is added to the type fails this test until the
// text above and Application have it.
func TestApplicationHasEachFieldOfAnInstanceSpec(t *testing.T) {
	var spec platformv1.InstanceSpec
	if err := yaml.UnmarshalStrict([]byte(fullInstance), &spec); err != nil {
		t.Fatal(err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[platformv1.InstanceSpec]()) {
		if !field.Anonymous && reflect.ValueOf(spec).FieldByIndex(field.Index).IsZero() {
			t.Errorf("%s is not said", field.Name)
		}
	}
	before := spec.DeepCopy()
	app := db.Application(&spec, "1.2.0")
	got, err := json.Marshal(app.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"plugin":"db"`, `"pluginVersion":"1.2.0"`, `"version":"7"`, `"name":"server"`, `"limits":{"memory":"1Gi"}`,
		`"storage":{"size":"4Gi","storageClassName":"fast"}`, `"parameters":{"depth":"4"}`, `"service":{"type":"NodePort"}`,
		`"tls":{"enabled":true}`,
		`"scheduling":{"nodeSelector":{"disk":"fast"}}`, `"podDisruptionBudget":{"minAvailable":1}`, `"networkPolicy":{}`,
		`"duration":"1h0m0s"`,
		`"name":"nightly"`, `"monitoring":{"enabled":true}`, `"running":false`, `"suspend":true`, `"deletionPolicy":"Delete"`,
		`"deletionProtection":true`,
		`"adoptVolumes":"6f2c1c1e"`, `"restoreFrom":{"backup":"nightly"}`, `"operationHistory":{"ttl":"720h0m0s","limit":7}`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	// What the kind adds to the Application is not the object's.
	app.Spec.Components[0].Parameters["depth"] = "5"
	app.Spec.Schedules[0].Name, app.Spec.Maintenance.Windows[0].TimeZone = "other", "other"
	if !reflect.DeepEqual(before, &spec) {
		t.Errorf("the spec became %+v", spec)
	}
}

func TestApplicationOfTheSmallestInstance(t *testing.T) {
	app := db.Application(&platformv1.InstanceSpec{Running: new(true)}, "")
	main := app.Spec.Components[0]
	if app.Spec.PluginVersion != "1.0.0" || app.Spec.DeletionPolicy != platformv1.DeletionPolicyRetain ||
		app.Spec.Running != nil || main.Storage.Size.String() != "3Gi" {
		t.Errorf("got %+v", app.Spec)
	}
	without := Instance{Plugin: "keeper", Component: "keeper"}
	if got := without.Application(&platformv1.InstanceSpec{}, "").Spec.Components[0].Storage; got != nil {
		t.Errorf("a component without volumes has storage %+v", got)
	}
}

func TestReportOfAnInstance(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	app := &platformv1.Application{Status: platformv1.ApplicationStatus{
		Version: "7.1", Ready: "3/3", Binding: &platformv1.Binding{Name: "db-a-binding"},
		Schedules: []platformv1.ScheduleStatus{{Name: "nightly"}},
		Endpoints: []platformv1.Endpoint{{Name: "db-a-admin", Host: "other", Port: 1},
			{Name: "db-a", Host: "db-a.shop.svc", Port: 5432, Role: "primary"}},
		Components: []platformv1.ComponentState{{Name: "server", Pods: []platformv1.PodState{
			{Name: "a", Set: "main", Role: "primary"}, {Name: "b", Set: "1", Role: "replica"}, {Name: "c", Set: "main"},
		}}},
		LastBackup:          &platformv1.BackupRecord{Name: "b1", CompletionTime: at},
		LastVerifiedRestore: &platformv1.VerifiedRestore{Backup: "b0", Operation: "drill", Time: at},
	}}
	app.Name = "db-a"
	kept := platformv1.InstanceStatus{ObservedGeneration: 4, Phase: platformv1.PhaseReady,
		Conditions: []metav1.Condition{{Type: "Ready"}}}
	got := *kept.DeepCopy()
	db.Report(&got, app)
	want := *kept.DeepCopy()
	want.Version, want.Ready, want.Endpoint, want.BindingName, want.Application = "7.1", "3/3", "db-a.shop.svc:5432",
		"db-a-binding", "db-a"
	want.Schedules, want.LastBackup, want.LastVerifiedRestore = app.Status.Schedules, app.Status.LastBackup,
		app.Status.LastVerifiedRestore
	want.Members = []platformv1.InstanceMember{{Name: "a", Role: "primary"}, {Name: "b", Shard: "1", Role: "replica"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[platformv1.InstanceStatus]()) {
		if reflect.ValueOf(got).FieldByIndex(field.Index).IsZero() {
			t.Errorf("%s is not told", field.Name)
		}
	}
	// What is no longer so does not stay.
	db.Report(&got, &platformv1.Application{ObjectMeta: app.ObjectMeta})
	kept.Application = "db-a"
	if !reflect.DeepEqual(got, kept) {
		t.Errorf("nothing is known, and the status is %+v", got)
	}
}

// An object counts the replicas, and its Application the pods.
func TestConvertCountsThePrimary(t *testing.T) {
	for pods, want := range map[int64]any{3: int64(2), 1: int64(0), 0: nil} {
		got, err := db.Convert("components[server].replicas", pods)
		if got != want || (err == nil) != (want != nil) {
			t.Errorf("%d pods are %v replicas, %v; want %v", pods, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "a DB has 1 at least") {
			t.Errorf("it says %q", err)
		}
	}
	if got, err := db.Convert("version", "8.0"); got != "8.0" || err != nil {
		t.Errorf("the version is %v, %v", got, err)
	}
	// What is no number is none of pods.
	if got, err := db.Convert("components[server].replicas", "3"); err == nil {
		t.Errorf("text is %v replicas", got)
	}
	pool := Instance{Component: "server"}
	if got, err := pool.Convert("components[server].replicas", int64(0)); got != int64(0) || err != nil {
		t.Errorf("pods of a kind that counts them so are %v, %v", got, err)
	}
	if fields := pool.WriteThrough(); fields["components[server].replicas"] != "" ||
		fields["components[server].storage.size"] != "" {
		t.Errorf("what the kind has not is written through: %v", fields)
	}
}
