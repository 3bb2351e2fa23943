// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// RepositoryPod is the claim of a repository on a volume, and the pod that looks at what is there.
	RepositoryPod = "shelf"
	// MoverID is the user and the group of all movers.
	MoverID = int64(65532)
)

// CreateRepository makes a repository on a volume, and a pod with the image that has the volume, too.
func (s *Namespace) CreateRepository(repository, image string) {
	s.Helper()
	s.CreateRepositoryOnNode(repository, image, nil)
}

// CreateRepositoryOnNode is CreateRepository with the volume on a node that has these labels.
func (s *Namespace) CreateRepositoryOnNode(repository, image string, node map[string]string) {
	s.Helper()
	s.Create(&corev1.PersistentVolumeClaim{ObjectMeta: ObjectMeta(RepositoryPod), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}},
	}})
	pod := s.RestrictedPod(RepositoryPod,
		corev1.Container{Image: image, Command: []string{"sh", "-c", "while :; do sleep 60 & wait $!; done"}})
	pod.Spec.NodeSelector = node
	s.Create(pod)
	s.Create(&platformv1.BackupRepository{ObjectMeta: ObjectMeta(repository), Spec: platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: RepositoryPod, Prefix: "kept"},
	}})
	if state := s.WaitForRepository(repository, metav1.ConditionTrue); state.FreeBytes == nil {
		s.Errorf("it does not say how much room there is: %+v", state)
	}
}

// WaitForRepository waits until movers of the database operator get into a repository, or do not, and returns what is
// said of that.
func (s *Namespace) WaitForRepository(repository string, ready metav1.ConditionStatus) platformv1.RepositoryState {
	s.Helper()
	var said platformv1.RepositoryState
	s.Eventually(ReadyTimeout, fmt.Sprintf("whether movers get into repository %q is %s", repository, ready),
		func() error {
			r := &platformv1.BackupRepository{}
			if err := s.Get(repository, r); err != nil {
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

// RestrictedPod is a pod as movers are, with the repository's volume at mover.VolumePath.
func (s *Namespace) RestrictedPod(name string, container corev1.Container) *corev1.Pod {
	container.Name = name
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"},
		corev1.VolumeMount{Name: RepositoryPod, MountPath: mover.VolumePath})
	container.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	return &corev1.Pod{ObjectMeta: ObjectMeta(name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
		TerminationGracePeriodSeconds: new(int64(0)),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(MoverID),
			RunAsGroup: new(MoverID), FSGroup: new(MoverID),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: RepositoryPod, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: RepositoryPod}}},
		},
		Containers: []corev1.Container{container},
	}}
}

// BackupInRepository says whether there is a folder of a Backup in the repository, and of what.
func (s *Namespace) BackupInRepository(key string) (files string, found bool) {
	s.Helper()
	out, err := Run(s.Ctx, s.Name, RepositoryPod, RepositoryPod, "", "sh", "-c",
		`cd "$0" 2>/dev/null && find . -type f || :`, mover.VolumePath+"/kept/"+key)
	if err != nil {
		s.Fatal(err)
	}
	return out, strings.TrimSpace(out) != ""
}

// DamageBackup changes some bytes of the data of a Backup in the repository.
func (s *Namespace) DamageBackup(b *platformv1.Backup) {
	s.Helper()
	const breaks = `cd "$0" && for f in */data-*; do printf damaged | dd of="$f" bs=1 seek=100 conv=notrunc 2>/dev/null ` +
		`|| exit 1; done`
	if _, err := Run(s.Ctx, s.Name, RepositoryPod, RepositoryPod, "", "sh", "-c", breaks, mover.VolumePath+"/kept/"+
		b.Status.Key); err != nil {
		s.Fatal(err)
	}
}

