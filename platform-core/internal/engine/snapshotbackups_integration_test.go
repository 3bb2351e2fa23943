// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// snapshots is the version of the plugin redis whose data can be kept as VolumeSnapshots.
const snapshots = "3.3.0"

// heldFor is how long an agent keeps the middleware still that nobody asks again, and some seconds.
const heldFor = 45 * time.Second

// still is an instance on a disk of which snapshots are made, with a real ops agent in its pod.
type still struct {
	app    *platformv1.Application
	played *jobs
	// told has a line for each time that the server was had to keep still, and to go on.
	told string
}

// keepsStill installs a plugin whose method snapshot has the server keep still.
func keepsStill(t *testing.T) {
	t.Helper()
	prepared(t)
	derived(t, snapshots, "1.0.0", func(parts map[string]map[string]string) {
		cut(t, parts, "      - name: freeze\n", "    backups:\n")
		cut(t, parts, "      - name: snapshot\n", "    switchover:\n")
		replaced(t, parts, "components", "components.yaml",
			"    # What the engine runs where it names the writer.\n    actions:\n", `    actions:
      - name: freeze
        command: [sh, -c, "echo freeze >>/tmp/zeroinfra-test-${app.namespace}"]
        outputs: {kind: "'log'"}
      - name: thaw
        command: [sh, -c, "echo thaw >>/tmp/zeroinfra-test-${app.namespace}"]
`)
		replaced(t, parts, "components", "components.yaml", "      - name: rdb\n", `      - name: snapshot
        from: [{role: primary}]
        snapshot: {freeze: freeze, thaw: thaw, holdSeconds: 300}
        restore: {folder: /data, command: [clean, "${app.name}"]}
      - name: plain
        from: [{role: primary}]
        snapshot: {}
      - name: rdb
`)
	})
}

// onDisk makes an instance of that plugin. An engine has to run.
func onDisk(t *testing.T, namespace string) *still {
	t.Helper()
	s := &still{told: "/tmp/zeroinfra-test-" + namespace}
	t.Cleanup(func() { _ = os.Remove(s.told) })
	disk := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: diskDriver}
	if err := env.Client.Create(t.Context(), disk); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	s.played = playJobs(t, namespace)
	address := testagents.Address()
	nodeAt(t, namespace, address)
	s.app = application(namespace)
	s.app.Spec.PluginVersion = snapshots
	s.app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "redis", Storage: &platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: new("disk")}}}
	create(t, s.app)
	testkit.WaitForReady(t, env.Client, s.app)
	onDisks(t, namespace)
	s.startAgent(t, address)
	return s
}

// startAgent runs the ops agent of the pod, with the plan and the certificate that the engine has made for it.
func (s *still) startAgent(t *testing.T, address string) {
	t.Helper()
	agent, err := testagents.Build(t.TempDir(), "agent-ops")
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(t, s.app)
	plans, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	set := platformv1.WorkloadSetNameFor(s.app.Name, "redis", platformv1.DefaultSet)
	if err := errors.Join(env.Client.Get(t.Context(),
		client.ObjectKey{Namespace: pod.Namespace, Name: platformv1.PlanNameFor(set)}, plans),
		env.Client.Get(t.Context(), client.ObjectKey{Namespace: pod.Namespace,
			Name: platformv1.AgentCertificateNameFor(pod.Name)}, secret)); err != nil {
		t.Fatal(err)
	}
	// Of the plan nothing but the actions: its files are for a folder that this machine has not.
	var whole plan.Plan
	if err := json.Unmarshal([]byte(plans.Data[plan.PlanFile]), &whole); err != nil {
		t.Fatal(err)
	}
	part, err := json.Marshal(plan.Plan{Version: whole.Version, Digest: whole.Digest,
		Process: plan.Process{Command: []string{"sleep", "60"}},
		Actions: slices.DeleteFunc(whole.Actions,
			func(a plan.Action) bool { return a.Name != "freeze" && a.Name != "thaw" })})
	if err != nil {
		t.Fatal(err)
	}
	folders := testagents.NewPod(t, testagents.Authority(t, "database"), pod.Namespace, pod.Name, part)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		folders.Write(secret.Data[name], "tls", name)
	}
	folders.Start(agent, []string{"POD_NAME=" + pod.Name}, "ops", "--tls-dir", folders.Path("tls"), "--listen",
		net.JoinHostPort(address, fmt.Sprint(plan.OpsPort)))
}

// did waits until the server was had to do this, in this order and nothing else.
func (s *still) did(t *testing.T, within time.Duration, want ...string) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		text, err := os.ReadFile(s.told)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		got := strings.Fields(string(text))
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server was had to %v, want %v", got, want)
		}
	}
}

