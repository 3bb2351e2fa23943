// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

func testApp() *platformv1.Application {
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "redis-a", Namespace: "ns", Generation: 1},
		Spec: platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0",
			Topology: "standalone"},
	}
}

func expect(t *testing.T, got *render.Refusal, reason, says string) {
	t.Helper()
	switch {
	case reason == "" && got != nil:
		t.Errorf("refused: %s: %s", got.Reason, got.Message)
	case reason != "" && (got == nil || got.Reason != reason || !strings.Contains(got.Message, says)):
		t.Errorf("got %+v, want reason %s saying %q", got, reason, says)
	}
}

func TestPlugin(t *testing.T) {
	bundle := &plugin.Bundle{Digest: "sha256:a"}
	pinned := &platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:a"}
	other := &platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:b"}
	earlier := &platformv1.PluginReference{Name: "redis", Version: "0.9.0", Digest: "sha256:b"}
	next := &plugin.Bundle{Digest: "sha256:a", Manifest: plugin.Manifest{AllowedUpgradeFrom: []string{"0.8.0", "0.9.0"}}}
	broken := plugin.State{Errors: []plugin.LoadError{
		{File: "redis-components-1.0.0/components.yaml", Line: 7, Message: "field colour is not known"}}}
	partly := plugin.State{Errors: []plugin.LoadError{{Message: "the params part is missing", Missing: plugin.PartParams}},
		Missing: []plugin.Part{plugin.PartParams}}
	tests := map[string]struct {
		state  plugin.State
		pinned *platformv1.PluginReference
		reason string
		says   string
	}{
		"loaded":            {state: plugin.State{Bundle: bundle}},
		"loaded and pinned": {state: plugin.State{Bundle: bundle}, pinned: pinned},
		"absent":            {reason: platformv1.ReasonPluginNotFound, says: "kubectl get plugins"},
		"broken": {state: broken, reason: platformv1.ReasonPluginInvalid,
			says: "components.yaml:7: field colour"},
		"gone under a running": {pinned: pinned, reason: platformv1.ReasonPluginMissing,
			says: "is gone or broken: install it again; the pods are left alone"},
		"partly gone": {state: partly, pinned: pinned, reason: platformv1.ReasonPluginMissing,
			says: "is gone or broken: install it again"},
		"broken under running": {state: broken, pinned: pinned, reason: platformv1.ReasonPluginMissing,
			says: "is refused by this operator: redis-components-1.0.0/components.yaml:7: field colour is not known; install " +
				"a later version that takes over from it; the pods are left alone"},
		"another digest": {state: plugin.State{Bundle: bundle}, pinned: other, reason: platformv1.ReasonPluginChanged,
			says: "new version"},
		"takes over": {state: plugin.State{Bundle: next}, pinned: earlier},
		"does not take over": {state: plugin.State{Bundle: bundle}, pinned: earlier,
			reason: platformv1.ReasonUpgradeNotAllowed,
			says:   "from version 0.9.0, which this instance is made from: it takes over from none"},
		"asked for, not there": {pinned: earlier, reason: platformv1.ReasonPluginNotFound, says: "kubectl get plugins"},
		"asked for, broken": {state: broken, pinned: earlier, reason: platformv1.ReasonPluginInvalid,
			says: "field colour"},
		"broken change, loaded": {state: plugin.State{Bundle: bundle, Errors: broken.Errors}, pinned: pinned},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			app.Status.Plugin = test.pinned
			expect(t, Plugin(app, test.state), test.reason, test.says)
		})
	}
}

func TestClassLooksOnlyAtComponentsToBeMade(t *testing.T) {
	name := "fast"
	wanted := []platformv1.ComponentSpec{
		{Component: "redis", Storage: &platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: &name}}}
	expect(t, Class(Facts{}, wanted), platformv1.ReasonStorageClassNotFound, `"fast"`)
	expect(t, Class(Facts{Classes: map[string]bool{"fast": true}}, wanted), "", "")
	expect(t, Class(Facts{Components: map[string]*platformv1.Component{"redis": {}}}, wanted), "", "")
	wanted[0].Storage.StorageClassName = nil
	expect(t, Class(Facts{}, wanted), platformv1.ReasonStorageClassNotFound, "no default")
	expect(t, Class(Facts{Classes: map[string]bool{"": true}}, wanted), "", "")
}

