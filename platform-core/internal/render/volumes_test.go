// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// spread is a plugin whose pods have data on a volume, and on those that a user adds.
func spread(t testing.TB) *plugin.Bundle {
	t.Helper()
	return broker(t, "    - name: main\n", "    - name: main\n      volumeMounts: [{name: data, mountPath: /data}]\n",
		"    mounts:\n", "    volumes: [{name: data, size: 1Gi, additional: {max: 2, path: /volumes}}]\n    mounts:\n",
		"command: [broker,", `command: [broker, "${['/data'] + component.additionalVolumes}",`)
}

func volumes(sizes ...string) func(*platformv1.ApplicationComponent) {
	return func(c *platformv1.ApplicationComponent) {
		c.Storage = &platformv1.Storage{Size: resource.MustParse("5Gi"), StorageClassName: new("fast")}
		for _, size := range sizes {
			c.AdditionalVolumes = append(c.AdditionalVolumes, platformv1.Storage{Size: resource.MustParse(size)})
		}
	}
}

// Each volume that is added has a claim of its own, is mounted in the container of the process, and is known to the
// plugin; that pods have others is another revision.
func TestAdditionalVolumes(t *testing.T) {
	b := spread(t)
	app := brokers(volumes("1Gi", "2Gi"))
	app.Spec.Components[0].AdditionalVolumes[1].StorageClassName = new("slow")
	out := output(t, b, app)
	var got []string
	for _, v := range out.WorkloadSets[0].Spec.Volumes {
		got = append(got, v.Name+" "+v.Size.String()+" "+*v.StorageClassName)
	}
	if want := []string{"data 5Gi fast", "data-1 1Gi fast", "data-2 2Gi slow"}; !slices.Equal(got, want) {
		t.Errorf("the volumes are %q, want %q", got, want)
	}
	pod, err := Pod(setOf(out), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ name, path, claim string }{
		{"data", "/data", "data-b-broker-main-1"}, {"data-1", "/volumes/1", "data-1-b-broker-main-1"},
		{"data-2", "/volumes/2", "data-2-b-broker-main-1"},
	} {
		if !slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == want.name && m.MountPath == want.path
		}) {
			t.Errorf("%s is not mounted at %s: %+v", want.name, want.path, pod.Spec.Containers[0].VolumeMounts)
		}
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == want.name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == want.claim
		}) {
			t.Errorf("%s is not claim %s: %+v", want.name, want.claim, pod.Spec.Volumes)
		}
	}
	if plan := string(out.WorkloadSets[0].Spec.Plan.Raw); !strings.Contains(plan, `"/data","/volumes/1","/volumes/2"`) {
		t.Errorf("the process is not told of them: %s", plan)
	}
	one, none := output(t, b, brokers(volumes("1Gi"))), output(t, b, brokers(volumes()))
	if r := out.WorkloadSets[0].Spec.Revision; r == one.WorkloadSets[0].Spec.Revision ||
		one.WorkloadSets[0].Spec.Revision == none.WorkloadSets[0].Spec.Revision {
		t.Error("with another volume the revision stays")
	}
	if grown := output(t, b, brokers(volumes("3Gi"))); grown.WorkloadSets[0].Spec.Revision !=
		one.WorkloadSets[0].Spec.Revision {
		t.Error("for a larger volume the revision changes")
	}
}

func TestAdditionalVolumesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		bundle *plugin.Bundle
		sizes  []string
		says   string
	}{
		"none declared": {broker(t), []string{"1Gi"}, `component "broker" has additionalVolumes, and its plugin keeps data ` +
			"on one volume: take them out"},
		"too many": {spread(t), []string{"1Gi", "1Gi", "1Gi"},
			`component "broker" has 3 additionalVolumes: it takes at most 2`},
		"empty": {spread(t), []string{"1Gi", "0"}, `component "broker" has additionalVolumes[1] of size 0`},
	} {
		t.Run(name, func(t *testing.T) {
			app := brokers(volumes(tc.sizes...))
			if tc.bundle.Components.Components[0].Volumes == nil {
				app.Spec.Components[0].Storage = nil
			}
			_, refusals := CheckedComponents(tc.bundle, app)
			if r := Join(refusals); r == nil || !strings.Contains(r.Message, tc.says) {
				t.Errorf("got %+v, want %q", r, tc.says)
			}
		})
	}
}