// backs begins a Backup by a method.
func (s *still) backs(t *testing.T, name, method string) *platformv1.Operation {
	t.Helper()
	return operate(t, s.app, name, "Backup", nil, "method", method)
}

// holds waits until a Backup has its source keep still.
func (s *still) holds(t *testing.T, name string) *platformv1.Backup {
	t.Helper()
	b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: name}}
	testkit.WaitFor(t, env.Client, b, "held", func() error {
		if b.Status.Hold == nil || b.Status.Hold.Phase != platformv1.HoldHeld {
			return fmt.Errorf("it is %s: %s", b.Status.Phase, b.Status.Message)
		}
		return nil
	})
	return b
}

// remains says how many VolumeSnapshots a namespace has.
func remains(t *testing.T, namespace string, want int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d VolumeSnapshots", want), func(ctx context.Context) error {
		all, err := volumesnapshot.List(ctx, env.Client, namespace, nil)
		if err == nil && len(all) != want {
			err = fmt.Errorf("there are %d", len(all))
		}
		return err
	})
}

// moment is a VolumeSnapshot that is of a time and cannot be used yet, and usable is one that can.
func moment() map[string]any {
	return map[string]any{"creationTime": time.Now().UTC().Format(time.RFC3339), "readyToUse": false}
}

func usable() map[string]any {
	return map[string]any{"creationTime": time.Now().UTC().Format(time.RFC3339), "readyToUse": true, "restoreSize": "1Gi"}
}

// Data is kept as a VolumeSnapshot of a server that keeps still until that is of its moment, and an instance of another
// name begins with it.
func TestBackupBySnapshots(t *testing.T) {
	keepsStill(t)
	env.InstallSnapshots(t)
	env.SnapshotClass(t, "disk-backups", diskDriver)
	namespace := env.Namespace(t)
	run(t, -1)
	s := onDisk(t, namespace)
	op := s.backs(t, "nightly", "snapshot")
	s.holds(t, "nightly-backup")
	made := env.SnapshotsBecome(t, namespace, 1, moment())[0]
	s.did(t, testkit.Patience, "freeze", "thaw")
	b := backupIs(t, namespace, "nightly-backup", platformv1.BackupRunning)
	if labels := made.GetLabels(); labels[platformv1.BackupLabel] != string(b.UID) ||
		labels[platformv1.ApplicationUIDLabel] != "" || labels[platformv1.ApplicationLabel] != s.app.Name {
		t.Errorf("the VolumeSnapshot has the labels %v", labels)
	}
	env.SnapshotsBecome(t, namespace, 1, usable())
	if outputs := ends(t, op, platformv1.OperationSucceeded).Steps[0].Outputs; outputs["source"] != podOf(t, s.app).Name ||
		outputs["size"] != "1073741824" {
		t.Errorf("the Operation says %v", outputs)
	}
	b = backupIs(t, namespace, "nightly-backup", platformv1.BackupCompleted)
	if b.Spec.Type != platformv1.BackupSnapshot || b.Spec.RepositoryRef.Name != "" || b.Status.Facts["kind"] != "log" ||
		b.Status.Hold.Phase != platformv1.HoldReleased ||
		len(b.Status.Snapshots) != 1 || b.Status.Snapshots[0].Name != made.GetName() ||
		b.Status.Snapshots[0].Driver != diskDriver || b.Status.Snapshots[0].Class != "disk-backups" ||
		b.Status.Snapshots[0].CreationTime == nil {
		t.Errorf("the Backup is %+v with %+v", b.Spec, b.Status)
	}

	next := begins(t, namespace, "redis-b", b.Name, func(spec *platformv1.ApplicationSpec) {
		spec.PluginVersion, spec.Components = snapshots, s.app.Spec.Components
	})
	begun(t, next, b)
	claim := &corev1.PersistentVolumeClaim{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "data-redis-b-redis-main-0"},
		claim); err != nil || claim.Spec.DataSource == nil || claim.Spec.DataSource.Name != made.GetName() {
		t.Errorf("the claim is %+v: %v", claim.Spec, err)
	}
	adopted := s.played.verbs(t, mover.VerbAdopt)
	if len(adopted) != 1 {
		t.Fatalf("there were %d movers", len(adopted))
	}
	if text := adopted[0].Spec.Template.Annotations[platformv1.MoverPlanAnnotation]; !strings.Contains(text,
		`"command":["clean","redis-b"]`) || !strings.Contains(text, `"known":{"kind":"log"}`) ||
		!strings.Contains(text, string(b.UID)) {
		t.Errorf("its plan is %s", text)
	}
	if err := env.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, b)
	remains(t, namespace, 0)
}

