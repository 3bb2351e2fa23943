// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"sigs.k8s.io/yaml"
)

func write(t *testing.T, index int) (etc string, programs map[string]machine.Program) {
	t.Helper()
	c, err := cluster.New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := controlplane.OpenCredentials(c)
	if err != nil {
		t.Fatal(err)
	}
	etc = t.TempDir()
	programs, err = Write(etc, Options{
		Index: index, Group: "/devcluster/test/n2", PauseImage: "devcluster.local/pause:v1", Settings: cluster.Defaults(),
		ContainerdPath: "/usr/bin/containerd", CNIDir: "/usr/lib/cni",
	}, creds)
	if err != nil {
		t.Fatal(err)
	}
	return etc, programs
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestKubeletTrustsOnlyTheCluster(t *testing.T) {
	etc, programs := write(t, 2)
	var config struct {
		Authentication struct {
			Anonymous, Webhook struct{ Enabled bool }
			X509               struct{ ClientCAFile string }
		}
		Authorization               struct{ Mode string }
		CgroupRoot                  string
		ImageGCHighThresholdPercent int
		NodeLeaseDurationSeconds    int
		NodeStatusUpdateFrequency   string
	}
	if err := yaml.Unmarshal(read(t, etc, "kubelet.yaml"), &config); err != nil {
		t.Fatal(err)
	}
	auth := config.Authentication
	if auth.Anonymous.Enabled || !auth.Webhook.Enabled || config.Authorization.Mode != "Webhook" ||
		auth.X509.ClientCAFile != machine.EtcDir+"/ca.crt" {
		t.Errorf("the kubelet lets in: %+v, %+v", auth, config.Authorization)
	}
	if config.CgroupRoot != "/devcluster/test/n2" || config.ImageGCHighThresholdPercent != 100 {
		t.Errorf("got %+v", config)
	}
	// The kubelet renews at a quarter of the time: as often as the status period.
	if config.NodeLeaseDurationSeconds != 8 || config.NodeStatusUpdateFrequency != "2s" {
		t.Errorf("the node reports every %s, with a lease of %ds", config.NodeStatusUpdateFrequency,
			config.NodeLeaseDurationSeconds)
	}
	args := strings.Join(programs[Kubelet].Args, " ")
	for _, want := range []string{"--hostname-override=n2", "--node-ip=172.30.0.12",
		"--node-labels=topology.kubernetes.io/zone=z2"} {
		if !strings.Contains(args, want) {
			t.Errorf("the kubelet lacks %s", want)
		}
	}
	block, _ := pem.Decode(read(t, etc, "kubelet.crt"))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n2", "172.30.0.12"} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestNetworkIsTheNodesOwn(t *testing.T) {
	etc, _ := write(t, 2)
	var config struct {
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal(read(t, etc, "cni", "10-devcluster.conflist"), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Plugins) != 2 || config.Plugins[0].IPAM.Ranges[0][0].Subnet != "10.244.2.0/24" {
		t.Errorf("got %+v", config)
	}
}

func TestContainerdKnowsThePauseImage(t *testing.T) {
	etc, programs := write(t, 2)
	config := string(read(t, etc, "containerd.toml"))
	for _, want := range []string{
		`sandbox_image = "devcluster.local/pause:v1"`, `bin_dir = "/usr/lib/cni"`, `conf_dir = "/run/devcluster/etc/cni"`,
		`address = "/run/containerd/containerd.sock"`, "restrict_oom_score_adj = true", "SystemdCgroup = false",
	} {
		if !strings.Contains(config, want) {
			t.Errorf("containerd.toml lacks %s", want)
		}
	}
	if got := programs[Containerd].Path; got != "/usr/bin/containerd" {
		t.Errorf("containerd is %q", got)
	}
}
