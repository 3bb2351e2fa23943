// SPDX-License-Identifier: Apache-2.0

//go:build devcluster && linux

package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// addons matches what a cluster without add-ons lacks.
var addons = regexp.MustCompile(`cert-manager|gateway|local-path|metrics\.k8s\.io|snapshot`)

// TestAddons gives a plain cluster the optional add-ons and uses them.
func TestAddons(t *testing.T) {
	d := newDevcluster(t)
	d.run("up", "--nodes", "1", "--api-port", d.port)
	if got := d.kubectl("get", "namespaces,storageclasses,apiservices,crds", "-o", "name"); addons.MatchString(got) {
		t.Errorf("a plain cluster has add-ons: %s", got)
	}
	d.run("addon", "cert-manager", "gateway", "local-path", "snapshots")
	d.healthy()
	d.kubectl("get", "volumesnapshotclass", "csi")
	d.use("folder", "local-path", "1Mi", "", "n1")
	if dirs, _ := filepath.Glob(filepath.Join(d.dir(), "n1/var/lib/local-path/*")); len(dirs) != 1 {
		t.Errorf("volumes of class local-path are at %v", dirs)
	}
	d.apply(`
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: self}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: leaf}
spec: {secretName: leaf, dnsNames: [leaf.default.svc], issuerRef: {name: self, kind: ClusterIssuer}}
`)
	d.kubectl("wait", "--for=condition=Ready", "certificate/leaf", "--timeout=60s")
	if got := d.kubectl("get", "secret", "leaf", "-o", `jsonpath={.data.tls\.crt}`); got == "" {
		t.Error("the certificate's Secret is empty")
	}
	d.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec: {gatewayClassName: traefik, listeners: [{name: web, protocol: HTTP, port: 8000}]}
`)
	d.kubectl("wait", "--for=condition=Programmed", "gateway/public", "--timeout=60s")
	// A second node gets the images, and the cluster keeps its add-on.
	d.run("up", "--nodes", "2")
	d.healthy()
	st := d.status()
	found := false
	for _, a := range st.Addons {
		found = found || a.Name == "cert-manager-webhook" && a.Ready
	}
	if !found {
		t.Errorf("status knows of %+v", st.Addons)
	}
	d.kubectl("drain", "n1", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--disable-eviction",
		"--timeout=90s")
	d.kubectl("-n", "cert-manager", "rollout", "status", "deployment/cert-manager-webhook", "--timeout=90s")
}

// policed are a server on every node and pods that ask it.
const policed = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: server}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: server
        image: devcluster.local/busybox:v1
        command: [sh, -c, "mkdir /w && echo hello > /w/index.html && httpd -p 8081 -h /w &&
          exec httpd -f -p 8080 -h /w"]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 2}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 81, targetPort: 8081}]}
---
apiVersion: v1
kind: Pod
metadata: {name: friend, labels: {app: friend}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: devcluster.local/busybox:v1, command: [sleep, "100000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: stranger, labels: {app: stranger}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: devcluster.local/busybox:v1, command: [sleep, "100000"]}]
`

// TestNetworkPolicies looks at who reaches whom, under policies and without.
func TestNetworkPolicies(t *testing.T) {
	d := newDevcluster(t)
	d.run("up", "--nodes", "2", "--api-port", d.port, "--addon", "network-policies")
	d.healthy()
	d.apply(policed)
	d.kubectl("rollout", "status", "daemonset/server", "--timeout=90s")
	d.kubectl("wait", "--for=condition=Ready", "pod/friend", "pod/stranger", "--timeout=90s")
	d.reach("no policy", map[string]bool{"friend:80": true, "friend:81": true, "stranger:80": true, "stranger:81": true})
	d.apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server}
spec:
  podSelector: {matchLabels: {app: server}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: http}]}]
`)
	d.reach("friends at http", map[string]bool{"friend:80": true, "friend:81": false, "stranger:80": false,
		"stranger:81": false})
	// A pod that comes later is known by its labels at once; probes pass.
	d.kubectl("label", "pod", "stranger", "app=friend", "--overwrite")
	d.reach("the stranger is a friend", map[string]bool{"friend:80": true, "stranger:80": true, "stranger:81": false})
	if got := d.kubectl("get", "daemonset", "server", "-o", "jsonpath={.status.numberReady}"); got != "2" {
		t.Errorf("%s of 2 servers pass their probes", got)
	}
	d.apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends}
spec:
  podSelector: {matchLabels: {app: friend}}
  policyTypes: [Egress]
  egress:
  - ports: [{port: 53, protocol: UDP}, {port: 53}]
  - {to: [{ipBlock: {cidr: 10.244.0.0/16}}], ports: [{port: 8081}]}
`)
	d.reach("friends only to 8081, where they are not let in", map[string]bool{"friend:80": false, "friend:81": false})
	d.kubectl("delete", "networkpolicy", "server", "friends")
	d.reach("no policy again", map[string]bool{"friend:80": true, "friend:81": true, "stranger:80": true,
		"stranger:81": true})
}

// reach waits until pods reach just those ports of the servers on both nodes.
func (d *devcluster) reach(what string, want map[string]bool) {
	d.t.Helper()
	servers := strings.Fields(d.kubectl("get", "pods", "-l", "app=server", "-o", "jsonpath={.items[*].status.podIP}"))
	ports := map[string]string{"80": "8080", "81": "8081"}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	var wrong []string
	err := process.Until(ctx, 200*time.Millisecond, func() (bool, error) {
		wrong = nil
		for _, from := range slices.Sorted(maps.Keys(want)) {
			pod, port, _ := strings.Cut(from, ":")
			for _, url := range []string{"server.default.svc.cluster.local:" + port, servers[0] + ":" + ports[port], servers[1] +
				":" + ports[port]} {
				cmd := d.kubectlCommand("exec", pod, "--", "timeout", "2", "wget", "-qO-", "http://"+url)
				if got := cmd.Run() == nil; got != want[from] {
					wrong = append(wrong, fmt.Sprintf("pod %s reaching %s is %v", pod, url, got))
				}
			}
		}
		return len(wrong) == 0, nil
	})
	if err != nil {
		d.t.Errorf("%s: %s", what, strings.Join(wrong, ", "))
	}
}
