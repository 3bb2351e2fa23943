// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// counterSuffix is what names of counters end with, and others do not.
const counterSuffix = "_total"

// planMetrics adds what the ops agent is to ask, where metrics are wanted.
func (b *Bundle) planMetrics(p *plan.Plan, c *schema.Component) {
	p.Metrics = &plan.Metrics{Prefix: strings.ReplaceAll(b.Manifest.Name, "-", "_"), Queries: c.Monitoring.Queries}
}

// checkQueries: who answers, and that no two of the series can be the same.
func (l *loader) checkQueries(at document.Path, c *schema.Component) {
	path, m := at.With("monitoring").With("queries"), c.Monitoring
	if len(m.Queries) == 0 {
		return
	}
	if m.Exporter != "" {
		l.wrong(path, "and exporter cannot both be there: one of them serves the port")
	}
	if c.Driver == nil {
		l.wrong(path, "needs a driver of component %q: add it there", c.Name)
	}
	l.checkMetricsPort(at, c, "the ops agent's")
	unique(l, path, m.Queries, func(q plan.MetricsQuery) string { return q.Name })
	taken := map[string]string{plan.MetricQuerySuccess: "the agent itself", plan.MetricQueryDuration: "the agent itself",
		plan.MetricQueryDropped: "the agent itself"}
	for i := range m.Queries {
		l.checkQuery(path.Index(i), c, &m.Queries[i], taken)
	}
}

func (l *loader) checkQuery(path document.Path, c *schema.Component, q *plan.MetricsQuery, taken map[string]string) {
	unique(l, path.With("labels"), q.Labels, func(label string) string { return label })
	if c.Driver != nil && !plan.DriverFor(c.Driver.Protocol).Databases && q.Database != "" {
		l.wrong(path.With("database"), "is for a middleware with databases by name, and this one has none: take it out")
	}
	for i, metric := range q.Metrics {
		at := path.With("metrics").Index(i)
		if who, known := taken[metric.Name]; known {
			l.wrong(at.With("name"), "is %q, which %s has: names must differ", metric.Name, who)
		}
		taken[metric.Name] = "query " + q.Name
		if slices.Contains(q.Labels, cmp.Or(metric.Column, metric.Name)) {
			l.wrong(at, "is of a column that is a label, too: a column is one of them")
		}
		if counter := metric.Type == plan.MetricCounter; counter != strings.HasSuffix(metric.Name, counterSuffix) {
			l.wrong(at.With("name"), "is %q and of the type %s: names of counters end with %s, and those of gauges do not",
				metric.Name, metric.Type, counterSuffix)
		}
	}
}
