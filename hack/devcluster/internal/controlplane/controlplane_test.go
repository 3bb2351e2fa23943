// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"sigs.k8s.io/yaml"
)

func testCluster(t *testing.T) (cluster.Cluster, *Credentials) {
	t.Helper()
	c, err := cluster.New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := OpenCredentials(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, creds
}

func withSnapshots() cluster.Settings { return cluster.Settings{Addons: []string{Snapshots}} }

func TestSnapshotsAreAnAddon(t *testing.T) {
	if all := Names(cluster.Defaults()); slices.Contains(all, CSISnapshotter) || !slices.Contains(all, CSIProvisioner) {
		t.Errorf("a plain cluster has %v", all)
	}
	if all := Names(withSnapshots()); !slices.Contains(all, CSISnapshotter) || !slices.Contains(all, SnapshotController) {
		t.Errorf("a cluster with snapshots has %v", all)
	}
}

func TestFilesNamedByFlagsExist(t *testing.T) {
	_, creds := testCluster(t)
	etc := t.TempDir()
	programs, err := Write(etc, cluster.Defaults(), creds)
	if err != nil {
		t.Fatal(err)
	}
	all := Names(withSnapshots())
	if len(programs) != len(all) {
		t.Fatalf("%d programs, want %v", len(programs), all)
	}
	for name, p := range programs {
		for _, arg := range p.Args {
			_, value, _ := strings.Cut(arg, "=")
			inside, ok := strings.CutPrefix(value, machine.EtcDir)
			if !ok {
				continue
			}
			info, err := os.Stat(filepath.Join(etc, inside))
			if err != nil {
				t.Errorf("%s is started with %s: %v", name, arg, err)
				continue
			}
			if strings.HasSuffix(value, ".key") && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %o", value, info.Mode().Perm())
			}
		}
	}
}

func TestNothingIsTrustedUnverified(t *testing.T) {
	_, creds := testCluster(t)
	programs, err := Write(t.TempDir(), cluster.Defaults(), creds)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range programs {
		if all := strings.Join(append(p.Args, p.Inputs...), "\n"); strings.Contains(all, "insecure") {
			t.Errorf("%s is told to trust without checking", name)
		}
	}
	for program, flags := range map[string][]string{
		Etcd: {"--client-cert-auth"},
		APIServer: {
			"--authorization-mode=Node,RBAC",
			"--kubelet-certificate-authority=" + credential("ca.crt"),
			"--requestheader-client-ca-file=" + credential("front-proxy-ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		},
		ControllerManager: {"--use-service-account-credentials", "--horizontal-pod-autoscaler-downscale-stabilization=15s",
			"--node-monitor-grace-period=10s", "--node-monitor-period=2s"},
	} {
		for _, flag := range flags {
			if !slices.Contains(programs[program].Args, flag) {
				t.Errorf("%s lacks %s", program, flag)
			}
		}
	}
}

func TestRewritingChangesNothing(t *testing.T) {
	_, creds := testCluster(t)
	etc := t.TempDir()
	first, err := Write(etc, cluster.Defaults(), creds)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Write(etc, cluster.Defaults(), creds)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names(withSnapshots()) {
		if !slices.Equal(first[name].Args, second[name].Args) || !slices.Equal(first[name].Inputs, second[name].Inputs) {
			t.Errorf("a second up would start %s anew", name)
		}
	}
}

func TestAPIServerIsKnownByItsNames(t *testing.T) {
	_, creds := testCluster(t)
	etc := t.TempDir()
	if _, err := Write(etc, cluster.Defaults(), creds); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(etc, "pki", "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"127.0.0.1", "localhost", "172.30.0.1", "10.96.0.1", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestAdminKubeconfigs(t *testing.T) {
	c, creds := testCluster(t)
	if err := creds.WriteAdmin(c, 16443); err != nil {
		t.Fatal(err)
	}
	for path, server := range map[string]string{c.Kubeconfig(): "https://127.0.0.1:16443",
		c.InnerKubeconfig(): "https://172.30.0.1:6443"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Clusters []struct {
				Cluster map[string]string `json:"cluster"`
			} `json:"clusters"`
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		got := config.Clusters[0].Cluster
		if got["server"] != server || got["certificate-authority-data"] != base64.StdEncoding.EncodeToString(creds.CA.PEM) {
			t.Errorf("%s leads to %v", path, got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestAuditPolicyRecordsWritesOnly(t *testing.T) {
	var policy struct {
		OmitStages []string `json:"omitStages"`
		Rules      []struct {
			Level string   `json:"level"`
			Verbs []string `json:"verbs"`
		} `json:"rules"`
	}
	if err := yaml.UnmarshalStrict(auditPolicy, &struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		OmitStages any    `json:"omitStages"`
		Rules      any    `json:"rules"`
	}{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(auditPolicy, &policy); err != nil {
		t.Fatal(err)
	}
	writes := []string{"create", "update", "patch", "delete", "deletecollection"}
	if len(policy.Rules) != 2 || policy.Rules[0].Level != "Metadata" || !slices.Equal(policy.Rules[0].Verbs, writes) ||
		policy.Rules[1].Level != "None" {
		t.Errorf("rules are %+v", policy.Rules)
	}
	if slices.Contains(policy.OmitStages, "ResponseComplete") {
		t.Error("finished writes are left out")
	}
}
