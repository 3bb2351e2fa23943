// SPDX-License-Identifier: Apache-2.0

//go:build devcluster && linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// TestLifecycle makes a cluster of two nodes beside those that are there, does
// to it what people, tests and accidents do, and checks that nothing is left.
func TestLifecycle(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	d := newDevcluster(t)
	before := hostState(t)
	steps := []struct {
		name string
		run  func(*testing.T, *devcluster)
	}{
		{"up", testUp},
		{"second up is quick", testSecondUp},
		{"pods", testPods},
		{"outside view", testExec},
		{"audit log", testAudit},
		{"load", testLoad},
		{"cut and heal", testCut},
		{"stop and start", testStop},
		{"dead components", testDeadComponents},
		{"dead control plane", testDeadControlPlane},
		{"more nodes", testGrow},
		{"refusals", testRefusals},
	}
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, d.in(t)) }) {
			t.FailNow()
		}
	}
	d.in(t).checkDown(before)
	t.Run("killed up", func(t *testing.T) { testKilledUp(t, d.in(t)) })
	d.in(t).checkDown(before)
}

func testUp(_ *testing.T, d *devcluster) {
	d.run("up", "--nodes", "2", "--api-port", d.port, "--addon", "metrics", "--addon", "snapshots")
	d.healthy()
}

func testSecondUp(t *testing.T, d *devcluster) {
	pids := d.pids()
	start := time.Now()
	d.run("up")
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("a second up took %s", took)
	}
	if now := d.pids(); now != pids {
		t.Errorf("a second up changed programs from %s to %s", pids, now)
	}
}

// workload is a server on every node and a pod with a volume.
const workload = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: devcluster.local/busybox:v1
        command: [sh, -c, "mkdir /w && hostname > /w/index.html && exec httpd -f -p 8080 -h /w"]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: vol}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: vol
    image: devcluster.local/busybox:v1
    command: [sh, -c, "date >> /data/starts && echo started && exec sleep 100000"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

func testPods(t *testing.T, d *devcluster) {
	d.apply(workload)
	d.kubectl("rollout", "status", "daemonset/web", "--timeout=90s")
	d.kubectl("wait", "--for=condition=Ready", "pod/vol", "--timeout=90s")
	if got := d.kubectl("logs", "vol"); got != "started\n" {
		t.Errorf("logs say %q", got)
	}
	for _, ip := range strings.Fields(d.kubectl("get", "pods", "-l", "app=web", "-o",
		"jsonpath={.items[*].status.podIP}")) {
		if got := d.kubectl("exec", "vol", "--", "wget", "-qO-", "http://"+ip+":8080"); !strings.HasPrefix(got, "web-") {
			t.Errorf("pod %s answers %q", ip, got)
		}
	}
	got := d.kubectl("exec", "vol", "--", "wget", "-qO-", "http://web.default.svc.cluster.local")
	if !strings.HasPrefix(got, "web-") {
		t.Errorf("the Service answers %q", got)
	}
	if got := d.kubectl("top", "nodes", "--no-headers"); strings.Count(got, "\n") != 2 {
		t.Errorf("top says %q", got)
	}
	if got := d.kubectl("get", "nodes", "-o",
		"jsonpath={.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}"); got != "z1 z2" {
		t.Errorf("zones are %q", got)
	}
	// Only the node that runs the pod has its volume.
	if dirs, _ := filepath.Glob(filepath.Join(d.dir(), "n*/var/lib/csi/volumes/*")); len(dirs) != 1 {
		t.Errorf("volumes are at %v", dirs)
	}
}

func testExec(t *testing.T, d *devcluster) {
	for _, url := range []string{"http://web.default/", "http://172.30.0.12:30080/"} {
		if got := d.run("exec", "--", "busybox", "wget", "-qO-", url); !strings.HasPrefix(got, "web-") {
			t.Errorf("%s answers %q", url, got)
		}
	}
	if got := d.run("exec", "--on", "n2", "--", "kubectl", "get", "--raw", "/readyz"); got != "ok" {
		t.Errorf("kubectl inside says %q", got)
	}
}

func testAudit(t *testing.T, d *devcluster) {
	d.kubectl("create", "configmap", "audited")
	data, err := os.ReadFile(strings.TrimSpace(d.run("audit-log")))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e struct {
			Verb      string
			Stage     string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Name string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if e.Stage != "ResponseComplete" || e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" {
			t.Fatalf("not a finished write: %s", line)
		}
		if e.Verb == "create" && e.ObjectRef.Name == "audited" && e.User.Username == "kubernetes-admin" {
			return
		}
	}
	t.Error("the write is not in the log")
}

func testLoad(t *testing.T, d *devcluster) {
	images, err := filepath.Glob(filepath.Join(d.dir(), "images", "*", "coredns-*.tar"))
	if err != nil || len(images) != 1 {
		t.Fatalf("images are %v, %v", images, err)
	}
	// The same content under another name is another image to load.
	other := retag(t, images[0], "devcluster.local/coredns:", "devcluster.local/another:")
	if said := d.said("load", other); !strings.Contains(said, "into 2 of 2 nodes") {
		t.Errorf("load says %q", said)
	}
	if said := d.said("load", other); !strings.Contains(said, "in all nodes already") {
		t.Errorf("a second load says %q", said)
	}
}

func testCut(_ *testing.T, d *devcluster) {
	d.run("node", "cut", "n2")
	d.kubectl("wait", "--for=condition=Ready=Unknown", "node/n2", "--timeout=60s")
	d.run("node", "heal", "n2")
	d.kubectl("wait", "--for=condition=Ready", "node/n2", "--timeout=60s")
}

