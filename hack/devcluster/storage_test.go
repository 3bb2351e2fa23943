// SPDX-License-Identifier: Apache-2.0

//go:build devcluster && linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// TestStorage does to volumes what people do: fills and grows them, takes
// snapshots and restores them, and has the driver and nodes die under them.
func TestStorage(t *testing.T) {
	d := newDevcluster(t)
	before := hostState(t)
	s := &storage{volumes: map[string]bool{}}
	steps := []struct {
		name string
		run  func(*testing.T, *devcluster)
	}{
		{"up", testUp},
		{"a claim has its size", s.testSize},
		{"full is full", s.testFull},
		{"growth in use", s.testGrowth},
		{"growth that the class forbids", s.testFixed},
		{"snapshots", s.testSnapshots},
		{"dead driver", s.testDeadDriver},
		{"stop and start", s.testStop},
		{"what is deleted is gone", s.testDelete},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, d.in(t)) }) {
			t.FailNow()
		}
	}
	s.note(d.in(t))
	if len(s.devices(t)) == 0 {
		t.Error("no volume is in use at the end: down would have nothing to clean")
	}
	d.in(t).checkDown(before)
	if left := s.devices(t); len(left) > 0 {
		t.Errorf("down has left %v", left)
	}
}

// storage remembers the volumes that the test has made.
type storage struct{ volumes map[string]bool }

// note remembers all volumes there are.
func (s *storage) note(d *devcluster) {
	d.t.Helper()
	for _, name := range strings.Fields(d.kubectl("get", "pv", "-o", "jsonpath={.items[*].metadata.name}")) {
		s.volumes[name] = true
	}
}

// devices lists the loop devices that show volumes of the test.
func (s *storage) devices(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it went meanwhile
		}
		if shown := strings.TrimSpace(string(data)); s.volumes[filepath.Base(filepath.Dir(shown))] {
			all = append(all, shown)
		}
	}
	return all
}

// user is a pod that has a claim of its own at /data.
func user(name, class, size, more, node string) string {
	selector := "{}"
	if node != "" {
		selector = fmt.Sprintf("{kubernetes.io/hostname: %s}", node)
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec:
  storageClassName: %[2]s
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: %[3]s}}
  %[4]s
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: %[5]s
  containers:
  - name: main
    image: devcluster.local/busybox:v1
    command: [sh, -c, "echo started >> /data/starts && exec sleep 100000"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: %[1]s}}]
`, name, class, size, more, selector)
}

// use makes a claim with its pod and waits for the pod.
func (d *devcluster) use(name, class, size, more, node string) {
	d.t.Helper()
	d.apply(user(name, class, size, more, node))
	start := time.Now()
	d.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=90s")
	d.t.Logf("a pod has its %s volume of class %s after %.1f s", size, class, time.Since(start).Seconds())
}

// in runs a script in a pod.
func (d *devcluster) sh(pod, script string) string {
	d.t.Helper()
	return d.kubectl("exec", pod, "--", "sh", "-c", script)
}

// size is that of the file system that a pod sees at /data, in MiB.
func (d *devcluster) size(pod string) int {
	d.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(d.sh(pod, "df -m /data | awk 'END {print $2}'")))
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// wantSize checks what a pod sees at /data. The file system's log, of 64 MiB,
// does not count as room.
func (d *devcluster) wantSize(pod string, mebibytes int) {
	d.t.Helper()
	if got := d.size(pod); got < mebibytes-70 || got > mebibytes {
		d.t.Errorf("pod %s sees %d MiB, want %d less the log", pod, got, mebibytes)
	}
}

func (s *storage) testSize(_ *testing.T, d *devcluster) {
	d.use("db", "csi", "400Mi", "", "")
	d.wantSize("db", 400)
	s.note(d)
}

func (s *storage) testFull(t *testing.T, d *devcluster) {
	said := d.sh("db", "dd if=/dev/zero of=/data/big bs=1M count=500 2>&1 || true; du -m /data/big; rm /data/big; echo "+
		"kept > /data/file")
	if !strings.Contains(said, "No space left on device") {
		t.Errorf("500 MiB fit into 400: %s", said)
	}
	if got := d.sh("db", "cat /data/file"); got != "kept\n" {
		t.Errorf("what was written after it was full is %q", got)
	}
}

func (s *storage) testGrowth(t *testing.T, d *devcluster) {
	const identity = "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}"
	before := d.kubectl("get", "pod", "db", "-o", identity)
	d.kubectl("patch", "pvc", "db", "--type=merge", "-p", `{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`)
	start := time.Now()
	// The kubelet looks at a running pod's volumes once a minute or so.
	d.kubectl("wait", "--for=jsonpath={.status.capacity.storage}=1Gi", "pvc/db", "--timeout=180s")
	t.Logf("grown after %.1f s", time.Since(start).Seconds())
	d.wantSize("db", 1024)
	if said := d.sh("db",
		"dd if=/dev/zero of=/data/big bs=1M count=600 2>&1 && rm /data/big && cat /data/file"); !strings.HasSuffix(said,
		"kept\n") {
		t.Errorf("600 MiB do not fit into 1024: %s", said)
	}
	if after := d.kubectl("get", "pod", "db", "-o", identity); after != before {
		t.Errorf("the pod was %s and is %s", before, after)
	}
}

func (s *storage) testFixed(t *testing.T, d *devcluster) {
	d.use("fixed", "csi-fixed", "400Mi", "", "")
	cmd := d.kubectlCommand("patch", "pvc", "fixed", "--type=merge", "-p",
		`{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "forbidden") {
		t.Errorf("got %v: %s", err, out)
	}
	s.note(d)
}

