// SPDX-License-Identifier: Apache-2.0

package plan

// Defaults and bounds of MetricsQuery.
const (
	DefaultMetricsIntervalSeconds = 15
	DefaultMetricsTimeoutSeconds  = 5
	// MetricsScrapeSeconds is what all queries of one scrape together may take: a Prometheus waits for ten by default.
	MetricsScrapeSeconds = 8
)

// Metrics has the ops agent answer a Prometheus with what the driver says to queries.
type Metrics struct {
	// Prefix of all names, without the underscore that follows it: the plugin's.
	Prefix string `json:"prefix"`
	// Queries by which the values are got.
	Queries []MetricsQuery `json:"queries"`
}

// MetricsQuery is a statement that only reads. It is asked when somebody reads the metrics, and not again within its
// interval.
type MetricsQuery struct {
	// Name of the query, the value of the label "query" in what is told of queries themselves.
	Name string `json:"name"`
	// Statement in the words of the middleware's protocol; fixed text.
	Statement string `json:"statement"`
	// Database that it is for; the middleware's own when empty.
	Database string `json:"database,omitempty"`
	// IntervalSeconds during which an answer is told again. Default DefaultMetricsIntervalSeconds.
	IntervalSeconds int `json:"intervalSeconds,omitempty"`
	// TimeoutSeconds after which the query has failed. Default DefaultMetricsTimeoutSeconds.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// Labels are columns whose texts tell one row from another.
	Labels []string `json:"labels,omitempty"`
	// Metrics are the columns with numbers. A row that has none is told without that metric.
	Metrics []Metric `json:"metrics"`
}

// Metric is a column with numbers.
type Metric struct {
	// Name after the prefix, for example connections.
	Name string `json:"name"`
	// Column of the answer. Default Name.
	Column string `json:"column,omitempty"`
	// Type: gauge or counter.
	Type MetricType `json:"type"`
	// Help in one line.
	Help string `json:"help"`
}

// MetricType says how a metric moves.
type MetricType string

// Values of MetricType.
const (
	MetricGauge   MetricType = "gauge"
	MetricCounter MetricType = "counter"
)

// Metrics that the agent tells of each query itself, after the prefix. No plugin may take their names.
const (
	MetricQuerySuccess  = "query_success"
	MetricQueryDuration = "query_duration_seconds"
	MetricQueryDropped  = "query_dropped_series"
)

// MetricsLabelQuery is their label.
const MetricsLabelQuery = "query"
