// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The controllers of Kubernetes that tests ask for.
const (
	// GarbageCollector deletes what has lost its owner, and keeps an owner that is deleted in the foreground until its
	// dependents are gone.
	GarbageCollector = "garbage-collector-controller"
	// ClaimProtection lets a claim go that no pod uses.
	ClaimProtection = "persistentvolumeclaim-protection-controller"
	// RoleAggregation puts cluster roles together.
	RoleAggregation = "clusterrole-aggregation-controller"
)

// Controllers runs these controllers of Kubernetes until the test ends. An Env has none by itself: what they would do
// is not done.
func (e *Env) Controllers(t testing.TB, names ...string) {
	t.Helper()
	log := &bytes.Buffer{}
	command := exec.Command(filepath.Join(e.server.assets, "kube-controller-manager"), "--kubeconfig="+e.Kubeconfig(t),
		"--controllers="+strings.Join(names, ","), "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200",
		"--kube-api-burst=400")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("cannot run the controllers of Kubernetes: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // It may have ended.
		_ = command.Wait()         // It was killed.
		if t.Failed() {
			t.Logf("the controllers of Kubernetes said:\n%s", log)
		}
	})
}
