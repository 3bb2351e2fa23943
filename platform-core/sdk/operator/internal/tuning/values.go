// SPDX-License-Identifier: Apache-2.0

// Package tuning holds the settings of an operator that take effect while it runs. They
// are in a ConfigMap, which is watched by name; what it does not set is as the flags say.
//
// A ConfigMap that cannot work is refused as a whole: the settings stay as they were, and an
// event on the ConfigMap, a metric and a log line tell why.
package tuning

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/sdk/queue"
)

// Keys of the ConfigMap. They are named like the values of the chart.
const (
	KeyWorkers        = "workers"
	KeyQPS            = "kubeApi.qps"
	KeyBurst          = "kubeApi.burst"
	KeyImageRegistry  = "imageRegistry"
	KeyClusterDomain  = "clusterDomain"
	KeyLogLevel       = "logLevel"
	KeyGitOpsManagers = "gitOpsManagers"
	// KeyEntityInterval is how often entities are looked at.
	KeyEntityInterval = "entityInterval"
	// KeyHistoryTTL and KeyHistoryLimit say how long records of Operations are kept; for ever, and all, when empty.
	KeyHistoryTTL   = "operationHistory.ttl"
	KeyHistoryLimit = "operationHistory.limit"
	// KeyForce is for the chart's hook before an uninstall; the operator itself does not look at it.
	KeyForce = "uninstall.force"
)

// Values are settings that work.
type Values struct {
	// Workers is how many objects of each kind are reconciled at a time.
	Workers int
	// QPS and Burst limit the requests to the API server.
	QPS   float64
	Burst int
	// ImageRegistry stands in front of the plugins' images, when not empty.
	ImageRegistry string
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// EntityInterval is how often the objects of Entities are compared with what the middleware has.
	EntityInterval time.Duration
	// LogLevel is the least severe level that is written.
	LogLevel zapcore.Level
	// GitOpsManagers are field managers, separated by commas, whose fields Operations leave alone; none when empty.
	GitOpsManagers string
	// HistoryTTL is how long the records of Operations are kept whose Application says nothing of that; for ever when 0.
	HistoryTTL time.Duration
	// HistoryLimit is how many of an Application are kept then; all when below 0.
	HistoryLimit int
}

// mostHistory is the greatest HistoryLimit, as of an Application.
const mostHistory = 10000

// Bounds of EntityInterval.
const (
	minEntityInterval = 10 * time.Second
	maxEntityInterval = 24 * time.Hour
)

// registry is what an image reference may begin with.
var registry = regexp.MustCompile(`^([a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?)?$`)

// managers is a list of names of field managers.
var managers = regexp.MustCompile(`^([^\s,]{1,128}(,[^\s,]{1,128})*)?$`)

// readers set one value each from its text.
var readers = map[string]func(v *Values, text string) error{
	KeyWorkers: func(v *Values, text string) (err error) {
		if v.Workers, err = strconv.Atoi(text); err != nil || v.Workers < 1 || v.Workers > queue.MostWorkers {
			return fmt.Errorf("must be a whole number from 1 to %d", queue.MostWorkers)
		}
		return nil
	},
	KeyQPS: func(v *Values, text string) (err error) {
		// NaN is above nothing.
		if v.QPS, err = strconv.ParseFloat(text, 64); err != nil || !(v.QPS > 0 && v.QPS <= 1e6) {
			return errors.New("must be a number above 0, at most 1000000")
		}
		return nil
	},
	KeyBurst: func(v *Values, text string) (err error) {
		if v.Burst, err = strconv.Atoi(text); err != nil || v.Burst < 1 || v.Burst > 1e6 {
			return errors.New("must be a whole number from 1 to 1000000")
		}
		return nil
	},
	KeyImageRegistry: func(v *Values, text string) error {
		if v.ImageRegistry = text; !registry.MatchString(text) {
			return errors.New("must be a registry with an optional path, such as registry.example.com/mirror, or empty")
		}
		return nil
	},
	KeyClusterDomain: func(v *Values, text string) error {
		if v.ClusterDomain = text; len(validation.IsDNS1123Subdomain(text)) > 0 {
			return errors.New("must be a DNS domain such as cluster.local")
		}
		return nil
	},
	KeyEntityInterval: func(v *Values, text string) (err error) {
		if v.EntityInterval, err = time.ParseDuration(text); err != nil || v.EntityInterval < minEntityInterval ||
			v.EntityInterval > maxEntityInterval {
			return errors.New("must be a duration from 10s to 24h, such as 5m")
		}
		return nil
	},
	KeyLogLevel: func(v *Values, text string) (err error) {
		v.LogLevel, err = ParseLevel(text)
		return err
	},
	KeyGitOpsManagers: func(v *Values, text string) error {
		if v.GitOpsManagers = text; !managers.MatchString(text) {
			return errors.New("must be names of field managers, separated by commas, or empty")
		}
		return nil
	},
	KeyHistoryTTL: func(v *Values, text string) (err error) {
		if v.HistoryTTL = 0; text == "" {
			return nil
		}
		if v.HistoryTTL, err = time.ParseDuration(text); err != nil || v.HistoryTTL <= 0 {
			return errors.New("must be a duration above 0 such as 720h, or empty for ever")
		}
		return nil
	},
	KeyHistoryLimit: func(v *Values, text string) (err error) {
		if v.HistoryLimit = -1; text == "" {
			return nil
		}
		if v.HistoryLimit, err = strconv.Atoi(text); err != nil || v.HistoryLimit < 0 || v.HistoryLimit > mostHistory {
			return fmt.Errorf("must be a whole number from 0 to %d, or empty for all", mostHistory)
		}
		return nil
	},
	KeyForce: func(_ *Values, text string) error {
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		return nil
	},
}

// ParseLevel returns a level of the log by its name.
func ParseLevel(text string) (zapcore.Level, error) {
	level, err := zapcore.ParseLevel(text)
	if err != nil || level < zapcore.DebugLevel || level > zapcore.ErrorLevel {
		return zapcore.InfoLevel, errors.New("must be debug, info, warn or error")
	}
	return level, nil
}

// Parse returns the defaults with what the data of a ConfigMap sets. The error names every key that cannot work.
func Parse(data map[string]string, defaults Values) (Values, error) {
	v := defaults
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		read, known := readers[key]
		if !known {
			problems = append(problems, fmt.Errorf("%s is not known: known are %s", key,
				strings.Join(slices.Sorted(maps.Keys(readers)), ", ")))
			continue
		}
		if err := read(&v, data[key]); err != nil {
			problems = append(problems, fmt.Errorf("%s is %q and %w", key, data[key], err))
		}
	}
	if len(problems) == 0 && float64(v.Burst) < v.QPS {
		problems = append(problems, fmt.Errorf("%s is %d and cannot be below %s, which is %v", KeyBurst, v.Burst, KeyQPS,
			v.QPS))
	}
	if len(problems) > 0 {
		return defaults, errors.Join(problems...)
	}
	return v, nil
}
