// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Probe of a component: a command of its image, or a request that the status agent makes, or a command that has to
// succeed once for each process and a request from then on.
type Probe struct {
	plan.Probe `json:",inline"`
	// HTTP in place of the command, or after it; nil for the command alone.
	HTTP *HTTPProbe `json:"http,omitempty"`
}

// HTTPProbe is a GET for a port of the component.
type HTTPProbe struct {
	// Port of the component, by name.
	Port string `json:"port"`
	// Path of the request, with its query. It may hold placeholders.
	Path string `json:"path"`
	// Interval between requests while they succeed, such as 10s, in whole seconds; it may be a placeholder. That of the
	// probe when empty or 0s.
	Interval string `json:"interval,omitempty"`
	// Timeout of a request, likewise.
	Timeout string `json:"timeout,omitempty"`
	// TLS says that the port speaks TLS where the instance does.
	TLS bool `json:"tls,omitempty"`
}
