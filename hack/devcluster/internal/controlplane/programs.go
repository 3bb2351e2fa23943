// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"github.com/zeroinfra/hack/devcluster/internal/network"
)

// KubeletClient is the user as which the API server asks kubelets.
const KubeletClient = "kube-apiserver-kubelet-client"

// frontProxy is the name by which aggregated APIs know the API server.
const frontProxy = "front-proxy-client"

//go:embed audit-policy.yaml
var auditPolicy []byte

// Names of the control plane's programs, in the order in which they start.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Proxy             = "kube-proxy"
)

// Names lists the programs of the control plane of a cluster in the order of their start.
func Names(s cluster.Settings) []string {
	names := append([]string{Etcd, APIServer, ControllerManager, Scheduler, Proxy}, Storage()...)
	if slices.Contains(s.Addons, Snapshots) {
		names = append(names, SnapshotPrograms()...)
	}
	return names
}

// pkiDir is where the control plane's machine sees its credentials.
const pkiDir = machine.EtcDir + "/pki"

func credential(name string) string { return path.Join(pkiDir, name) }

// Write writes all files of the control plane into etc, the folder which its
// machine sees as machine.EtcDir, and returns its programs by name.
func Write(etc string, s cluster.Settings, creds *Credentials) (map[string]machine.Program, error) {
	if err := creds.install(filepath.Join(etc, "pki")); err != nil {
		return nil, err
	}
	files := map[string][]byte{"audit-policy.yaml": auditPolicy, "kube-proxy.yaml": ProxyConfig(cluster.NodeName(1))}
	for _, client := range []string{ControllerManager, Scheduler, Proxy} {
		config, err := creds.Client(network.APIURL(), client, "system:"+client)
		if err != nil {
			return nil, err
		}
		files[client+".kubeconfig"] = config
	}
	storage, err := creds.Client(network.APIURL(), "csi", StorageUser)
	if err != nil {
		return nil, err
	}
	files["csi.kubeconfig"] = storage
	if err := creds.WritePeer(filepath.Join(etc, "csi"), "csi-controller"); err != nil {
		return nil, err
	}
	for name, data := range files {
		if err := cluster.WriteFile(filepath.Join(etc, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	inputs, err := contents(etc)
	if err != nil {
		return nil, err
	}
	args := map[string][]string{
		Etcd: etcdArgs(), APIServer: apiServerArgs(), ControllerManager: controllerManagerArgs(s),
		Scheduler: schedulerArgs(), Proxy: {"--config=" + machine.EtcDir + "/kube-proxy.yaml"},
	}
	maps.Copy(args, storageArgs())
	programs := map[string]machine.Program{}
	for name, a := range args {
		programs[name] = machine.Program{Name: name, Path: path.Join(machine.BinDir, name), Args: a, Env: environments[name],
			Inputs: inputs}
	}
	return programs, nil
}

// environments of programs. A third of the time of an API server whose caches are full of objects goes into collecting
// garbage, and a development machine is short of processors rather than of memory.
var environments = map[string][]string{APIServer: {"GOGC=200"}}

func etcdArgs() []string {
	return []string{
		"--name=" + cluster.ControlPlane,
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=https://127.0.0.1:2379",
		"--advertise-client-urls=https://127.0.0.1:2379",
		// There is one member; its peer port is open to nobody.
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--cert-file=" + credential("etcd.crt"),
		"--key-file=" + credential("etcd.key"),
		"--client-cert-auth",
		"--trusted-ca-file=" + credential("ca.crt"),
		"--log-level=warn",
		// A development cluster may lose its last writes with the machine's
		// power; it gains much on slow disks.
		"--unsafe-no-fsync",
	}
}

func apiServerArgs() []string {
	return []string{
		"--etcd-servers=https://127.0.0.1:2379",
		"--etcd-cafile=" + credential("ca.crt"),
		"--etcd-certfile=" + credential("apiserver-etcd-client.crt"),
		"--etcd-keyfile=" + credential("apiserver-etcd-client.key"),
		"--advertise-address=" + network.ControlPlaneIP,
		fmt.Sprintf("--secure-port=%d", network.APIPort),
		"--tls-cert-file=" + credential("apiserver.crt"),
		"--tls-private-key-file=" + credential("apiserver.key"),
		"--client-ca-file=" + credential("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged",
		"--service-cluster-ip-range=" + network.ServiceRange,
		"--service-account-issuer=https://kubernetes.default.svc." + network.Domain,
		"--service-account-signing-key-file=" + credential("service-account.key"),
		"--service-account-key-file=" + credential("service-account.key.pub"),
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + credential("ca.crt"),
		"--kubelet-client-certificate=" + credential("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + credential("apiserver-kubelet-client.key"),
		"--requestheader-client-ca-file=" + credential("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + credential("front-proxy-client.crt"),
		"--proxy-client-key-file=" + credential("front-proxy-client.key"),
		// Aggregated APIs and webhooks are asked at their pods, so that they
		// do not depend on Service rules in this network namespace.
		"--enable-aggregator-routing",
		"--audit-policy-file=" + machine.EtcDir + "/audit-policy.yaml",
		"--audit-log-path=/var/log/audit/audit.log",
		"--audit-log-maxsize=100",
		"--audit-log-maxbackup=3",
	}
}

func controllerManagerArgs(s cluster.Settings) []string {
	return append(clientArgs(ControllerManager),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+credential("service-account.key"),
		"--root-ca-file="+credential("ca.crt"),
		"--cluster-signing-cert-file="+credential("ca.crt"),
		"--cluster-signing-key-file="+credential("ca.key"),
		"--allocate-node-cidrs=false",
		// Autoscalers act on what metrics-server has just measured, and take an increase back without minutes of delay.
		"--horizontal-pod-autoscaler-sync-period=5s",
		"--horizontal-pod-autoscaler-downscale-stabilization=15s",
		"--node-monitor-grace-period="+s.GracePeriod.String(),
		"--node-monitor-period="+s.StatusPeriod.String(),
	)
}

func schedulerArgs() []string { return clientArgs(Scheduler) }

// clientArgs are those that the controller manager and the scheduler share.
// There is one of each, so none has to elect a leader.
func clientArgs(name string) []string {
	config := machine.EtcDir + "/" + name + ".kubeconfig"
	return []string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--leader-elect=false", "--bind-address=127.0.0.1",
	}
}

// ProxyConfig renders kube-proxy's configuration. It stands for the named
// node: the control plane has none of its own and borrows the first one's.
func ProxyConfig(node string) []byte {
	return fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: %s/kube-proxy.kubeconfig
mode: nftables
hostnameOverride: %s
clusterCIDR: %s
conntrack:
  maxPerCore: 0
  min: 0
oomScoreAdj: 0
`, machine.EtcDir, node, network.PodRange)
}

// contents reads all files below a folder, in a fixed order.
func contents(dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, p)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list configuration in %q: %w", dir, err)
	}
	slices.Sort(paths)
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("cannot read configuration: %w", err)
		}
		all = append(all, string(data))
	}
	return all, nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("cannot copy credential: %w", err)
	}
	return cluster.WriteFile(to, data, 0o600)
}
