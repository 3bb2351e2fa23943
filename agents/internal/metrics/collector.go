// SPDX-License-Identifier: Apache-2.0

// Package metrics tells a Prometheus what the middleware answers to the queries of the plan.
//
// Nothing is asked until somebody reads the metrics, and no query again within its interval, however many read. A query
// that fails, hangs or gives too much costs its own metrics, and is told as one.
package metrics

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/protocol"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	// MaxSeries of one query; what is beyond that is dropped, and counted.
	MaxSeries = 500
	// maxLabel is the longest value of a label, in bytes.
	maxLabel = 128
)

// Collector is a prometheus.Collector. It is safe for concurrent use.
type Collector struct {
	dirs    planfile.Dirs
	drivers *protocol.Drivers
	log     *slog.Logger

	mu sync.Mutex
	// answers by the name of the query.
	answers map[string]*answer
}

// answer is what came of a query.
type answer struct {
	query    plan.MetricsQuery
	at       time.Time
	duration time.Duration
	series   []prometheus.Metric
	dropped  int
	err      error
}

// New returns a collector for what the plan asks.
func New(dirs planfile.Dirs, drivers *protocol.Drivers, log *slog.Logger) *Collector {
	return &Collector{dirs: dirs, drivers: drivers, log: log, answers: map[string]*answer{}}
}

// Describe implements prometheus.Collector. Another plan may have other metrics, so none is promised.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.dirs.Current()
	if err != nil || p.Metrics == nil {
		metrics <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err),
			fmt.Errorf("the plan of this pod asks for no metrics: %w", err))
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), plan.MetricsScrapeSeconds*time.Second,
		fmt.Errorf("all queries together took more than %d s", plan.MetricsScrapeSeconds))
	defer cancel()
	self := newSelf(p.Metrics.Prefix)
	kept := map[string]*answer{}
	for _, query := range p.Metrics.Queries {
		a := c.answers[query.Name]
		if a == nil || !same(a.query, query) || time.Since(a.at) >= a.keep() {
			a = c.ask(ctx, p, query)
		}
		kept[query.Name] = a
		for _, metric := range a.series {
			metrics <- metric
		}
		self.tell(metrics, a)
	}
	c.answers = kept
}

func same(a, b plan.MetricsQuery) bool {
	return a.Statement == b.Statement && a.Database == b.Database && slices.Equal(a.Labels, b.Labels) &&
		slices.Equal(a.Metrics, b.Metrics)
}

// keep is how long an answer is told again. What failed is asked again soon, though not by each who reads: it may have
// been too much to ask.
func (a *answer) keep() time.Duration {
	interval := planfile.Seconds(a.query.IntervalSeconds, plan.DefaultMetricsIntervalSeconds)
	if a.err != nil {
		return min(interval, plan.DefaultMetricsIntervalSeconds*time.Second)
	}
	return interval
}

// ask runs a query and reads its answer.
func (c *Collector) ask(ctx context.Context, p *plan.Plan, query plan.MetricsQuery) *answer {
	timeout := planfile.Seconds(query.TimeoutSeconds, plan.DefaultMetricsTimeoutSeconds)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("more than %v", timeout))
	defer cancel()
	begin := time.Now()
	table, err := c.drivers.Query(ctx, p.Driver,
		driver.Statement{Text: query.Statement, Database: query.Database, Access: driver.ReadOnly})
	a := &answer{query: query, at: begin, duration: time.Since(begin), err: err}
	if err == nil {
		a.err = a.read(p.Metrics.Prefix, table)
	}
	if a.err != nil {
		a.series = nil
		if before := c.answers[query.Name]; before == nil || before.err == nil {
			c.log.Warn("a query of the metrics fails", "query", query.Name, "error", a.err.Error())
		}
	}
	return a
}

// column is where the values of a metric or a label are.
func column(table driver.Table, name string) (int, error) {
	i := slices.Index(table.Columns, name)
	if i < 0 {
		return 0, fmt.Errorf("the answer has no column %q", name)
	}
	return i, nil
}

// read makes series of the rows.
func (a *answer) read(prefix string, table driver.Table) error {
	labels := make([]int, len(a.query.Labels))
	var err error
	for i, label := range a.query.Labels {
		if labels[i], err = column(table, label); err != nil {
			return err
		}
	}
	for _, metric := range a.query.Metrics {
		at, err := column(table, cmp.Or(metric.Column, metric.Name))
		if err != nil {
			return err
		}
		described := prometheus.NewDesc(prefix+"_"+metric.Name, metric.Help, a.query.Labels, nil)
		seen := map[string]bool{}
		for _, row := range table.Rows {
			if row[at] == nil {
				continue
			}
			value, err := numberOf(*row[at])
			if err != nil {
				return fmt.Errorf("column %q: %w", table.Columns[at], err)
			}
			values := make([]string, len(labels))
			for i, label := range labels {
				values[i] = labelOf(row[label])
			}
			// What cannot be told apart is told once.
			key := strings.Join(values, "\x00")
			if seen[key] || len(a.series) >= MaxSeries {
				a.dropped++
				continue
			}
			seen[key] = true
			a.series = append(a.series, prometheus.MustNewConstMetric(described, typeOf(metric.Type), value, values...))
		}
	}
	return nil
}

func typeOf(t plan.MetricType) prometheus.ValueType {
	if t == plan.MetricCounter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// numberOf reads a number; true and false are 1 and 0.
func numberOf(text string) (float64, error) {
	switch text {
	case "t", "true":
		return 1, nil
	case "f", "false":
		return 0, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no number", text)
	}
	return value, nil
}

func labelOf(text *string) string {
	if text == nil {
		return ""
	}
	value := *text
	if len(value) > maxLabel {
		value = value[:maxLabel]
	}
	return strings.ToValidUTF8(value, "?")
}

// self are the metrics of the queries themselves.
type self struct{ success, duration, dropped *prometheus.Desc }

func newSelf(prefix string) self {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+"_"+name, help, []string{plan.MetricsLabelQuery}, nil)
	}
	return self{
		success:  desc(plan.MetricQuerySuccess, "Whether the query was answered: 1, or 0 where its metrics are missing."),
		duration: desc(plan.MetricQueryDuration, "Time that the query took when it was last asked."),
		dropped: desc(plan.MetricQueryDropped,
			"Series of the query that are not told, since there are too many or they are not apart."),
	}
}

func (s self) tell(metrics chan<- prometheus.Metric, a *answer) {
	success := 1.0
	if a.err != nil {
		success = 0
	}
	gauge := func(d *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, a.query.Name)
	}
	gauge(s.success, success)
	gauge(s.duration, a.duration.Seconds())
	gauge(s.dropped, float64(a.dropped))
}
