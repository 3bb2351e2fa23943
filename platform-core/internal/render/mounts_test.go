// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func mounts(list ...platformv1.Mount) func(*platformv1.ApplicationComponent) {
	return func(c *platformv1.ApplicationComponent) { c.Mounts = list }
}

func named(name string) *platformv1.ObjectName { return &platformv1.ObjectName{Name: name} }

// setOf is the set of the brokers as an API server has it.
func setOf(out *ComponentOutput) *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "b-broker-main", Namespace: "shop"},
		Spec: out.WorkloadSets[0].Spec}
}

func TestVolumesThatUsersGive(t *testing.T) {
	for name, tc := range map[string]struct {
		mount platformv1.Mount
		want  corev1.VolumeSource
	}{
		"claim": {platformv1.Mount{Name: "models", PersistentVolumeClaim: named("models")}, corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "models", ReadOnly: true}}},
		"writable claim": {platformv1.Mount{Name: "scratch", PersistentVolumeClaim: named("work")}, corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "work"}}},
		"NFS": {platformv1.Mount{Name: "models", NFS: &platformv1.NFSExport{Server: "nas.example.com",
			Path: "/models"}}, corev1.VolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "nas.example.com", Path: "/models", ReadOnly: true}}},
		"CSI": {
			platformv1.Mount{Name: "models", CSI: &platformv1.CSIVolume{
				Driver: "csi.example.com", FSType: "ext4", VolumeAttributes: map[string]string{"a": "b"},
				NodePublishSecretRef: named("key"),
			}},
			corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: "csi.example.com", FSType: new("ext4"), VolumeAttributes: map[string]string{"a": "b"},
				NodePublishSecretRef: &corev1.LocalObjectReference{Name: "key"}, ReadOnly: new(true),
			}},
		},
		"ConfigMap": {platformv1.Mount{Name: "models", ConfigMap: named("rules")}, corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "rules"},
				DefaultMode: new(int32(0o444))}}},
		"Secret": {platformv1.Mount{Name: "models", Secret: named("keys")}, corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "keys", DefaultMode: new(int32(0o440))}}},
	} {
		t.Run(name, func(t *testing.T) {
			out := output(t, broker(t), brokers(mounts(tc.mount)))
			pod, err := Pod(setOf(out), 1)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(pod.Spec.Volumes,
				func(v corev1.Volume) bool { return v.Name == mountPrefix+tc.mount.Name })
			if i < 0 || !reflect.DeepEqual(pod.Spec.Volumes[i].VolumeSource, tc.want) || !Foreign(&pod.Spec.Volumes[i]) {
				t.Fatalf("the volumes are %+v, want %+v", pod.Spec.Volumes, tc.want)
			}
			for _, c := range pod.Spec.Containers {
				has := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
					return m.Name == mountPrefix+tc.mount.Name && m.MountPath == "/"+tc.mount.Name &&
						m.ReadOnly == (tc.mount.Name == "models")
				})
				if has != (c.Name == "main") {
					t.Errorf("container %s has %+v", c.Name, c.VolumeMounts)
				}
			}
			without := output(t, broker(t), brokers(mounts()))
			if out.WorkloadSets[0].Spec.Revision == without.WorkloadSets[0].Spec.Revision {
				t.Error("pods without the volume are kept")
			}
			p, err := decodePlan("b", out.WorkloadSets[0].Spec.Plan.Raw)
			if err != nil || slices.Contains(p.Process.Command, "--models=/models") != (tc.mount.Name == "models") {
				t.Errorf("the process is %v: %v", p.Process.Command, err)
			}
		})
	}
}

// A mount that takes many volumes has each at a folder of its own, in the order of their names.
func TestManyVolumesOfOneMount(t *testing.T) {
	many := []string{"path: /models", "path: /models, each: true", ", mounts: [models]}", "}"}
	out := output(t, broker(t, many...), brokers(mounts(
		platformv1.Mount{Name: "models-b", PersistentVolumeClaim: named("other"), SubPath: "sets/digits"},
		platformv1.Mount{Name: "models-a-1", PersistentVolumeClaim: named("one")})))
	pod, err := Pod(setOf(out), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []corev1.VolumeMount
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if strings.HasPrefix(m.Name, mountPrefix) {
				got = append(got, m)
			}
		}
	}
	want := []corev1.VolumeMount{
		{Name: mountPrefix + "models-a-1", MountPath: "/models/a-1", ReadOnly: true},
		{Name: mountPrefix + "models-b", MountPath: "/models/b", ReadOnly: true, SubPath: "sets/digits"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the mounts are %+v, want %+v", got, want)
	}
	for name, says := range map[string]string{"models": "there is models-<folder>, scratch", "models-": "there is"} {
		_, r := Components(broker(t, many...), brokers(mounts(platformv1.Mount{Name: name, Secret: named("a")})))
		if r == nil || !strings.Contains(r.Message, says) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, r, says)
		}
	}
}

func TestJobHasMountsByName(t *testing.T) {
	out := output(t, broker(t), brokers(mounts(
		platformv1.Mount{Name: "models", PersistentVolumeClaim: named("models")}, platformv1.Mount{Name: "scratch",
			PersistentVolumeClaim: named("work")})))
	for name, tc := range map[string]struct {
		set    *platformv1.WorkloadSet
		wanted []string
		want   []string
	}{
		"one of two":         {setOf(out), []string{"models"}, []string{"tmp", mountPrefix + "models"}},
		"none":               {setOf(out), nil, []string{"tmp"}},
		"one without volume": {setOf(output(t, broker(t), brokers(mounts()))), []string{"models"}, []string{"tmp"}},
	} {
		job, err := JobOf(tc.set, "main", settings, Job{Name: "j", Command: []string{"count"}, Mounts: tc.wanted})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range job.Spec.Template.Spec.Containers[0].VolumeMounts {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, tc.want) || len(job.Spec.Template.Spec.Volumes) != len(tc.want) {
			t.Errorf("%s: the job mounts %v of %+v, want %v", name, got, job.Spec.Template.Spec.Volumes, tc.want)
		}
	}
}

func TestVolumesThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		mount   platformv1.Mount
		changes []string
		says    string
	}{
		"unknown mount": {platformv1.Mount{Name: "data", PersistentVolumeClaim: named("a")}, nil,
			"which its plugin does not declare: there is models, scratch"},
		"nothing": {platformv1.Mount{Name: "models"}, nil, "exactly one of"},
		"two": {platformv1.Mount{Name: "models", Secret: named("a"), ConfigMap: named("a")}, nil,
			"exactly one of"},
		"written ConfigMap": {platformv1.Mount{Name: "scratch", ConfigMap: named("a")}, nil, "cannot be written to"},
		"no name": {platformv1.Mount{Name: "models", PersistentVolumeClaim: named("A_B")}, nil,
			`"A_B" is no name`},
		"relative export": {platformv1.Mount{Name: "models",
			NFS: &platformv1.NFSExport{Server: "nas", Path: "models"}}, nil, "an absolute path"},
		"folder above": {platformv1.Mount{Name: "models", PersistentVolumeClaim: named("a"), SubPath: "../b"}, nil,
			`"../b" is no folder of the volume`},
		"missing": {platformv1.Mount{Name: "models", PersistentVolumeClaim: named("a")},
			[]string{"path: /scratch", "path: /scratch, required: true"},
			`needs a volume for the mount "scratch"`},
	} {
		_, r := Components(broker(t, tc.changes...), brokers(mounts(tc.mount)))
		if r == nil || r.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(r.Message, tc.says) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, r, tc.says)
		}
	}
}
