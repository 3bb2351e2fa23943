// SPDX-License-Identifier: Apache-2.0

//go:build devcluster && linux

package main

import (
	"strings"
	"testing"
)

// TestAddons gives a plain cluster the optional add-ons and uses them.
func TestAddons(t *testing.T) {
	d := newDevcluster(t)
	d.run("up", "--nodes", "1", "--api-port", d.port)
	if got := d.kubectl("get", "namespaces", "-o", "name"); strings.Contains(got, "cert-manager") {
		t.Errorf("a plain cluster has add-ons: %s", got)
	}
	d.run("addon", "cert-manager")
	d.healthy()
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
	d.kubectl("drain", "n1", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--disable-eviction", "--timeout=90s")
	d.kubectl("-n", "cert-manager", "rollout", "status", "deployment/cert-manager-webhook", "--timeout=90s")
}