// The class of access logs is looked for when they are to be on a volume, also of a component that is there.
func TestClassOfLogs(t *testing.T) {
	on := &platformv1.Logs{Volume: &platformv1.LogsVolume{Size: resource.MustParse("1Gi"), StorageClassName: new("fast")}}
	wanted := []platformv1.ComponentSpec{{Component: "nginx", Logs: on}}
	made := func(logs *platformv1.Logs) map[string]*platformv1.Component {
		return map[string]*platformv1.Component{"nginx": {Spec: platformv1.ComponentSpec{Logs: logs}}}
	}
	for name, f := range map[string]Facts{"not made": {}, "made": {Components: made(nil)},
		"made, and off": {Components: made(&platformv1.Logs{})}} {
		t.Run(name, func(t *testing.T) {
			expect(t, Class(f, wanted), platformv1.ReasonStorageClassNotFound, `there is no StorageClass "fast": create it or `+
				`name another one in logs.volume.storageClassName of component "nginx"`)
			f.Classes = map[string]bool{"fast": true}
			expect(t, Class(f, wanted), "", "")
		})
	}
	expect(t, Class(Facts{Components: made(on)}, wanted), "", "")
	on.Volume.StorageClassName = nil
	expect(t, Class(Facts{}, wanted), platformv1.ReasonStorageClassNotFound,
		"no default StorageClass: name one in logs.volume.storageClassName")
}

func TestScaling(t *testing.T) {
	sets := func(list ...platformv1.ComponentSet) platformv1.ComponentSpec {
		return platformv1.ComponentSpec{Component: "etcd", Replicas: 3, Sets: list}
	}
	one := sets(platformv1.ComponentSet{Name: "main"})
	for name, test := range map[string]struct {
		scaling schema.Scaling
		wanted  platformv1.ComponentSpec
		says    string
	}{
		"the same":         {schema.ScalingFixed, one, ""},
		"the same in full": {schema.ScalingFixed, sets(platformv1.ComponentSet{Name: "main", Replicas: new(int32(3))}), ""},
		"more replicas": {schema.ScalingFixed, sets(platformv1.ComponentSet{Name: "main", Replicas: new(int32(5))}),
			"made with 3 replicas and the spec asks for 5 replicas"},
		"another set": {schema.ScalingFixed,
			sets(platformv1.ComponentSet{Name: "0"}, platformv1.ComponentSet{Name: "1"}),
			`asks for 3 replicas in set "0" and 3 replicas in set "1"`},
		"one more set": {schema.ScalingSets,
			sets(platformv1.ComponentSet{Name: "main"}, platformv1.ComponentSet{Name: "1", Replicas: new(int32(8))}), ""},
		"a set goes": {schema.ScalingSets, sets(platformv1.ComponentSet{Name: "1"}),
			`set "main" of component "etcd" cannot go once it is made`},
		"a set changes": {schema.ScalingSets, sets(platformv1.ComponentSet{Name: "main", Replicas: new(int32(4))}),
			"made with 3 replicas and the spec asks for 4 replicas"},
		"a set loses one": {schema.ScalingSets, sets(platformv1.ComponentSet{Name: "main", ExcludedOrdinals: []int32{1}}),
			"asks for 3 replicas without ordinals [1]"},
		"another pod": {schema.ScalingFixed, sets(platformv1.ComponentSet{Name: "main", ExcludedOrdinals: []int32{1}}),
			"without ordinals [1]"},
		"online":           {schema.ScalingOnline, sets(platformv1.ComponentSet{Name: "main", Replicas: new(int32(5))}), ""},
		"unsaid is online": {"", sets(platformv1.ComponentSet{Name: "main", Replicas: new(int32(5))}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{
				State: plugin.State{Bundle: &plugin.Bundle{
					Components: schema.Components{Components: []schema.Component{{Name: "etcd", Scaling: test.scaling}}}}},
				Components: map[string]*platformv1.Component{"etcd": {Spec: one}},
			}
			reason := ""
			if test.says != "" {
				reason = platformv1.ReasonInvalidSpec
			}
			wanted := []platformv1.ComponentSpec{test.wanted}
			expect(t, render.Join(scaling(f, wanted)), reason, test.says)
			expect(t, render.Join(scaling(Facts{State: f.State}, wanted)), "", "")
		})
	}
}

