// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/tuning"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

// settings are the flags of every operator.
type settings struct {
	namespace      string
	leaderElect    bool
	metricsAddr    string
	probeAddr      string
	pprofAddr      string
	agentImage     string
	imageRegistry  string
	clusterDomain  string
	installCRDs    bool
	workers        int
	qps            float32
	burst          int
	entityInterval time.Duration
	historyTTL     time.Duration
	historyLimit   int
	logLevel       string
	logFormat      string
	// gitOpsManagers are field managers whose fields Operations leave alone.
	gitOpsManagers []string
	kubeconfig     string
	// configMap is the name of the ConfigMap whose settings come before those of the flags.
	configMap string
	// watchNamespaces are the namespaces to serve; all when empty.
	watchNamespaces []string
	webhook         webhookSettings
	pods            podSettings
}

// bind declares the flags and their defaults.
func (s *settings) bind(flags *pflag.FlagSet, domain string) {
	s.bindCluster(flags, domain)
	flags.BoolVar(&s.leaderElect, "leader-elect", true,
		"let only one of several replicas act; off, a replica takes the lease over at once, and there must be one only")
	flags.StringVar(&s.metricsAddr, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	flags.StringVar(&s.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flags.StringVar(&s.pprofAddr, "pprof-bind-address", "0",
		"address of Go's profiles below /debug/pprof, which show what the operator works on; 0 for none")
	flags.StringVar(&s.agentImage, "agent-image", "", "image of the agents that run in every pod (required)")
	flags.StringVar(&s.imageRegistry, "image-registry", "",
		"registry to take all images of plugins from, in place of their own")
	flags.StringVar(&s.clusterDomain, "cluster-domain", "cluster.local", "DNS domain of the cluster")
	flags.BoolVar(&s.installCRDs, "install-crds", true,
		"apply the embedded CustomResourceDefinitions where the cluster has none or older ones; when off, wait for an "+
			"administrator to do it")
	flags.IntVar(&s.workers, "workers", queue.DefaultWorkers, "objects of each kind that are reconciled at a time")
	flags.Float32Var(&s.qps, "kube-api-qps", 500, "requests per second to the API server, of all kinds together")
	flags.IntVar(&s.burst, "kube-api-burst", 1000, "requests to the API server that may come at once")
	flags.DurationVar(&s.entityInterval, "entity-interval", 5*time.Minute,
		"how often the objects of Entities are compared with what the middleware has")
	flags.DurationVar(&s.historyTTL, "operation-history-ttl", 0,
		"how long records of Operations are kept whose Application says nothing of that; 0 for ever")
	flags.IntVar(&s.historyLimit, "operation-history-limit", -1,
		"how many records of an Application are kept that says nothing of that; -1 for all")
	flags.StringVar(&s.logLevel, "log-level", "info", "least severe log lines to write: debug, info, warn or error")
	flags.StringSliceVar(&s.gitOpsManagers, "gitops-managers", engine.GitOpsManagers(),
		"field managers whose fields Operations do not change unless they are forced to, separated by commas")
	flags.StringVar(&s.logFormat, "log-format", "json", "form of log lines: json or console")
	s.webhook.bind(flags)
	s.pods.bind(flags)
}

// bindCluster declares the flags that say where the operator is and what it serves.
func (s *settings) bindCluster(flags *pflag.FlagSet, domain string) {
	flags.StringVar(&s.namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the operator, where its plugins and its lease are (default: environment variable POD_NAMESPACE)")
	flags.StringSliceVar(&s.watchNamespaces, "watch-namespaces", nil,
		"namespaces to serve, separated by commas (default: all)")
	flags.StringVar(&s.configMap, "settings-configmap", domain+"-operator-settings",
		"ConfigMap in the operator's namespace with settings that take effect at run time, before those of the flags; it "+
			"may be absent")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the address and credentials of the cluster (default: "+
		"those of the pod, else the environment variable KUBECONFIG)")
}

// settingsKey names the ConfigMap of the settings.
func (s *settings) settingsKey() types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: s.configMap}
}

// namespaces returns what to list: each namespace that is served, or all at once.
func (s *settings) namespaces() []string {
	if len(s.watchNamespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return s.watchNamespaces
}

// check refuses values that cannot work, before anything is started.
func (s *settings) check() error {
	switch {
	case s.namespace == "":
		return fmt.Errorf("cannot tell the operator's namespace: set --namespace or the environment variable POD_NAMESPACE")
	case s.agentImage == "":
		return fmt.Errorf("cannot make pods without an image of the agents: set --agent-image")
	case s.clusterDomain == "":
		return fmt.Errorf("cannot name services without a DNS domain: --cluster-domain must not be empty")
	case s.workers < 1 || s.workers > queue.MostWorkers:
		return fmt.Errorf("cannot work with %d workers: --workers must be from 1 to %d", s.workers, queue.MostWorkers)
	case s.qps <= 0 || s.burst < 1:
		return fmt.Errorf("cannot limit requests to %v per second, %d at once: --kube-api-qps and --kube-api-burst must be "+
			"above 0", s.qps, s.burst)
	}
	for _, namespace := range s.watchNamespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("cannot watch namespace %q: --watch-namespaces takes names of namespaces, separated by commas",
				namespace)
		}
	}
	if _, err := s.tuned(); err != nil {
		return err
	}
	if err := s.webhook.check(); err != nil {
		return err
	}
	if _, err := s.pods.settings(); err != nil {
		return err
	}
	_, err := s.logger(uberzap.NewAtomicLevel())
	return err
}

// tuned returns the settings of the flags that a ConfigMap can change.
func (s *settings) tuned() (tuning.Values, error) {
	level, err := tuning.ParseLevel(s.logLevel)
	if err != nil {
		return tuning.Values{}, fmt.Errorf("cannot log at level %q: --log-level %w", s.logLevel, err)
	}
	return tuning.Values{
		Workers: s.workers, QPS: float64(s.qps), Burst: s.burst,
		ImageRegistry: s.imageRegistry, ClusterDomain: s.clusterDomain, LogLevel: level,
		GitOpsManagers: strings.Join(s.gitOpsManagers, ","), EntityInterval: s.entityInterval,
		HistoryTTL: s.historyTTL, HistoryLimit: s.historyLimit,
	}, nil
}

// logger returns the logger that the flags ask for; its level can be changed.
func (s *settings) logger(level uberzap.AtomicLevel) (logr.Logger, error) {
	options := []zap.Opts{zap.Level(level), zap.WriteTo(os.Stdout)}
	switch s.logFormat {
	case "json":
		options = append(options, zap.UseDevMode(false))
	case "console":
		options = append(options, zap.ConsoleEncoder(
			func(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.ISO8601TimeEncoder }))
	default:
		return logr.Logger{}, fmt.Errorf("cannot log as %q: --log-format must be json or console", s.logFormat)
	}
	return zap.New(options...), nil
}

// restConfig returns how to reach the API server, within the limits of the flags.
func (s *settings) restConfig(o Options) (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if s.kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	} else {
		cfg, err = config.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the cluster (set --kubeconfig outside of one): %w", err)
	}
	cfg.QPS, cfg.Burst = s.qps, s.burst
	cfg.UserAgent = o.Domain + "-operator/" + o.Version
	return cfg, nil
}
