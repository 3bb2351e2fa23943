// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane

import (
	"encoding/json"
	"fmt"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"github.com/zeroinfra/hack/devcluster/internal/network"
)

// Snapshots is the name of the add-on that makes snapshots.
const Snapshots = "snapshots"

// Names of the programs that make volumes and snapshots, in the order in which
// they start: the driver's controller part, and those that call it.
const (
	CSIDriver          = "csi-driver"
	CSIProvisioner     = "csi-provisioner"
	CSIResizer         = "csi-resizer"
	CSISnapshotter     = "csi-snapshotter"
	SnapshotController = "snapshot-controller"
)

// StorageUser is the user as which they ask the API server.
const StorageUser = "devcluster:csi"

// CSIName is the CSI driver's name in Kubernetes.
const CSIName = "csi.devcluster.local"

// csiPeer is the name by which parts of the CSI driver know each other.
const csiPeer = "devcluster:csi-peer"

// CSIPort is where a node's part of the CSI driver listens.
const CSIPort = 9810

// csiNodes is the file, inside the control plane's machine, from which the
// driver learns where nodes are. It is read at every call.
const csiNodes = "/var/lib/csi/nodes.json"

// Storage lists the programs that make volumes.
func Storage() []string { return []string{CSIDriver, CSIProvisioner, CSIResizer} }

// SnapshotPrograms lists the programs that make snapshots.
func SnapshotPrograms() []string { return []string{CSISnapshotter, SnapshotController} }

// storageArgs are the arguments of those programs. There is one of each, so
// none has to elect a leader. Copies of large volumes take their time.
func storageArgs() map[string][]string {
	const socket = "/run/csi/csi.sock"
	client := []string{"--kubeconfig=" + machine.EtcDir + "/csi.kubeconfig", "--kube-api-qps=50", "--kube-api-burst=100"}
	caller := append([]string{"--csi-address=" + socket, "--timeout=5m", "--retry-interval-start=200ms",
		"--retry-interval-max=10s"}, client...)
	with := func(more ...string) []string { return append(more, caller...) }
	return map[string][]string{
		CSIDriver: {
			"controller", "--socket=" + socket, "--nodes=" + csiNodes, "--credentials=" + machine.EtcDir + "/csi",
		},
		CSIProvisioner:     with("--strict-topology"),
		CSIResizer:         with("--handle-volume-inuse-error=false"),
		CSISnapshotter:     with(),
		SnapshotController: append([]string{"--retry-interval-start=200ms", "--retry-interval-max=10s"}, client...),
	}
}

// WriteNodes tells the CSI driver on the control plane's machine where nodes
// are. They may become more while it runs.
func WriteNodes(cp *machine.Machine, s cluster.Settings) error {
	addresses := map[string]string{}
	for i, name := range s.NodeNames() {
		addresses[name] = CSIAddress(i + 1)
	}
	data, err := json.Marshal(addresses)
	if err != nil {
		return err
	}
	return cluster.WriteFile(cp.Path(csiNodes), data, 0o600)
}

// CSIAddress is where the CSI driver of the i-th node listens.
func CSIAddress(i int) string { return fmt.Sprintf("%s:%d", network.NodeIP(i), CSIPort) }
