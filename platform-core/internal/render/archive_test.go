// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// archiving is the plugin redis with a component that archives, and a set of it that does so in a place.
func archiving(t *testing.T, place *platformv1.ComponentArchive) *platformv1.WorkloadSet {
	t.Helper()
	b := redis(t)
	app := application(nil)
	view := b.In(app.Spec.Topology)
	declared, _ := view.Component("redis")
	view.Components.Credentials = append(slices.Clip(view.Components.Credentials),
		schema.Credential{Name: "account", Supplied: true}, schema.Credential{Name: "key", Supplied: true})
	declared.Archive = &schema.Archive{
		Parameters: schema.ArchiveParameters{Folder: "log-folder", Volume: "log-volume", Bucket: "log-bucket",
			Endpoint: "log-endpoint"},
		Credentials: schema.ArchiveCredentials{AccessKey: "account", SecretKey: "key"}}
	declared.Credentials = append(declared.Credentials, "account", "key")
	declared.Process.Reload = &plan.Reload{Command: []string{"reload"}}
	specs, refusal := Components(b, app)
	if refusal != nil {
		t.Fatal(refusal)
	}
	specs[0].Archive = place
	if place != nil {
		for _, credential := range declared.Archive.CredentialsFor(place) {
			specs[0].Credentials = append(specs[0].Credentials,
				platformv1.ComponentCredential{Credential: credential, Revision: "1"})
		}
	}
	output, refusal := Component(b, settings,
		Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: "database"}, &specs[0])
	if refusal != nil {
		t.Fatal(refusal)
	}
	set := output.WorkloadSets[0]
	return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: app.Namespace,
		Labels: map[string]string{platformv1.DomainLabel: "database"}}, Spec: set.Spec}
}

// The volume of an archive is the process's alone, and of the group of the movers, which owns all volumes of the pod
// then.
func TestPodWithAnArchive(t *testing.T) {
	without, set := archiving(t, nil), archiving(t,
		&platformv1.ComponentArchive{Repository: "store", Folder: "a/b", Claim: "shelf"})
	p := pod(t, set, 0)
	i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == ArchiveVolume })
	if i < 0 || p.Spec.Volumes[i].PersistentVolumeClaim.ClaimName != "shelf" ||
		p.Spec.Volumes[i].PersistentVolumeClaim.ReadOnly || p.Labels[platformv1.ArchiveLabel] != "store" {
		t.Errorf("its volumes are %+v, its labels %v", p.Spec.Volumes, p.Labels)
	}
	for _, container := range append(slices.Clone(p.Spec.InitContainers), p.Spec.Containers...) {
		mounts := slices.ContainsFunc(container.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.Name == ArchiveVolume && m.MountPath == plan.ArchiveDir })
		if mounts != (container.Name == "redis") {
			t.Errorf("container %s mounts %+v", container.Name, container.VolumeMounts)
		}
	}
	if s := p.Spec.SecurityContext; *s.FSGroup != mover.User || !slices.Equal(s.SupplementalGroups, []int64{999}) ||
		*s.RunAsGroup != 999 {
		t.Errorf("it runs as %+v", s)
	}
	if s := pod(t, without, 0).Spec.SecurityContext; *s.FSGroup != 999 || len(s.SupplementalGroups) > 0 {
		t.Errorf("without an archive it runs as %+v", s)
	}
	if without.Spec.Revision == set.Spec.Revision ||
		set.Spec.Revision == archiving(t, &platformv1.ComponentArchive{Repository: "store", Folder: "a/b", Claim: "other"}).
			Spec.Revision {
		t.Error("another volume is no other pod")
	}
	if set.Spec.Revision != archiving(t, &platformv1.ComponentArchive{Repository: "store", Folder: "a/c", Claim: "shelf"}).
		Spec.Revision {
		t.Error("another folder is another pod")
	}
	job, err := JobOf(set, "redis", settings,
		Job{Name: "op", Pod: p.Name, Command: []string{"convert"}, Deadline: time.Minute})
	if err != nil || slices.ContainsFunc(job.Spec.Template.Spec.Volumes,
		func(v corev1.Volume) bool { return v.Name == ArchiveVolume }) ||
		*job.Spec.Template.Spec.SecurityContext.FSGroup != mover.User {
		t.Errorf("a job with its volumes is %+v, %v", job, err)
	}
}

// What opens a bucket is taken over by a reload, and whichever Secret has it no pod is replaced.
func TestPodWithAnArchiveInABucket(t *testing.T) {
	in := func(keys string) *platformv1.WorkloadSet {
		return archiving(t, &platformv1.ComponentArchive{Repository: "store", Folder: "a/b",
			Bucket: &platformv1.ArchiveBucket{Endpoint: "https://s3", Name: "log",
				CredentialsSecretRef: platformv1.SecretReference{Name: keys}}})
	}
	set := in("keys")
	if p := pod(t, set, 0); *p.Spec.SecurityContext.FSGroup != 999 || p.Labels[platformv1.ArchiveLabel] != "" {
		t.Errorf("the pod is %+v", p)
	}
	p, err := Plan(set)
	if err != nil || p.Credentials["account"] == "" || p.Credentials["key"] == "" {
		t.Fatalf("the plan is %+v, %v", p, err)
	}
	if set.Spec.Revision != in("others").Spec.Revision || set.Spec.Revision == archiving(t, nil).Spec.Revision {
		t.Error("the name of a Secret is another pod, or a mount is none")
	}
}

// A mover that goes on by logs on a volume mounts that once, and cannot write to it.
func TestMoverWithLogs(t *testing.T) {
	set := archiving(t, nil)
	from := &platformv1.Backup{Status: platformv1.BackupStatus{CompletionTime: new(metav1.Now())}}
	m := Mover{Namespace: "shop", Name: "restore-1", Domain: "database", For: "uid", Deadline: time.Minute, From: from,
		Plan: mover.Plan{Verb: mover.VerbRestore, Backup: &mover.Backup{Key: "shop/cache/x"}},
		Repository: &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "store"},
			Spec: platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "shelf"}}}}
	for claim, volume := range map[string]string{"shelf": volumeRepository, "other": ArchiveVolume} {
		set.Spec.Restore = &platformv1.SetRestore{Container: "redis", Folder: "/data", Command: []string{"load"}, Logs: claim,
			From: platformv1.ComponentRestore{
				Backup: "x", UID: "backup-uid", Method: "rdb", Target: &platformv1.RestoreTarget{Time: "2026-02-03T12:00:00Z"},
				Archive: &platformv1.ComponentArchive{Repository: "logs", Claim: claim}}}
		job, err := MoverInto(set, settings, m)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, v := range job.Spec.Template.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
				if named++; !v.PersistentVolumeClaim.ReadOnly || v.Name != volume {
					t.Errorf("%s: the volume is %+v", claim, v)
				}
			}
		}
		if mount := mounted(job)[plan.ArchiveDir]; named != 1 || mount.Name != volume || !mount.ReadOnly {
			t.Errorf("%s: it is named %d times, and mounted as %+v", claim, named, mount)
		}
		near := job.Spec.Template.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if want := map[string]int{"shelf": 1, "other": 2}[claim]; len(near) != want ||
			near[0].PodAffinityTerm.LabelSelector.MatchLabels[platformv1.ArchiveLabel] != "store" {
			t.Errorf("%s: it prefers to be near %+v", claim, near)
		}
	}
}