// VerifyBackupData gives a Backup to a script's standard input, in the image of a container of a pod, and has the test
// fail where the data is not as its manifest says or the script does not end well.
func (s *Namespace) VerifyBackupData(name string, b *platformv1.Backup, like *corev1.Pod, container, script string,
	arguments ...string) {
	s.Helper()
	plan, err := json.Marshal(mover.Plan{
		Verb: mover.VerbRestore, Repository: mover.Repository{Type: mover.TypeVolume, Prefix: "kept"},
		Command: append([]string{"sh", "-c", script}, arguments...),
		Backup:  &mover.Backup{Key: b.Status.Key, Digest: b.Status.Digest},
	})
	if err != nil {
		s.Fatal(err)
	}
	image := like.Spec.Containers[slices.IndexFunc(like.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == container })].Image
	bin := corev1.VolumeMount{Name: "bin", MountPath: "/zeroinfra/bin"}
	pod := s.RestrictedPod(name, corev1.Container{Image: image, Command: []string{"/zeroinfra/bin/agent-ops", "mover"},
		VolumeMounts: []corev1.VolumeMount{bin, {Name: "plan", MountPath: "/zeroinfra/mover"}}})
	pod.Annotations = map[string]string{"plan": string(plan)}
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "bin", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "plan", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "plan.json", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['plan']"}}}}}})
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "agents", Image: like.Spec.InitContainers[0].Image, Command: []string{"/agent", "init", "--with", "agent-ops"},
		VolumeMounts:    []corev1.VolumeMount{bin},
		SecurityContext: pod.Spec.Containers[0].SecurityContext,
	}}
	s.Create(pod)
	s.Eventually(ReadyTimeout, "the copy is judged", func() error {
		if err := s.Get(name, pod); err != nil {
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

// List reads the objects of the namespace with these labels.
func (s *Namespace) List(list client.ObjectList, labels client.MatchingLabels) error {
	return Cluster.Client.List(s.Ctx, list, client.InNamespace(s.Name), labels)
}

// NewBackupOperation returns an Operation that backs a target up.
func NewBackupOperation(name, repository string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: ObjectMeta(name), Spec: platformv1.OperationSpec{
		TemplateRef: "Backup", TargetRef: target,
		Parameters: platformv1.Parameters{"repository": platformv1.ParameterValue(repository)},
	}}
}

// WaitForBackup waits until a Backup is whole, wherever its data is, and returns it.
func (s *Namespace) WaitForBackup(operation string) *platformv1.Backup {
	s.Helper()
	s.WaitForOperation(operation)
	b := &platformv1.Backup{}
	s.MustGet(operation+"-backup", b)
	if b.Status.Phase != platformv1.BackupCompleted || b.Status.Size == 0 {
		s.Fatalf("the Backup is %+v", b.Status)
	}
	return b
}

// WaitForStoredBackup waits until a Backup in a repository is, and returns it.
func (s *Namespace) WaitForStoredBackup(operation string) *platformv1.Backup {
	s.Helper()
	b := s.WaitForBackup(operation)
	if b.Status.Digest == "" || b.Status.RawSize == 0 {
		s.Fatalf("the Backup is %+v", b.Status)
	}
	return b
}

// ExpectBackupFailed waits until a Backup has failed and nothing is left of it, and returns it.
func (s *Namespace) ExpectBackupFailed(name string) *platformv1.Backup {
	s.Helper()
	b := &platformv1.Backup{}
	s.Eventually(ReadyTimeout, fmt.Sprintf("Backup %q has failed, and nothing is left of it", name), func() error {
		if err := s.Get(name, b); err != nil {
			return err
		}
		if b.Status.Phase != platformv1.BackupFailed || b.Status.Leftovers != platformv1.LeftoversNone {
			return fmt.Errorf("it is %+v", b.Status)
		}
		return nil
	})
	return b
}

// MoverPod waits until the pod of a Backup's mover is there, and returns it.
func (s *Namespace) MoverPod(b *platformv1.Backup) *corev1.Pod {
	s.Helper()
	var pods corev1.PodList
	s.Eventually(SettleTimeout, "a mover is there", func() error {
		if err := s.Get(b.Name, b); err != nil {
			return err
		}
		if err := s.List(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID)}); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods; the Backup is %s: %s", len(pods.Items), b.Status.Phase, b.Status.Message)
		}
		return nil
	})
	return &pods.Items[0]
}

// In returns the same instance for a subtest.
func (i *Instance) In(t *testing.T) *Instance {
	return &Instance{Namespace: i.Namespace.In(t), Name: i.Name}
}
