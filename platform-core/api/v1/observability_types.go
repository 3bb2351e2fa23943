// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/apimachinery/pkg/api/resource"

// Monitoring has Prometheus read the metrics of a component, by way of a PodMonitor of the Prometheus Operator.
type Monitoring struct {
	// enabled has the pods serve their metrics, and a PodMonitor made where the cluster has that kind. A change may
	// replace the pods, one after the other.
	// +required
	Enabled bool `json:"enabled"`
	// interval between two readings, for example 30s. Prometheus' own when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,4}(ms|s|m|h)$`
	Interval string `json:"interval,omitempty"`
	// labels of the PodMonitor, by which a Prometheus chooses what it reads.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
}

// On says whether metrics are wanted.
func (m *Monitoring) On() bool { return m != nil && m.Enabled }

// Logs says where the middleware's own access logs go.
type Logs struct {
	// volume of each pod that they are kept on. Without it they go to the standard output. A change of whether there is
	// one replaces the pods, one after the other.
	// +optional
	Volume *LogsVolume `json:"volume,omitempty"`
}

// LogsVolume is the volume that each pod keeps its access logs on.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="logs.volume.storageClassName is immutable"
type LogsVolume struct {
	// size of each volume, at least 16Mi. It can grow, never shrink. The oldest logs are dropped before it is full.
	// +required
	Size resource.Quantity `json:"size"`
	// storageClassName of the volumes; the cluster's default class when left out. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// On says whether the logs go to a volume.
func (l *Logs) On() bool { return l != nil && l.Volume != nil }