func testStop(t *testing.T, d *devcluster) {
	node := d.kubectl("get", "pod", "vol", "-o", "jsonpath={.spec.nodeName}")
	d.run("node", "stop", node)
	for _, p := range d.machine(node).Programs {
		if p.Running {
			t.Errorf("%s still runs", p.Name)
		}
	}
	d.kubectl("wait", "--for=condition=Ready=Unknown", "node/"+node, "--timeout=60s")
	d.run("node", "start", node)
	d.kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/vol", "--timeout=90s")
	d.kubectl("wait", "--for=condition=Ready", "pod/vol", "--timeout=90s")
	if got := d.kubectl("exec", "vol", "--", "cat", "/data/starts"); strings.Count(got, "\n") != 2 {
		t.Errorf("the volume remembers %q, want two starts", got)
	}
	d.kubectl("rollout", "status", "daemonset/web", "--timeout=90s")
}

func testDeadComponents(t *testing.T, d *devcluster) {
	restarts := d.kubectl("get", "pod", "vol", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	st := d.status()
	kill(t, st.Forwarder.PID)
	for _, m := range st.Machines {
		for _, p := range m.Programs {
			switch m.Name + "/" + p.Name {
			case "cp/kube-scheduler", "cp/etcd", "n1/containerd", "n2/kubelet", "n1/kube-proxy":
				kill(t, p.PID)
			}
		}
	}
	d.run("up")
	d.healthy()
	got := d.kubectl("get", "pod", "vol", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	if got != restarts {
		t.Errorf("a pod was restarted %s times, was %s: only programs had died", got, restarts)
	}
}

func testDeadControlPlane(t *testing.T, d *devcluster) {
	// The first process takes everything on its machine with it.
	var record struct{ PID int }
	data, err := os.ReadFile(filepath.Join(d.dir(), "cp", "pids", "machine.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &record); err != nil {
		t.Fatal(err)
	}
	kill(t, record.PID)
	d.run("up")
	d.healthy()
	d.kubectl("get", "configmap", "audited")
}

func testGrow(t *testing.T, d *devcluster) {
	pids := d.pids()
	d.run("up", "--nodes", "3")
	d.healthy()
	if now := d.pids(); !strings.HasPrefix(now, pids) {
		t.Errorf("a new node changed the others from %s to %s", pids, now)
	}
	d.kubectl("rollout", "status", "daemonset/web", "--timeout=90s")
	for _, ip := range strings.Fields(d.kubectl("get", "pods", "-l", "app=web", "-o",
		"jsonpath={.items[*].status.podIP}")) {
		if got := d.kubectl("exec", "vol", "--", "wget", "-qO-", "http://"+ip+":8080"); !strings.HasPrefix(got, "web-") {
			t.Errorf("pod %s answers %q", ip, got)
		}
	}
}

func testRefusals(t *testing.T, d *devcluster) {
	for want, args := range map[string][]string{
		"cannot shrink":                  {"up", "--nodes", "1"},
		"choose 1 to 50":                 {"up", "--nodes", "51"},
		"cannot find node \"n9\"":        {"node", "cut", "n9"},
		"choose another with --api-port": {"up", "--name", d.name + "b", "--api-port", d.port},
		"cannot use cluster name":        {"up", "--name", "No"},
		"cannot find add-on":             {"addon", "nothing"},
		"choose one of cert-manager":     {"up", "--addon", "nothing"},
		"cannot find log":                {"logs", "nothing"},
		"cannot read image archive":      {"load", "/etc/hostname"},
		"no such cluster":                {"status", "--name", d.name + "c"},
	} {
		if said := d.fails(args...); !strings.Contains(said, want) {
			t.Errorf("%v: got %q, want %q", args, said, want)
		}
	}
	d.run("down", "--name", d.name+"b")
}

// testKilledUp kills "up" at several moments of its work.
func testKilledUp(t *testing.T, d *devcluster) {
	for _, moment := range []string{"switched on the control plane", "switched on node", "API server is ready",
		"started node"} {
		cmd := d.command("up", "--nodes", "2", "--api-port", d.port)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		seen := false
		for lines := bufio.NewScanner(out); !seen && lines.Scan(); {
			seen = strings.Contains(lines.Text(), moment)
		}
		if !seen {
			t.Fatalf("up never said %q", moment)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if moment == "started node" {
			break
		}
		d.run("down")
	}
	d.run("up")
	d.healthy()
	// What a reboot leaves: the state without its processes. The forwarder and
	// every machine end at once, nothing is told.
	var pids []int
	for _, file := range []string{"pids/forward.json", "cp/pids/machine.json", "n1/pids/machine.json",
		"n2/pids/machine.json"} {
		var record struct{ PID int }
		data, err := os.ReadFile(filepath.Join(d.dir(), file))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &record); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, record.PID)
	}
	for _, pid := range pids {
		kill(t, pid)
	}
	d.run("up")
	d.healthy()
}

// kill ends a process by force and waits until it has ended.
func kill(t *testing.T, pid int) {
	t.Helper()
	id, err := process.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := process.Until(ctx, 10*time.Millisecond, func() (bool, error) { return !id.Alive(), nil }); err != nil {
		t.Fatalf("process %d does not end: %v", pid, err)
	}
}

func retag(t *testing.T, file, from, to string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	script := `set -e; mkdir "$2.d"; tar -xf "$1" -C "$2.d"; sed -i "s#$3#$4#" "$2.d/manifest.json"; tar -cf "$2" -C ` +
		`"$2.d" .`
	if said, err := exec.Command("sh", "-c", script, "sh", file, out, from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return out
}
