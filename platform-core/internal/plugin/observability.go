// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// RenderExporterEnv fills in the environment that a component's exporter has beside that of its pod template.
// References to user names, which are no secrets, are replaced by their text.
func (b *Bundle) RenderExporterEnv(component string, v placeholder.Values) ([]plan.EnvVar, error) {
	index := slices.IndexFunc(b.Components.Components, func(c schema.Component) bool { return c.Name == component })
	if index < 0 {
		return nil, fmt.Errorf("cannot render the exporter of component %q: plugin %q has no such component", component,
			b.Manifest.Name)
	}
	path := componentPath(index, "monitoring", "env")
	if b.plans.at(path) == nil {
		return nil, nil
	}
	value, err := b.plans.evaluate(path, func(_ document.Path, t *placeholder.Template) (any, error) { return t.Eval(v) })
	if err != nil {
		return nil, err
	}
	var env []plan.EnvVar
	if err := document.DecodeValue(value, &env); err != nil {
		return nil, fmt.Errorf("cannot render the exporter of component %q: %w", component, err)
	}
	for i := range env {
		if name, ok := b.username(env[i].Secret); ok {
			env[i].Value, env[i].Secret = name, nil
		}
	}
	return env, nil
}

// checkMonitoring: who serves the metrics, and on which port.
func (l *loader) checkMonitoring(at document.Path, c *schema.Component) {
	m, path := c.Monitoring, at.With("monitoring")
	for i, port := range c.Ports {
		if port.Access == schema.PortMetrics && (m == nil || m.Port != port.Name) {
			l.wrong(at.With("ports").Index(i), "has the access Metrics, and monitoring.port does not name it: name it there, "+
				"or give it another access")
		}
	}
	if m == nil {
		return
	}
	l.oneOf(path.With("port"), m.Port, "port", portNames(c))
	l.checkEnv(path.With("env"), c, m.Env)
	if m.TLS && c.TLS == nil {
		l.wrong(path.With("tls"), "is for a component that can speak TLS, and this one does not declare tls: take it out")
	}
	if m.Credential != "" {
		l.oneOf(path.With("credential"), m.Credential, "credential of this component", slices.Clone(c.Credentials))
	}
	l.checkQueries(at, c)
	unique(l, path.With("metrics"), m.Metrics, func(p schema.PodMetric) string { return p.Name })
	if m.Exporter == "" {
		if len(m.Env) > 0 {
			l.wrong(path.With("env"), "is for an exporter: name its container in monitoring.exporter, or use process.env")
		}
		return
	}
	if m.Exporter == c.Container {
		l.wrong(path.With("exporter"), "is the container of the process: leave exporter out, and the process serves its "+
			"metrics itself")
	}
	l.checkMetricsPort(at, c, "the exporter's")
}

// checkMetricsPort: a port of another container than that of the process is there only with it.
func (l *loader) checkMetricsPort(at document.Path, c *schema.Component, whose string) {
	i := slices.IndexFunc(c.Ports, func(p schema.Port) bool { return p.Name == c.Monitoring.Port })
	if i >= 0 && c.Ports[i].Access != schema.PortMetrics {
		l.wrong(at.With("ports").Index(i), "is %s, which is there only where metrics are wanted: its access must be Metrics",
			whose)
	}
}

// checkLogs: the volume is the engine's to add.
func (l *loader) checkLogs(at document.Path, c *schema.Component) {
	if c.Logs == nil {
		return
	}
	unique(l, at.With("logs").With("files"), c.Logs.Files, func(name string) string { return name })
	for i, v := range c.Volumes {
		if v.Name == podtemplate.LogsVolume {
			l.wrong(at.With("volumes").Index(i).With("name"),
				"is %q, which is the volume that the engine adds for access logs: names must differ",
				podtemplate.LogsVolume)
		}
	}
}
