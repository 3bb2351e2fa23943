// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// Probe of a component: a command of its image, or a request that the status agent makes.
type Probe struct {
	plan.Probe `json:",inline"`
	// HTTP in place of the command; nil for that.
	HTTP *HTTPProbe `json:"http,omitempty"`
}

// HTTPProbe is a GET for a port of the component.
type HTTPProbe struct {
	// Port of the component, by name.
	Port string `json:"port"`
	// Path of the request, with its query.
	Path string `json:"path"`
	// TLS says that the port speaks TLS where the instance does.
	TLS bool `json:"tls,omitempty"`
}

// planned is the probe of an instance of a component.
func (p *Probe) planned(c *Component, tls bool) plan.Probe {
	planned := p.Probe
	if p.HTTP != nil {
		i := slices.IndexFunc(c.Ports, func(port Port) bool { return port.Name == p.HTTP.Port })
		planned.HTTP = &plan.HTTPProbe{Port: c.Ports[i].Port, Path: p.HTTP.Path, TLS: p.HTTP.TLS && tls}
	}
	return planned
}

// checkProbeMeans: a probe is either a command, with what only that has, or a request.
func (l *loader) checkProbeMeans(path document.Path, c *Component) {
	probe := &c.Probe
	if (probe.HTTP == nil) == (len(probe.Command) == 0) {
		l.wrong(path, "must have exactly one of command and http")
	}
	if probe.HTTP == nil {
		return
	}
	if len(probe.Env) > 0 {
		l.wrong(path.With("env"), "is for a command: a request has none, take it out")
	}
	if len(probe.Reserved) > 0 {
		l.wrong(path.With("reserved"), "is for a command: a request has no arguments, take it out")
	}
	at := path.With("http")
	l.oneOf(at.With("port"), probe.HTTP.Port, "port", portNames(c))
	if c.accessOf(probe.HTTP.Port) == PortMetrics {
		l.wrong(at.With("port"), "names the port %q, whose access is Metrics: it is there only where metrics are wanted", probe.HTTP.Port)
	}
	if probe.HTTP.TLS && c.TLS == nil {
		l.wrong(at.With("tls"), "is true, and the component does not say that it can speak TLS: add tls")
	}
}
