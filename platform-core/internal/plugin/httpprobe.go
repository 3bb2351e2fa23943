// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// plannedProbe is the probe of an instance of a component.
func plannedProbe(p *schema.Probe, c *schema.Component, tls bool) (plan.Probe, error) {
	planned := p.Probe
	if p.HTTP == nil {
		return planned, nil
	}
	i := slices.IndexFunc(c.Ports, func(port schema.Port) bool { return port.Name == p.HTTP.Port })
	planned.HTTP = &plan.HTTPProbe{Port: c.Ports[i].Port, Path: p.HTTP.Path, TLS: p.HTTP.TLS && tls}
	if !strings.HasPrefix(p.HTTP.Path, "/") || strings.ContainsAny(p.HTTP.Path, " \t\r\n#") {
		return planned, fmt.Errorf("probe.http.path is %q: it must be the path of a URL, such as /health", p.HTTP.Path)
	}
	var errs [2]error
	planned.HTTP.IntervalSeconds, errs[0] = secondsOf("interval", p.HTTP.Interval)
	planned.HTTP.TimeoutSeconds, errs[1] = secondsOf("timeout", p.HTTP.Timeout)
	return planned, errors.Join(errs[:]...)
}

// secondsOf are the seconds of a field of a request; 0 where it has none.
func secondsOf(field, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d%time.Second != 0 {
		return 0, fmt.Errorf("probe.http.%s is %q: it must be whole seconds, such as 10s", field, text)
	}
	return int(d / time.Second), nil
}

// checkProbeMeans: a probe is a command, with what only that has, or a request, or both.
func (l *loader) checkProbeMeans(path document.Path, c *schema.Component) {
	probe := &c.Probe
	if probe.HTTP == nil {
		if len(probe.Command) == 0 {
			l.wrong(path, "must have a command, or http, or both")
		}
		return
	}
	if len(probe.Env) > 0 && len(probe.Command) == 0 {
		l.wrong(path.With("env"), "is for a command: a request has none, take it out")
	}
	if len(probe.Reserved) > 0 {
		l.wrong(path.With("reserved"), "is for a command: a request has no arguments, take it out")
	}
	at := path.With("http")
	l.oneOf(at.With("port"), probe.HTTP.Port, "port", portNames(c))
	if c.AccessOf(probe.HTTP.Port) == schema.PortMetrics {
		l.wrong(at.With("port"), "names the port %q, whose access is Metrics: it is there only where metrics are wanted",
			probe.HTTP.Port)
	}
	for field, text := range map[string]string{"interval": probe.HTTP.Interval, "timeout": probe.HTTP.Timeout} {
		if _, err := secondsOf(field, text); err != nil && !placeholder.In(text) {
			l.wrong(at.With(field), "is %q: it must be whole seconds, such as 10s", text)
		}
	}
	if probe.HTTP.TLS && c.TLS == nil {
		l.wrong(at.With("tls"), "is true, and the component does not say that it can speak TLS: add tls")
	}
}
