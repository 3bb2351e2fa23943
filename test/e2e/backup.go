// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// shelfName is the claim of a repository on a volume, and the pod that looks at what is there.
	shelfName = "shelf"
	// moverID is the user and the group of all movers.
	moverID = int64(65532)
)

// shelf makes a repository on a volume, and a pod with the image that has the volume, too.
func (s *space) shelf(repository, image string) {
	s.Helper()
	s.shelfAt(repository, image, nil)
}

// shelfAt is shelf, of a volume of a node that fits.
func (s *space) shelfAt(repository, image string, node map[string]string) {
	s.Helper()
	s.create(&corev1.PersistentVolumeClaim{ObjectMeta: named(shelfName), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}},
	}})
	pod := s.confined(shelfName, corev1.Container{Image: image, Command: []string{"sh", "-c", "while :; do sleep 60 & wait $!; done"}})
	pod.Spec.NodeSelector = node
	s.create(pod)
	s.create(&platformv1.BackupRepository{ObjectMeta: named(repository), Spec: platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: shelfName, Prefix: "kept"},
	}})
	if state := s.repositorySays(repository, metav1.ConditionTrue); state.FreeBytes == nil {
		s.Errorf("it does not say how much room there is: %+v", state)
	}
}

// repositorySays waits until movers of the database operator get into a repository, or do not, and returns what is said of that.
func (s *space) repositorySays(repository string, ready metav1.ConditionStatus) platformv1.RepositoryState {
	s.Helper()
	var said platformv1.RepositoryState
	s.eventually(readyIn, fmt.Sprintf("whether movers get into repository %q is %s", repository, ready), func() error {
		r := &platformv1.BackupRepository{}
		if err := s.get(repository, r); err != nil {
			return err
		}
		i := slices.IndexFunc(r.Status.Domains, func(d platformv1.RepositoryState) bool { return d.Domain == "database" })
		if i < 0 || r.Status.Domains[i].Ready != ready {
			return fmt.Errorf("it says %+v", r.Status.Domains)
		}
		said = r.Status.Domains[i]
		return nil
	})
	return said
}

// confined is a pod as movers are, with the shelf's volume at mover.VolumePath.
func (s *space) confined(name string, container corev1.Container) *corev1.Pod {
	container.Name = name
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"}, corev1.VolumeMount{Name: shelfName, MountPath: mover.VolumePath})
	container.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	return &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(moverID), RunAsGroup: new(moverID), FSGroup: new(moverID),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: shelfName, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: shelfName}}},
		},
		Containers: []corev1.Container{container},
	}}
}

// onShelf says whether there is a folder of a Backup on the shelf, and of what.
func (s *space) onShelf(key string) (files string, found bool) {
	s.Helper()
	out, err := run(s.ctx, s.name, shelfName, shelfName, "", "sh", "-c", `cd "$0" 2>/dev/null && find . -type f || :`, mover.VolumePath+"/kept/"+key)
	if err != nil {
		s.Fatal(err)
	}
	return out, strings.TrimSpace(out) != ""
}

// damage changes some bytes of what is on the shelf of a Backup.
func (s *space) damage(b *platformv1.Backup) {
	s.Helper()
	const breaks = `cd "$0" && for f in */data-*; do printf damaged | dd of="$f" bs=1 seek=100 conv=notrunc 2>/dev/null || exit 1; done`
	if _, err := run(s.ctx, s.name, shelfName, shelfName, "", "sh", "-c", breaks, mover.VolumePath+"/kept/"+b.Status.Key); err != nil {
		s.Fatal(err)
	}
}