func (s *storage) testSnapshots(t *testing.T, d *devcluster) {
	// A writer that never rests: what is in the snapshot is whole all the same.
	d.sh("db", "(i=0; while true; do i=$((i+1)); echo line $i; done > /data/busy 2>/dev/null) >/dev/null 2>&1 &")
	d.apply(`
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: first}
spec: {volumeSnapshotClassName: csi, source: {persistentVolumeClaimName: db}}
`)
	start := time.Now()
	d.kubectl("wait", "--for=jsonpath={.status.readyToUse}=true", "volumesnapshot/first", "--timeout=90s")
	t.Logf("the snapshot is ready after %.1f s", time.Since(start).Seconds())
	d.sh("db", "echo changed > /data/file")
	for _, node := range []string{"n1", "n2"} {
		name := "restored-" + node
		d.use(name, "csi", "2Gi", "dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: first}", node)
		if got := d.sh(name, "cat /data/file"); got != "kept\n" {
			t.Errorf("restored on %s: %q", node, got)
		}
		d.wantSize(name, 2048)
	}
	if got := d.sh("db", "cat /data/file"); got != "changed\n" {
		t.Errorf("the volume itself has %q", got)
	}
	s.note(d)
}

func (s *storage) testDeadDriver(t *testing.T, d *devcluster) {
	node := d.kubectl("get", "pod", "db", "-o", "jsonpath={.spec.nodeName}")
	for _, m := range d.status().Machines {
		for _, p := range m.Programs {
			if p.Name == "csi-driver" && (m.Name == "cp" || m.Name == node) {
				kill(t, p.PID)
			}
		}
	}
	if got := d.sh("db", "echo alone > /data/alone && cat /data/alone"); got != "alone\n" {
		t.Errorf("without its driver the pod reads %q", got)
	}
	d.run("up")
	d.healthy()
	// The volume goes to another pod, which the new driver has to do.
	d.kubectl("delete", "pod", "db", "--wait=true", "--timeout=60s")
	d.use("db", "csi", "1Gi", "", "")
	if got := d.sh("db", "cat /data/alone /data/starts"); got != "alone\nstarted\nstarted\n" {
		t.Errorf("the next pod reads %q", got)
	}
	d.use("after", "csi", "400Mi", "", "")
	s.note(d)
}

func (s *storage) testStop(t *testing.T, d *devcluster) {
	node := d.kubectl("get", "pod", "db", "-o", "jsonpath={.spec.nodeName}")
	d.run("node", "stop", node)
	d.run("node", "start", node)
	d.kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/db", "--timeout=90s")
	d.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=90s")
	if got := d.sh("db", "cat /data/alone /data/starts"); strings.Count(got, "started\n") != 3 {
		t.Errorf("after a power cut the pod reads %q, want three starts", got)
	}
	d.wantSize("db", 1024)
}

func (s *storage) testDelete(t *testing.T, d *devcluster) {
	for _, name := range []string{"fixed", "after", "restored-n1", "restored-n2"} {
		d.kubectl("delete", "pod/"+name, "pvc/"+name, "--wait=true", "--timeout=90s")
	}
	d.kubectl("delete", "volumesnapshot", "first", "--wait=true", "--timeout=90s")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var left []string
	if err := process.Until(ctx, 200*time.Millisecond, func() (bool, error) {
		left = nil
		for _, kind := range []string{"volumes", "snapshots", "unfinished"} {
			found, err := filepath.Glob(filepath.Join(d.dir(), "n*/var/lib/csi", kind, "*"))
			if err != nil {
				return false, err
			}
			left = append(left, found...)
		}
		return len(left) == 1, nil
	}); err != nil {
		t.Errorf("of all volumes and snapshots one claim's is left: got %v", left)
	}
	if shown := s.devices(t); len(shown) != 1 {
		t.Errorf("one volume is in use, and shown are %v", shown)
	}
}