func TestTLSChange(t *testing.T) {
	on, off := &platformv1.TLS{Enabled: true}, (*platformv1.TLS)(nil)
	other := &platformv1.TLS{Enabled: true, IssuerRef: &platformv1.IssuerReference{Name: "house"}}
	runs := platformv1.ComponentStatus{Sets: []platformv1.SetState{{Name: "main"}},
		Pods: []platformv1.PodState{{Name: "a-etcd-main-0"}}}
	empty := platformv1.ComponentStatus{Sets: []platformv1.SetState{{Name: "main"}}}
	two := platformv1.ComponentStatus{Sets: empty.Sets,
		Pods: []platformv1.PodState{{Name: "a-etcd-main-0"}, {Name: "a-etcd-main-1"}}}
	for name, test := range map[string]struct {
		changes schema.TLSChangePolicy
		was, is *platformv1.TLS
		running bool
		status  platformv1.ComponentStatus
		refused bool
	}{
		"the same":           {schema.TLSChangeStopped, on, on.DeepCopy(), true, runs, false},
		"on":                 {schema.TLSChangeStopped, off, on, true, runs, true},
		"off":                {schema.TLSChangeStopped, on, off, true, runs, true},
		"issuer":             {schema.TLSChangeStopped, on, other, true, runs, true},
		"online":             {schema.TLSChangeOnline, on, other, true, runs, false},
		"unsaid is online":   {"", on, off, true, runs, false},
		"stops":              {schema.TLSChangeStopped, on, off, false, runs, true},
		"is stopped":         {schema.TLSChangeStopped, on, off, false, empty, false},
		"makes its pods":     {schema.TLSChangeStopped, on, off, true, empty, true},
		"never got anywhere": {schema.TLSChangeStopped, other, on, true, platformv1.ComponentStatus{}, false},
		"is not seen yet": {schema.TLSChangeStopped, on, off, false, platformv1.ComponentStatus{ObservedGeneration: -1},
			true},
		"alone":             {schema.TLSChangeStoppedOrSinglePod, on, off, true, runs, false},
		"alone, no pod yet": {schema.TLSChangeStoppedOrSinglePod, on, off, true, empty, false},
		"alone, unknown": {schema.TLSChangeStoppedOrSinglePod, on, off, true,
			platformv1.ComponentStatus{ObservedGeneration: -1, Sets: empty.Sets}, true},
		"two":             {schema.TLSChangeStoppedOrSinglePod, on, off, true, two, true},
		"two are stopped": {schema.TLSChangeStoppedOrSinglePod, on, off, false, empty, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{
				State: plugin.State{Bundle: &plugin.Bundle{Components: schema.Components{Components: []schema.Component{
					{Name: "etcd", TLS: &schema.TLS{ChangePolicy: test.changes}},
				}}}},
				Components: map[string]*platformv1.Component{"etcd": {
					Spec: platformv1.ComponentSpec{Component: "etcd", TLS: test.was, Running: &test.running}, Status: test.status,
				}},
			}
			reason, says := "", ""
			if test.refused {
				reason, says = platformv1.ReasonInvalidSpec, `tls of component "etcd" cannot change while it runs`
			}
			expect(t, render.Join(tlsChanges(f, []platformv1.ComponentSpec{{Component: "etcd", TLS: test.is}})), reason, says)
		})
	}
}

