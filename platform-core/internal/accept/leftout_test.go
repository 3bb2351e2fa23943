// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
)

// What holds data of the set that is adopted, and nothing else, keeps a set with fewer pods from beginning.
func TestLeftOut(t *testing.T) {
	volume := func(name string) platformv1.SetVolume { return platformv1.SetVolume{Name: name} }
	for name, tc := range map[string]struct {
		change  func(*platformv1.WorkloadSet, *corev1.PersistentVolumeClaim)
		refused string
	}{
		"one too many": {func(*platformv1.WorkloadSet, *corev1.PersistentVolumeClaim) {},
			`what Application before left cannot be adopted without claim data-redis-a-redis-main-1: which volume was written ` +
				`last is known only when pods have all of them, and set "main" of component "redis" is to have no pod of the ` +
				`ordinals 1;`},
		"enough pods": {func(set *platformv1.WorkloadSet, _ *corev1.PersistentVolumeClaim) { set.Spec.Replicas = 2 }, ""},
		"a named pod": {func(set *platformv1.WorkloadSet, _ *corev1.PersistentVolumeClaim) {
			set.Spec.ExcludedOrdinals = []int32{0}
		}, "without claim data-redis-a-redis-main-0: "},
		"no pod at all": {func(set *platformv1.WorkloadSet, _ *corev1.PersistentVolumeClaim) { set.Spec.Replicas = 0 }, ""},
		"not adopted": {func(set *platformv1.WorkloadSet, _ *corev1.PersistentVolumeClaim) { set.Spec.AdoptVolumes = "" },
			""},
		"of another one": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Labels[platformv1.ApplicationUIDLabel] = "other"
		}, ""},
		"of access logs": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Name = "logs-redis-a-redis-main-1"
		}, ""},
		"of another set": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Name = "data-redis-a-redis-b-1"
		}, ""},
		"nobody's": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Labels[platformv1.OrdinalLabel] = ""
		}, ""},
		"one volume of a pod": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Name, c.Labels[platformv1.OrdinalLabel] = "data-1-redis-a-redis-main-0", "0"
		}, "without claim data-1-redis-a-redis-main-0: data is spread over the volumes of a pod; ask for as many " +
			`additionalVolumes of component "redis" as there were`},
		"each volume of a pod": {func(set *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Name, c.Labels[platformv1.OrdinalLabel] = "data-1-redis-a-redis-main-0", "0"
			set.Spec.Volumes = append(set.Spec.Volumes, volume("data-1"))
		}, ""},
		"being deleted": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, ""},
		"being filled": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			c.Annotations[platformv1.PreparedAnnotation] = "op"
		}, ""},
		"of a generation": {func(_ *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) { generate(c) },
			"without claim data-redis-a-redis-main-1-g1: "},
		"of a generation that nobody chose": {func(set *platformv1.WorkloadSet, c *corev1.PersistentVolumeClaim) {
			set.Spec.Data = &platformv1.SetData{}
			generate(c)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{
				Name: platformv1.WorkloadSetNameFor("redis-a", "redis", "main")}, Spec: platformv1.WorkloadSetSpec{
				Component: "redis", Set: "main", Replicas: 1, AdoptVolumes: "before",
				Volumes: []platformv1.SetVolume{volume("data"), volume(podtemplate.LogsVolume)},
			}}
			all := map[string]*corev1.PersistentVolumeClaim{}
			for _, claim := range claimsOf(1, "before", "redis/7.0") {
				tc.change(set, claim)
				all[claim.Name] = claim
			}
			maps.Copy(all, claims("before", "redis/7.0"))
			reason := ""
			if tc.refused != "" {
				reason = platformv1.ReasonAdoptionRefused
			}
			expect(t, LeftOut(set, all), reason, tc.refused)
		})
	}
}

func generate(claim *corev1.PersistentVolumeClaim) {
	claim.Name += "-g1"
	claim.Labels[platformv1.GenerationLabel] = "g1"
}

// What a claim says stays as it is for a topology alone.
func TestIsNoted(t *testing.T) {
	set := &platformv1.WorkloadSetSpec{Plugin: platformv1.PluginReference{Name: "redis"}, Version: "7.2",
		Topology: "replication"}
	for noted, want := range map[string]bool{
		"redis/7.2/replication": true, "redis/7.2": true,
		"redis/7.2/sentinel": false, "redis/7.0/replication": false, "redis/7.0": false, "valkey/7.2": false, "": false,
	} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{platformv1.DataAnnotation: noted}}}
		if got := IsNoted(set, claim); got != want {
			t.Errorf("of %q: %t", noted, got)
		}
	}
	if data := DataOf(set); data != "redis/7.2/replication" {
		t.Errorf("it says %q", data)
	}
}