// Whatever crashes, there is one snapshot, of a server that was had to keep still once.
func TestSnapshotsSurviveKills(t *testing.T) {
	keepsStill(t)
	env.InstallSnapshots(t)
	env.SnapshotClass(t, "disk-backups", diskDriver)
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	s := onDisk(t, namespace)
	stop()
	op := s.backs(t, "once", "snapshot")
	seen := map[types.UID]bool{}
	crashing{times: 80, writes: 4, while: func() { s.snapshotter(t, seen) }}.until(t, op)
	if op.Status.Phase != platformv1.OperationSucceeded || op.Status.Steps[0].Attempts != 1 || len(seen) != 1 {
		t.Errorf("it is %+v, with %d snapshots", op.Status, len(seen))
	}
	s.did(t, heldFor, "freeze", "thaw")
	remains(t, namespace, 1)
}

// snapshotter plays the snapshot controller: what has no status yet is of its moment, and usable when it is looked at
// again.
func (s *still) snapshotter(t *testing.T, seen map[types.UID]bool) {
	t.Helper()
	all, err := volumesnapshot.List(t.Context(), env.Client, s.app.Namespace, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		status := usable()
		if !seen[one.GetUID()] {
			seen[one.GetUID()], status = true, moment()
		} else if one.IsReady() {
			continue
		}
		before := one.DeepCopy()
		one.Object["status"] = status
		err := env.Client.Status().Patch(t.Context(), one.Unstructured, client.MergeFrom(before))
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
}

// An engine that is gone has nobody keep still for long, and what was made meanwhile counts for nothing.
func TestAFreezeDoesNotOutliveTheEngine(t *testing.T) {
	keepsStill(t)
	env.InstallSnapshots(t)
	env.SnapshotClass(t, "disk-backups", diskDriver)
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	s := onDisk(t, namespace)
	op := s.backs(t, "left", "snapshot")
	s.holds(t, "left-backup")
	stop()
	s.did(t, heldFor, "freeze", "thaw")
	run(t, -1)
	if failed := ends(t, op, platformv1.OperationFailed); !strings.Contains(failed.Error, "its lease ran out") {
		t.Errorf("it says %q", failed.Error)
	}
	backupIs(t, namespace, "left-backup", platformv1.BackupFailed)
	remains(t, namespace, 0)
	s.did(t, time.Second, "freeze", "thaw")
}

// A Backup that ends early has its source go on at once, and leaves no snapshot.
func TestAFreezeEndsWithItsBackup(t *testing.T) {
	keepsStill(t)
	env.InstallSnapshots(t)
	env.SnapshotClass(t, "disk-backups", diskDriver)
	namespace := env.Namespace(t)
	run(t, -1)
	s := onDisk(t, namespace)
	op := s.backs(t, "short", "snapshot")
	b := s.holds(t, "short-backup")
	remains(t, namespace, 1)
	if err := env.Client.Patch(t.Context(), op,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	s.did(t, 10*time.Second, "freeze", "thaw")
	ends(t, op, platformv1.OperationCancelled)
	remains(t, namespace, 0)
	testkit.WaitFor(t, env.Client, b, "tidied", func() error {
		if b.Status.Leftovers != platformv1.LeftoversNone || !b.Status.Hold.Over() {
			return fmt.Errorf("it is %+v", b.Status)
		}
		return nil
	})
}

// What cannot be kept so is said at once, with what to do.
func TestSnapshotBackupsAreRefused(t *testing.T) {
	keepsStill(t)
	namespace := env.Namespace(t)
	run(t, -1)
	s := onDisk(t, namespace)
	fails := func(name, says string, parameters ...string) {
		t.Helper()
		if failed := ends(t, operate(t, s.app, name, "Backup", nil, parameters...),
			platformv1.OperationFailed); !strings.Contains(failed.Error, says) {
			t.Errorf("%s: it says %q, want %q in it", name, failed.Error, says)
		}
	}
	fails("in-a-store", `in no BackupRepository: leave parameter "repository" out`, "method", "snapshot", "repository",
		"store")
	fails("nowhere", `method "rdb" keeps its data in a BackupRepository: name one`)
	fails("no-kinds", "the cluster has no VolumeSnapshots", "method", "plain")
	env.InstallSnapshots(t)
	fails("no-class", "there is no VolumeSnapshotClass of its CSI driver", "method", "plain")
	env.SnapshotClass(t, "disk-one", diskDriver)
	env.SnapshotClass(t, "disk-two", diskDriver)
	fails("two-classes", "disk-one, disk-two, and none is the default", "method", "plain")
	remains(t, namespace, 0)
	s.did(t, time.Second)
}