// Volumes that were added stay, but for those that no storage was made for, and one that is added has a class.
func TestAdditionalVolumes(t *testing.T) {
	spec := func(classes ...string) platformv1.ComponentSpec {
		s := platformv1.ComponentSpec{Component: "kafka", Storage: &platformv1.Storage{}}
		for _, class := range classes {
			s.AdditionalVolumes = append(s.AdditionalVolumes, platformv1.Storage{StorageClassName: &class})
		}
		return s
	}
	f := Facts{Classes: map[string]bool{"": true, "a": true},
		Components: map[string]*platformv1.Component{
			"kafka": {ObjectMeta: metav1.ObjectMeta{Name: "a-kafka"}, Spec: spec("a", "gone")}},
		State: plugin.State{Bundle: &plugin.Bundle{Components: schema.Components{Components: []schema.Component{
			{Name: "kafka", Volumes: []schema.Volume{{Name: "data"}}}}}}},
		Claims: map[string]*corev1.PersistentVolumeClaim{}}
	for name, phase := range map[string]corev1.PersistentVolumeClaimPhase{"data-a-kafka-main-0": corev1.ClaimBound,
		"data-1-a-kafka-main-0": corev1.ClaimBound, "data-2-a-kafka-main-0": corev1.ClaimPending,
		// One of another component.
		"data-2-a-kafkas-main-0": corev1.ClaimBound} {
		f.Claims[name] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	}
	for name, tc := range map[string]struct {
		spec       platformv1.ComponentSpec
		stay, says string
	}{
		"the same":                 {spec("a", "gone"), "", ""},
		"one more":                 {spec("a", "gone", "a"), "", ""},
		"one less that never came": {spec("a"), "", ""},
		"none": {spec(), `component "kafka" has 2 additionalVolumes and the spec asks for 0: data is spread over ` +
			"all of them, and none can be taken out once there is a volume for it; claim " +
			"data-1-a-kafka-main-0 has one for additionalVolumes[0]", ""},
		"no class": {spec("a", "gone", "b"), "",
			`no StorageClass "b": create it or name another one in additionalVolumes[2]`},
		"new object": {platformv1.ComponentSpec{Component: "other"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reasons := map[bool]string{}
			if tc.stay != "" {
				reasons[true] = platformv1.ReasonVolumeShrinkRefused
			}
			if tc.says != "" {
				reasons[false] = platformv1.ReasonStorageClassNotFound
			}
			wanted := []platformv1.ComponentSpec{tc.spec}
			expect(t, render.Join(volumesStay(f, wanted)), reasons[true], tc.stay)
			expect(t, Class(f, wanted), reasons[false], tc.says)
		})
	}
	for asked, loses := range map[int]bool{0: true, 1: true, 2: false, 3: false} {
		app := testApp()
		app.Spec.Components = []platformv1.ApplicationComponent{{Name: "kafka",
			AdditionalVolumes: make([]platformv1.Storage, asked)}}
		if got := LosesVolumes(app, f.Components["kafka"]); got != loses {
			t.Errorf("with %d asked for it loses volumes: %v", asked, got)
		}
	}
	// A claim of a broker that is gone may be bound as well.
	f.Claims["data-2-a-kafka-main-7"] = &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}}
	expect(t, render.Join(volumesStay(f, []platformv1.ComponentSpec{spec("a")})), platformv1.ReasonVolumeShrinkRefused,
		"claim data-2-a-kafka-main-7 has one for additionalVolumes[1]")
	for volume, want := range map[string]string{"data": "storage", "logs": "logs.volume", "data-2": "additionalVolumes[1]",
		"data-wal": "storage"} {
		if field, _ := ClassField(volume); field != want {
			t.Errorf("the class of %s is in %s, want %s", volume, field, want)
		}
	}
}

func TestShrink(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-a-0"}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	expect(t, Shrink(claim, resource.MustParse("1Gi")), platformv1.ReasonVolumeShrinkRefused,
		"claim data-a-0 has 2Gi and cannot shrink to 1Gi")
	expect(t, Shrink(claim, resource.MustParse("2Gi")), "", "")
	expect(t, Shrink(claim, resource.MustParse("3Gi")), "", "")
	// A volume that has less than was asked for, so far.
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	expect(t, Shrink(claim, resource.MustParse("1536Mi")), platformv1.ReasonVolumeShrinkRefused,
		"claim data-a-0 has 2Gi and cannot shrink to 1536Mi: set the size to at least 2Gi")
	claim.Status.Phase = corev1.ClaimBound
	expect(t, Shrink(claim, resource.MustParse("1536Mi")), "", "")
	for _, size := range []string{"1Gi", "512Mi"} {
		expect(t, Shrink(claim, resource.MustParse(size)), platformv1.ReasonVolumeShrinkRefused,
			"claim data-a-0 has 1Gi, is to have 2Gi and cannot shrink to "+size+": set the size to one above 1Gi")
	}
	// One of a driver that gives more than it is asked for.
	claim.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("4Gi")
	expect(t, Shrink(claim, resource.MustParse("1Gi")), platformv1.ReasonVolumeShrinkRefused,
		"set the size to at least 2Gi")
	expect(t, Shrink(claim, resource.MustParse("2Gi")), "", "")
}

func TestWindows(t *testing.T) {
	app := testApp()
	app.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{
		{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC"},
	}}
	if refusals := windows(app); len(refusals) > 0 {
		t.Errorf("refused: %s", refusals[0].Message)
	}
	app.Spec.Maintenance.Windows[0].TimeZone = "Utopia"
	refusals := windows(app)
	if len(refusals) != 1 {
		t.Fatalf("%d refusals", len(refusals))
	}
	expect(t, refusals[0], platformv1.ReasonInvalidSpec, `maintenance.windows[0]: time zone "Utopia" does not exist`)
}
