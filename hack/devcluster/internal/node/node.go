// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package node writes the configuration of the programs that make a machine a
// Kubernetes node: containerd, the kubelet and kube-proxy.
package node

import (
	"fmt"
	"net"
	"path"
	"path/filepath"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"github.com/zeroinfra/hack/devcluster/internal/network"
)

// Names of a node's programs, in the order in which they start.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	Proxy      = "kube-proxy"
	CSIDriver  = "csi-driver"
)

// Names lists a node's programs in the order of their start.
func Names() []string { return []string{Containerd, CSIDriver, Kubelet, Proxy} }

// Socket is containerd's address inside a node.
const Socket = "/run/containerd/containerd.sock"

// Options are what differs between clusters.
type Options struct {
	// Index is the node's number, counting from 1.
	Index int
	// Group is the node's control group.
	Group string
	// PauseImage holds the first process of every pod.
	PauseImage string
	// ContainerdPath is the file of containerd inside the machine.
	ContainerdPath string
	// CNIDir holds the network plugins inside the machine.
	CNIDir string
	// Settings are those of the cluster.
	Settings cluster.Settings
}

// Write writes all files of a node into etc, the folder which its machine sees
// as machine.EtcDir, and returns its programs by name.
func Write(etc string, o Options, creds *controlplane.Credentials) (map[string]machine.Program, error) {
	name := cluster.NodeName(o.Index)
	ip := network.NodeIP(o.Index)
	serving, err := creds.Server("kubelet-"+name+"-server", "system:node:"+name, []string{name}, net.IP(ip.AsSlice()))
	if err != nil {
		return nil, err
	}
	client, err := creds.Client(network.APIURL(), "kubelet-"+name, "system:node:"+name, "system:nodes")
	if err != nil {
		return nil, err
	}
	proxy, err := creds.Client(network.APIURL(), Proxy, "system:kube-proxy")
	if err != nil {
		return nil, err
	}
	if err := controlplane.WritePair(etc, "kubelet", serving); err != nil {
		return nil, err
	}
	if err := creds.WritePeer(filepath.Join(etc, "csi"), "csi-"+name, net.IP(ip.AsSlice())); err != nil {
		return nil, err
	}
	files := map[string]string{
		"ca.crt": string(creds.CA.PEM), "kubelet.kubeconfig": string(client), "kube-proxy.kubeconfig": string(proxy),
		"kubelet.yaml": kubeletConfig(o), "kube-proxy.yaml": string(controlplane.ProxyConfig(name)),
		"containerd.toml": containerdConfig(o), "cni/10-devcluster.conflist": cniConfig(o),
		"resolv.conf": network.ResolvConf(),
	}
	for file, data := range files {
		if err := cluster.WriteFile(filepath.Join(etc, file), []byte(data), 0o600); err != nil {
			return nil, err
		}
	}
	kubelet := machine.Program{
		Name: Kubelet, Path: path.Join(machine.BinDir, Kubelet),
		Args: []string{
			"--config=" + machine.EtcDir + "/kubelet.yaml", "--kubeconfig=" + machine.EtcDir + "/kubelet.kubeconfig",
			"--hostname-override=" + name, "--node-ip=" + ip.String(),
			"--node-labels=topology.kubernetes.io/zone=" + fmt.Sprintf("z%d", o.Index),
		},
		Inputs: []string{files["kubelet.yaml"], files["kubelet.kubeconfig"], files["ca.crt"], string(serving.Cert)},
	}
	return map[string]machine.Program{
		Containerd: {
			Name: Containerd, Path: o.ContainerdPath,
			Args: []string{"--config", machine.EtcDir + "/containerd.toml"}, Inputs: []string{files["containerd.toml"]},
		},
		Kubelet:   kubelet,
		CSIDriver: csiDriver(o),
		Proxy: {
			Name: Proxy, Path: path.Join(machine.BinDir, Proxy),
			Args:   []string{"--config=" + machine.EtcDir + "/kube-proxy.yaml"},
			Inputs: []string{files["kube-proxy.yaml"], files["kube-proxy.kubeconfig"]},
		},
	}, nil
}

// csiDriver keeps volumes on the node's disk and mounts them for the kubelet.
// The kubelet takes note of it at any time.
func csiDriver(o Options) machine.Program {
	return machine.Program{
		Name: CSIDriver, Path: path.Join(machine.BinDir, CSIDriver),
		Args: []string{
			"node", "--node=" + cluster.NodeName(o.Index), "--root=/var/lib/csi",
			"--socket=/var/lib/kubelet/plugins/" + controlplane.CSIName + "/csi.sock",
			"--registration=/var/lib/kubelet/plugins_registry",
			"--listen=" + controlplane.CSIAddress(o.Index), "--credentials=" + machine.EtcDir + "/csi",
		},
	}
}

// kubeletConfig renders the kubelet's configuration. A lease as often as the
// status period says that the node lives; the whole status is written only
// when it changes.
func kubeletConfig(o Options) string {
	lease := int(4 * o.Settings.StatusPeriod.Seconds()) // renewed at a quarter of its time
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: true
  x509:
    clientCAFile: %[1]s/ca.crt
authorization:
  mode: Webhook
tlsCertFile: %[1]s/kubelet.crt
tlsPrivateKeyFile: %[1]s/kubelet.key
containerRuntimeEndpoint: unix://%[2]s
cgroupDriver: cgroupfs
cgroupRoot: %[3]s
cgroupsPerQOS: true
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
clusterDNS: [%[4]s]
clusterDomain: %[5]s
resolvConf: %[1]s/resolv.conf
volumePluginDir: /var/lib/kubelet/volume-plugins
nodeStatusUpdateFrequency: %[6]s
nodeStatusReportFrequency: 5m
nodeLeaseDurationSeconds: %[7]d
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 100Mi
  nodefs.available: 1%%
  imagefs.available: 1%%
  nodefs.inodesFree: 1%%
`, machine.EtcDir, Socket, o.Group, network.DNSIP, network.Domain, o.Settings.StatusPeriod, lease)
}

// containerdConfig renders containerd's configuration. Every place is inside
// the machine, so the defaults of containerd and its helpers are right.
func containerdConfig(o Options) string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0

[grpc]
  address = %[1]q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[2]q
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %[3]q
  conf_dir = "%[4]s/cni"
`, Socket, o.PauseImage, o.CNIDir, machine.EtcDir)
}

// cniConfig renders the network of a node's pods: a cable per pod, all traffic
// routed. Without a bridge on the node nothing depends on whether bridged
// frames see the node's Service rules. The addresses given are forgotten with
// the node's power, as the pods are.
func cniConfig(o Options) string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "devcluster",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, network.PodSubnet(o.Index))
}
