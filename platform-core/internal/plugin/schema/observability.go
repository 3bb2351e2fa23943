// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// DefaultMetricsPath is where metrics are when the plugin does not say.
const DefaultMetricsPath = "/metrics"

// Monitoring says where the metrics of a component are.
type Monitoring struct {
	// Port of the component that serves them, by name: the process's own, or, with Exporter, that container's.
	Port string `json:"port"`
	// Path over HTTP. Default DefaultMetricsPath.
	Path string `json:"path,omitempty"`
	// TLS says that the port speaks TLS, with the certificate of the component, where the instance does.
	TLS bool `json:"tls,omitempty"`
	// Credential of the component that whoever reads the metrics shows as a bearer token, where the instance has it.
	Credential string `json:"credential,omitempty"`
	// Exporter is a container of the pod template that is there only where metrics are wanted.
	Exporter string `json:"exporter,omitempty"`
	// Env is added to the exporter's environment. Values may hold placeholders.
	Env []plan.EnvVar `json:"env,omitempty"`
	// Queries have an ops agent serve the metrics, which asks the component's driver.
	Queries []plan.MetricsQuery `json:"queries,omitempty"`
	// Metrics are those that autoscaling can go by.
	Metrics []PodMetric `json:"metrics,omitempty"`
}

// PodMetric is a metric of each pod, by the name that the API custom.metrics.k8s.io has for it.
type PodMetric struct {
	// Name of the metric.
	Name string `json:"name"`
	// Help says what it counts.
	Help string `json:"help"`
}

// MetricNames are those that autoscaling can go by.
func (m *Monitoring) MetricNames() []string {
	if m == nil {
		return nil
	}
	names := make([]string, 0, len(m.Metrics))
	for _, metric := range m.Metrics {
		names = append(names, metric.Name)
	}
	return names
}

// Beside says that another container than that of the process serves the metrics.
func (m *Monitoring) Beside() bool { return m != nil && (m.Exporter != "" || len(m.Queries) > 0) }

// PathOrDefault is where the metrics are.
func (m *Monitoring) PathOrDefault() string { return cmp.Or(m.Path, DefaultMetricsPath) }

// Logs says where a component writes its access logs when these go to a volume.
type Logs struct {
	// Path that the volume is mounted at.
	Path string `json:"path"`
	// Files right below Path that the process writes, by name.
	Files []string `json:"files"`
	// Signal has the process open its files anew after they were renamed.
	Signal string `json:"signal"`
}

// PortsFor returns the ports of a component, with that of its metrics only where these are wanted.
func (c *Component) PortsFor(wanted placeholder.Component) []Port {
	return slices.DeleteFunc(slices.Clone(c.Ports),
		func(p Port) bool { return p.Access == PortMetrics && !wanted.Monitoring })
}
