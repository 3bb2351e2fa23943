// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	uberzap "go.uber.org/zap"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	corecrd "github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/objectcache"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/crd"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/scope"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// crdPatience is how long an operator waits for its CustomResourceDefinitions
// before it gives up and is restarted.
const crdPatience = 2 * time.Minute

// probePatience is how long a readiness probe waits for the caches.
const probePatience = 500 * time.Millisecond

// run runs the operator until the context ends.
func run(ctx context.Context, o Options, s settings) error {
	level := uberzap.NewAtomicLevel()
	logger, err := s.logger(level)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	l, err := newLive(s, level)
	if err != nil {
		return err
	}
	logger.Info("starting", telemetry.KeyDomain, o.Domain, telemetry.KeyVersion, o.Version, telemetry.KeyNamespace,
		s.namespace)
	telemetry.Build(o.Domain, o.Version)
	memory := newGivesBack()
	memory.begin(ctx)

	cfg, err := s.restConfig(o)
	if err != nil {
		return err
	}
	cfg.RateLimiter = l.limiter
	scheme, err := schemeOf(o)
	if err != nil {
		return err
	}
	registry, err := newRegistry(cfg, o.Domain, s)
	if err != nil {
		return err
	}
	if err := prepare(ctx, cfg, scheme, o, s, l, registry); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // It was told to end while it waited.
		}
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	mgr, err := newManager(ctx, cfg, scheme, o, s, &scopedLock{registry: registry, end: end})
	if err != nil {
		return err
	}
	traces, err := telemetry.NewTraces(ctx, o.Domain, o.Version, os.Getenv)
	if err != nil {
		return err
	}
	defer traces.Shutdown(ctx)
	if err := setup(mgr, o, s, l, traces, registry); err != nil {
		return err
	}
	if err := mgr.Add(memory); err != nil {
		return err
	}
	remove, err := publish(mgr, o)
	if err != nil {
		return err
	}
	defer remove()
	err = mgr.Start(ctx)
	if served := (*scope.ServedError)(nil); err == nil && errors.As(context.Cause(ctx), &served) {
		return served
	}
	return err
}

// prepare returns once the API server answers, no other operator serves the namespaces, the settings are read and the
// definitions are served.
func prepare(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, o Options, s settings, l *live,
	registry *scope.Registry,
) error {
	probes, err := serveProbes(s.probeAddr)
	if err != nil {
		return err
	}
	log := ctrl.Log.WithName("start")
	err = awaitServer(ctx, cfg, log)
	if err == nil {
		err = awaitScope(ctx, registry, probes, log)
	}
	if err == nil {
		err = l.first(ctx, cfg, scheme)
	}
	if err == nil {
		err = ensureCRDs(ctx, cfg, scheme, o, s)
	}
	return errors.Join(err, probes.close())
}

func schemeOf(o Options) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	add := []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, platformv1.AddToScheme}
	for _, f := range append(add, o.AddToScheme...) {
		if err := f(scheme); err != nil {
			return nil, fmt.Errorf("cannot register types: %w", err)
		}
	}
	return scheme, nil
}

// ensureCRDs returns once the definitions of the core API and of the operator's kinds are served.
func ensureCRDs(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, o Options, s settings) error {
	definitions, err := crd.Load(append([]fs.FS{corecrd.FS}, o.CRDs...)...)
	if err != nil {
		return err
	}
	live, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	mode := crd.Await
	if s.installCRDs {
		mode = crd.Install
	}
	ctx, cancel := context.WithTimeout(ctx, crdPatience)
	defer cancel()
	installer := &crd.Installer{Client: live, Mode: mode, Log: ctrl.Log.WithName("crds")}
	return installer.Ensure(ctx, definitions)
}

// newManager returns a manager whose caches, once started, have what reconciles read.
func newManager(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, o Options, s settings,
	lock *scopedLock,
) (manager.Manager, error) {
	lease, err := newLock(cfg, o.Domain, s)
	if err != nil {
		return nil, err
	}
	lock.Interface = lease
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme:                 scheme,
		Cache:                  cacheOptions(o.Domain, watched(s.watchNamespaces)),
		NewCache:               objectcache.New,
		Metrics:                metricsserver.Options{BindAddress: s.metricsAddr},
		HealthProbeBindAddress: s.probeAddr,
		PprofBindAddress:       s.pprofAddr,
		LeaderElection:         true, // See replicaName for --leader-elect=false.
		RenewDeadline:          ptr.To(renewDeadline),
		// The process ends right after the manager, so that the lease may go early.
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
		Controller: controllerconfig.Controller{
			ReconciliationTimeout: queue.Deadline,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the manager: %w", err)
	}
	if err := watch(ctx, mgr.GetCache(), o); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache()))
}

// cachesSynced is ready once the caches have what they watch.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), probePatience)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
}

// setup adds the controllers of the engine and of the typed kinds.
func setup(mgr manager.Manager, o Options, s settings, l *live, traces *telemetry.Traces,
	registry *scope.Registry,
) error {
	err := engine.Setup(mgr, engine.Options{
		Domain:     o.Domain,
		Namespace:  s.namespace,
		Namespaces: watched(s.watchNamespaces),
		Settings:   l.rendering,
		Kinds:      o.Kinds,
		Workers:    l.workers,
		Traces:     traces,
		Leads:      registry.Leads,
		Admission:  s.webhook.admission(o, s.namespace),
	})
	if err != nil {
		return fmt.Errorf("cannot set up the engine: %w", err)
	}
	kinds := typed.Settings{Domain: o.Domain, Workers: l.workers, Namespaces: watched(s.watchNamespaces)}
	if err := typed.Setup(mgr, kinds, o.Kinds...); err != nil {
		return err
	}
	if err := setupControllers(mgr, o, s, l); err != nil {
		return err
	}
	return l.keeper.Setup(mgr, event.New(mgr.GetEventRecorder("settings")))
}

// publish has the conditions of all objects of the operator, and what the status of each Application says, among the
// metrics.
func publish(mgr manager.Manager, o Options) (remove func(), err error) {
	objects := slices.DeleteFunc(append(ofDomain(), whole(o)...), func(object client.Object) bool {
		_, conditioned := object.(platformv1.Conditioned)
		return !conditioned
	})
	conditions, err := telemetry.NewConditions(mgr.GetCache(), mgr.GetScheme(), objects...)
	if err != nil {
		return nil, err
	}
	instances := telemetry.NewInstances(mgr.GetCache())
	remove = func() {
		metrics.Registry.Unregister(conditions)
		metrics.Registry.Unregister(instances)
	}
	if err := errors.Join(metrics.Registry.Register(conditions), metrics.Registry.Register(instances)); err != nil {
		remove()
		return nil, fmt.Errorf("cannot publish the state of objects as metrics: %w", err)
	}
	return remove, nil
}
