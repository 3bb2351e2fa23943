// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// nfsExport is the folder that is exported, and where the pod has it.
	nfsExport = "/export/backups"
	// nfsConfig is of a server for version 4 alone, which asks nobody on the node for anything, and gives root no rights.
	nfsConfig = `NFS_CORE_PARAM {
  Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; allow_set_io_flusher_fail = true;
}
NFSV4 { Graceless = true; RecoveryBackend = fs; RecoveryRoot = /run/ganesha; }
LOG { Default_Log_Level = EVENT; }
EXPORT { Export_Id = 1; Path = ` + nfsExport +
		`; Pseudo = /backups; Access_Type = RW; Squash = Root_Squash; SecType = sys; Protocols = 4; Transports = TCP;
  FSAL { Name = VFS; } }
`
)

// nfsServer is one that exports a folder in which group 65532 may write, in a namespace of its own: it opens files by
// their handles, which takes a right of the node's root.
type nfsServer struct {
	*framework.Namespace
	// address that nodes and pods reach it at.
	address string
}

func newNFSServer(t *testing.T) *nfsServer {
	t.Helper()
	s := framework.NewNamespace(t, "nfs")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	relax := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	if err := framework.Cluster.Client.Patch(s.Ctx, namespace, relax); err != nil {
		t.Fatal(err)
	}
	s.Create(&corev1.ConfigMap{ObjectMeta: framework.ObjectMeta("nfs"),
		Data: map[string]string{"ganesha.conf": nfsConfig}})
	export, run := corev1.VolumeMount{Name: "export", MountPath: "/export"},
		corev1.VolumeMount{Name: "run", MountPath: "/run"}
	s.RunClient("nfs", framework.NFSImage, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": "nfs"}
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0))}
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "export", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "run", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "nfs"}}}},
		}
		pod.Spec.InitContainers = []corev1.Container{{
			Name: "folder", Image: framework.NFSImage, VolumeMounts: []corev1.VolumeMount{export, run},
			Command: []string{"sh", "-ec", `mkdir -p "$0" /run/ganesha; chown 0:65532 "$0"; chmod 2770 "$0"`, nfsExport},
		}}
		server := &pod.Spec.Containers[0]
		server.Command = []string{"ganesha.nfsd", "-F", "-L", "STDOUT", "-f", "/etc/ganesha/ganesha.conf", "-p",
			"/run/ganesha/pid"}
		server.SecurityContext = &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"DAC_READ_SEARCH"}}}
		server.VolumeMounts = []corev1.VolumeMount{export, run, {Name: "config", MountPath: "/etc/ganesha"}}
	})
	service := &corev1.Service{ObjectMeta: framework.ObjectMeta("nfs"), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "nfs"},
		Ports:    []corev1.ServicePort{{Name: "nfs", Port: 2049, TargetPort: intstr.FromInt32(2049)}},
	}}
	s.Create(service)
	return &nfsServer{Namespace: s, address: service.Spec.ClusterIP}
}

// has lists the files that are in the export, as the server's own pod sees them, each with its group.
func (n *nfsServer) has() string {
	n.Helper()
	out, err := framework.Run(n.Ctx, n.Name, "nfs", "nfs", "", "sh", "-ec",
		`cd "$0" && find . -type f -exec stat -c '%g %n' {} +`, nfsExport)
	if err != nil {
		n.Fatal(err)
	}
	return out
}

// TestNFSServer: the server that TestBackupOnNFS has nodes mount serves, and lets in whom movers write as and nobody
// else. The client has a kernel's part of it in user space.
func TestNFSServer(t *testing.T) {
	server := newNFSServer(t)
	s := framework.NewNamespace(t, "nfsclient")
	s.RunClient("client", framework.NFSImage, func(pod *corev1.Pod) {
		pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.RunAsGroup = new(framework.MoverID),
			new(framework.MoverID)
	})
	ask := func(script string) (string, error) {
		return framework.Run(s.Ctx, s.Name, "client", "client", "", "sh", "-ec", script,
			fmt.Sprintf("nfs://%s/backups", server.address))
	}
	s.Eventually(framework.ReadyTimeout, "the server takes a file", func() error {
		_, err := ask(`echo kept >/tmp/kept; nfs-cp /tmp/kept "$0/kept?version=4"`)
		return err
	})
	if got, err := ask(`nfs-cat "$0/kept?version=4"`); err != nil || got != "kept" {
		t.Errorf("the file has %q, %v", got, err)
	}
	if files := server.has(); files != "65532 ./kept" {
		t.Errorf("the server has %q", files)
	}
	if out, err := ask(`nfs-cp /tmp/kept "$0/strange?version=4&uid=1000&gid=1000"`); err == nil {
		t.Errorf("a stranger may write: %s", out)
	}
	if out, err := ask(`nfs-cat "$0/kept?version=4&uid=0&gid=0"`); err == nil {
		t.Errorf("root of a client may read: %s", out)
	}
}

// TestBackupOnNFS has a Redis backed up to a repository on NFS while it is written to, another one begin with that, and
// nothing left but what was kept. Nodes mount it by their kernel.
func TestBackupOnNFS(t *testing.T) {
	server := newNFSServer(t)
	s := framework.NewNamespace(t, "onnfs")
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	repository := &platformv1.BackupRepository{ObjectMeta: framework.ObjectMeta("store"),
		Spec: platformv1.BackupRepositorySpec{
			NFS: &platformv1.NFSRepository{Server: server.address, Path: "/backups", Prefix: "kept"},
		}}
	s.Create(repository)
	if state := s.WaitForRepository("store", metav1.ConditionTrue); state.FreeBytes == nil {
		t.Errorf("it does not say how much room there is: %+v", state)
	}
	w := i.StartWriter()
	s.Create(framework.NewBackupOperation("first", "store", i.Reference()))
	b := i.WaitForStoredBackup("first")
	w.Stop()
	w.StopAndVerify("writes during a backup", framework.SettleTimeout)
	if files := server.has(); !strings.Contains(files, "65532 ./kept/"+b.Status.Key+"/manifest.json") {
		t.Errorf("the server has %s", files)
	}
	s.CreateRedis("copy", framework.WithReplicas(1), framework.WithFsyncAlways(),
		framework.WithRestoreFrom("first-backup")).ExpectRestored(sum, "first-backup")
	s.Delete(b)
	s.Eventually(framework.ReadyTimeout, "what was kept is gone", func() error {
		if files := server.has(); strings.Contains(files, b.Status.Key) {
			return fmt.Errorf("the server has %s", files)
		}
		return nil
	})
	s.Create(framework.NewBackupOperation("second", "store", i.Reference()))
	kept := i.WaitForStoredBackup("second")
	s.Delete(repository)
	volume := &corev1.PersistentVolume{}
	s.Eventually(framework.ReadyTimeout, "its volume is gone", func() error {
		return framework.ErrUnlessNotFound(
			framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: platformv1.ShareNameFor(repository)}, volume))
	})
	if files := server.has(); !strings.Contains(files, kept.Status.Key+"/manifest.json") {
		t.Errorf("with the repository went what was kept: the server has %s", files)
	}
}