// judged gives a Backup to a script's standard input, in the image of a container of a pod, and has the test fail where the data is not as its
// manifest says or the script does not end well.
func (s *space) judged(name string, b *platformv1.Backup, like *corev1.Pod, container, script string, arguments ...string) {
	s.Helper()
	plan, err := json.Marshal(mover.Plan{
		Verb: mover.VerbRestore, Repository: mover.Repository{Type: mover.TypeVolume, Prefix: "kept"}, Command: append([]string{"sh", "-c", script}, arguments...),
		Backup: &mover.Backup{Key: b.Status.Key, Digest: b.Status.Digest},
	})
	if err != nil {
		s.Fatal(err)
	}
	image := like.Spec.Containers[slices.IndexFunc(like.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })].Image
	bin := corev1.VolumeMount{Name: "bin", MountPath: "/zeroinfra/bin"}
	pod := s.confined(name, corev1.Container{Image: image, Command: []string{"/zeroinfra/bin/agent-ops", "mover"}, VolumeMounts: []corev1.VolumeMount{bin, {Name: "plan", MountPath: "/zeroinfra/mover"}}})
	pod.Annotations = map[string]string{"plan": string(plan)}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "bin", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "plan", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "plan.json", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['plan']"}}}}}})
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "agents", Image: like.Spec.InitContainers[0].Image, Command: []string{"/agent", "init", "--with", "agent-ops"}, VolumeMounts: []corev1.VolumeMount{bin},
		SecurityContext: pod.Spec.Containers[0].SecurityContext,
	}}
	s.create(pod)
	s.eventually(readyIn, "the copy is judged", func() error {
		if err := s.get(name, pod); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended.ExitCode != 0 {
		s.Errorf("Backup %q is not what it was made of: %s", b.Name, ended.Message)
	}
}

// list reads the objects of the namespace with these labels.
func (s *space) list(list client.ObjectList, labels client.MatchingLabels) error {
	return world.client.List(s.ctx, list, client.InNamespace(s.name), labels)
}

// backupOf returns an Operation that backs a target up.
func backupOf(name, repository string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: named(name), Spec: platformv1.OperationSpec{
		TemplateRef: "Backup", TargetRef: target, Parameters: platformv1.Parameters{"repository": platformv1.ParameterValue(repository)},
	}}
}

// completed waits until a Backup is whole, wherever its data is, and returns it.
func (s *space) completed(operation string) *platformv1.Backup {
	s.Helper()
	s.passes(operation)
	b := &platformv1.Backup{}
	s.mustGet(operation+"-backup", b)
	if b.Status.Phase != platformv1.BackupCompleted || b.Status.Size == 0 {
		s.Fatalf("the Backup is %+v", b.Status)
	}
	return b
}

// whole waits until a Backup in a repository is, and returns it.
func (s *space) whole(operation string) *platformv1.Backup {
	s.Helper()
	b := s.completed(operation)
	if b.Status.Digest == "" || b.Status.RawSize == 0 {
		s.Fatalf("the Backup is %+v", b.Status)
	}
	return b
}

// failed waits until a Backup has failed and nothing is left of it, and returns it.
func (s *space) failed(name string) *platformv1.Backup {
	s.Helper()
	b := &platformv1.Backup{}
	s.eventually(readyIn, fmt.Sprintf("Backup %q has failed, and nothing is left of it", name), func() error {
		if err := s.get(name, b); err != nil {
			return err
		}
		if b.Status.Phase != platformv1.BackupFailed || b.Status.Leftovers != platformv1.LeftoversNone {
			return fmt.Errorf("it is %+v", b.Status)
		}
		return nil
	})
	return b
}

// moverOf waits until the pod of a Backup's mover is there, and returns it.
func (s *space) moverOf(b *platformv1.Backup) *corev1.Pod {
	s.Helper()
	var pods corev1.PodList
	s.eventually(settleIn, "a mover is there", func() error {
		if err := s.get(b.Name, b); err != nil {
			return err
		}
		if err := s.list(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID)}); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods; the Backup is %s: %s", len(pods.Items), b.Status.Phase, b.Status.Message)
		}
		return nil
	})
	return &pods.Items[0]
}
