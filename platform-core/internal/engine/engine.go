// SPDX-License-Identifier: Apache-2.0

// Package engine puts the controllers of the platform together for one operator.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/admission"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/certmanager"
	"github.com/zeroinfra/platform-core/internal/controller/application"
	authoritycontroller "github.com/zeroinfra/platform-core/internal/controller/authority"
	"github.com/zeroinfra/platform-core/internal/controller/backup"
	"github.com/zeroinfra/platform-core/internal/controller/claim"
	"github.com/zeroinfra/platform-core/internal/controller/component"
	"github.com/zeroinfra/platform-core/internal/controller/entity"
	"github.com/zeroinfra/platform-core/internal/controller/failoverrecord"
	"github.com/zeroinfra/platform-core/internal/controller/operation"
	plugincontroller "github.com/zeroinfra/platform-core/internal/controller/plugin"
	"github.com/zeroinfra/platform-core/internal/controller/repository"
	"github.com/zeroinfra/platform-core/internal/controller/retention"
	"github.com/zeroinfra/platform-core/internal/controller/schedule"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/foreign"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/render"
	schedules "github.com/zeroinfra/platform-core/internal/schedule"
	"github.com/zeroinfra/platform-core/internal/secretwatch"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/internal/trim"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// notLoadedRetry is how soon a reconcile that came before the plugins is tried again.
const notLoadedRetry = 200 * time.Millisecond

// Options of the engine in one operator.
type Options struct {
	// Domain that the operator serves.
	Domain string
	// Namespace of the operator: plugins and the agents' CA are there.
	Namespace string
	// Namespaces that the operator serves; all when empty. The manager's cache must hold the same.
	Namespaces map[string]cache.Config
	// Settings that pods and names are rendered with; required.
	Settings *Settings
	// Kinds that compile to Applications.
	Kinds []typed.Registration
	// Workers of each controller; queue.DefaultWorkers when nil.
	Workers *queue.Limit
	// Now tells the time that schedules, retentions and inventories go by, and Jobs of Backups that do not start; time.Now
	// when nil.
	Now func() time.Time
	// Traces tells of Operations that ended; nil for nobody.
	Traces *telemetry.Traces
	// Admission is the validating webhook; nil for none.
	Admission *Admission
	// Leads reports whether an operator of the domain in another namespace leads; none does when nil.
	Leads func(ctx context.Context, namespace string) (bool, error)
	// LoadPlugin parses and checks a plugin; plugin.Load when nil. Engines in one process can share what it returns.
	LoadPlugin plugincontroller.LoadFunc
}

// Admission says how the validating webhook is reached, and what it judges.
type Admission = admission.Options

// Check judges the objects of a kind that compiles to no Application.
type Check = admission.Check

// TrimPod is the transform of the cache that the engine reads pods from: it leaves what the engine reads of them.
func TrimPod(obj any) (any, error) { return trim.Pod(obj) }

// TrimMade is the same for Components and WorkloadSets: it leaves who edited them.
func TrimMade(obj any) (any, error) { return trim.Made(obj) }

// TrimOperation is the same for Operations: of one that has ended it leaves what the engine reads of a record.
func TrimOperation(obj any) (any, error) { return trim.Operation(obj) }

// CheckSchedule says what is wrong with a schedule as Applications have them; nil for nothing.
func CheckSchedule(line platformv1.CronLine, zone platformv1.TimeZone) error {
	_, err := schedules.Parse(string(line), string(zone))
	return err
}

// CheckTemplate says what is wrong with an inline template of an Operation; nil for nothing.
func CheckTemplate(text string) error {
	_, err := optemplate.ParseInline(text)
	return err
}

// Setup registers every controller of the engine with the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, cancel := context.WithTimeout(context.Background(), queue.Deadline)
	defer cancel()
	authority, err := pki.Load(ctx, mgr.GetAPIReader(), mgr.GetClient(), o.Namespace, o.Domain)
	if err != nil {
		return fmt.Errorf("cannot load the CA of the agents: %w", err)
	}
	reissue, err := authoritycontroller.Setup(mgr,
		authoritycontroller.Deps{Authority: authority, Domain: o.Domain, Namespace: o.Namespace, Now: time.Now})
	if err != nil {
		return err
	}
	dialer, err := newDialer(ctx, mgr, authority)
	if err != nil {
		return err
	}
	secrets, stores, err := watchers(mgr)
	if err != nil {
		return err
	}
	others, err := foreignKinds(mgr, o)
	if err != nil {
		return err
	}
	kinds, err := kindsOf(mgr, o.Kinds)
	if err != nil {
		return err
	}
	index := plugin.NewIndex()
	loader, err := plugincontroller.Setup(mgr, plugincontroller.Deps{
		Index: index, Namespace: o.Namespace, Domain: o.Domain, Options: queue.Options(o.Workers), Now: time.Now,
		Load: o.LoadPlugin, Leads: o.Leads,
	})
	if err != nil {
		return err
	}
	gate := func(next reconcile.Reconciler) reconcile.Reconciler { return loadedFirst{loader, next} }
	var forecast operation.Forecasts
	locks := &disruption.Locks{}
	setups := []func() error{
		func() error {
			return application.Setup(mgr, application.Deps{Index: index, Kinds: kinds, Domain: o.Domain, Settings: o.Settings,
				Secrets: secrets, Certificates: others.certificates, Digest: authority.Digest, Gate: gate,
				Options: queue.Options(o.Workers)})
		},
		func() (err error) {
			whole, err := component.Setup(mgr, component.Deps{Index: index, Kinds: kinds, Domain: o.Domain, Settings: o.Settings,
				Certificates: others.certificates, Monitors: others.monitors, Routes: others.routes, Ops: dialer, Now: time.Now,
				Namespace: o.Namespace, Gate: gate, Options: queue.Options(o.Workers)})
			forecast.Component = componentForecasts(whole)
			return err
		},
		func() (err error) {
			forecast.Set, err = workloadset.Setup(mgr,
				workloadset.Deps{Authority: authority, Reissue: reissue, Dialer: dialer, Ops: dialer, Members: dialer,
					Settings: o.Settings, Locks: locks, Now: time.Now, Options: queue.Options(o.Workers)})
			return err
		},
		func() error {
			return operation.Setup(mgr, operation.Deps{Index: index, Dialer: dialer, Ops: dialer, Kinds: kinds,
				Settings: o.Settings, Forecast: forecast, Locks: locks, Domain: o.Domain, Workers: o.Workers, Gate: gate,
				Traces: o.Traces})
		},
		func() error { return setupBackups(mgr, o, index, dialer, stores, gate) },
		func() error {
			return entity.Setup(ctx, mgr, entity.Deps{Index: index, Dialer: dialer, Interval: o.Settings.EntityInterval,
				Workers: o.Workers, Gate: gate})
		},
		func() error { return setupCompanions(mgr, o, index, kinds, gate) },
	}
	for _, setup := range setups {
		if err := setup(); err != nil {
			return err
		}
	}
	return validate(mgr, o, index, loader)
}

// watchers returns one of the Secrets of instances, and one of those of repositories.
func watchers(mgr ctrl.Manager) (secrets, stores *secretwatch.Watcher, err error) {
	if secrets, err = secretwatch.New(mgr.GetConfig()); err != nil {
		return nil, nil, err
	}
	stores, err = secretwatch.New(mgr.GetConfig())
	return secrets, stores, err
}

// setupCompanions registers what works beside the instances themselves.
func setupCompanions(mgr ctrl.Manager, o Options, index *plugin.Index,
	kinds map[schema.GroupKind]typed.Registration, gate func(reconcile.Reconciler) reconcile.Reconciler) error {
	known := func(of schema.GroupKind) bool { return kinds[of] != nil }
	return errors.Join(
		failoverrecord.Setup(mgr, queue.Options(o.Workers)),
		schedule.Setup(mgr, schedule.Deps{Index: index, Now: o.Now, Gate: gate, Options: queue.Options(o.Workers)}),
		claim.Setup(mgr, claim.Deps{Index: index, Domain: o.Domain, Kinds: known, Namespaces: o.Namespaces,
			Workers: o.Workers, Gate: gate}),
	)
}

// setupBackups registers what looks after Backups and where they are kept.
func setupBackups(mgr ctrl.Manager, o Options, index *plugin.Index, dialer *agentclient.Connections,
	stores *secretwatch.Watcher, gate func(reconcile.Reconciler) reconcile.Reconciler) error {
	return errors.Join(
		backup.Setup(mgr, backup.Deps{Index: index, Settings: o.Settings, Holds: dialer, Domain: o.Domain, Gate: gate,
			Now:     time.Now,
			Jobs:    jobstate.Jobs{Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Now: o.Now},
			Options: queue.Options(o.Workers)}),
		repository.Setup(mgr, repository.Deps{Index: index, Settings: o.Settings, Secrets: stores, Domain: o.Domain,
			Now: o.Now, Options: queue.Options(o.Workers)}),
		retention.Setup(mgr, retention.Deps{Domain: o.Domain, Now: o.Now, Options: queue.Options(o.Workers)}),
	)
}

// validate has every replica serve the webhook, where there is one.
func validate(mgr ctrl.Manager, o Options, index *plugin.Index, loader *plugincontroller.Loader) error {
	if o.Admission == nil {
		return nil
	}
	return admission.Setup(mgr, *o.Admission, admission.Deps{
		Domain: o.Domain, Namespace: o.Namespace, Index: index, Loaded: loader.Loaded, Settings: o.Settings,
	})
}

// foreigners are the ways to what others define: certificates, PodMonitors, and HTTPRoutes.
type foreigners struct{ certificates, monitors, routes *foreign.Kinds }

func foreignKinds(mgr ctrl.Manager, o Options) (f foreigners, err error) {
	others, err := foreign.New(mgr, o.Domain, o.Namespaces)
	if err != nil {
		return f, err
	}
	if f.certificates, err = others.Kinds(mgr, certmanager.Kinds...); err != nil {
		return f, err
	}
	if f.monitors, err = others.Kinds(mgr, render.PodMonitorKind); err != nil {
		return f, err
	}
	f.routes, err = others.Kinds(mgr, render.HTTPRouteKind)
	return f, err
}

// componentForecasts has the controller of Operations see what that of Components forecasts.
func componentForecasts(
	forecast component.Forecast,
) func(context.Context, *platformv1.Component) (operation.ForecastResult, error) {
	return func(ctx context.Context, c *platformv1.Component) (operation.ForecastResult, error) {
		p, err := forecast(ctx, c)
		return operation.ForecastResult(p), err
	}
}

// kindsOf returns the kinds by what an owner reference calls them.
func kindsOf(mgr ctrl.Manager, registrations []typed.Registration) (map[schema.GroupKind]typed.Registration, error) {
	kinds := map[schema.GroupKind]typed.Registration{}
	for _, kind := range registrations {
		gvk, err := apiutil.GVKForObject(kind.Object(), mgr.GetScheme())
		if err != nil {
			return nil, fmt.Errorf("cannot serve a typed kind: %w", err)
		}
		kinds[gvk.GroupKind()] = kind
	}
	return kinds, nil
}

// newDialer returns what reaches the agents until the manager ends, and forgets those of pods that are gone.
func newDialer(ctx context.Context, mgr ctrl.Manager, authority *pki.Authority) (*agentclient.Connections, error) {
	dialer := agentclient.New(authority)
	if err := mgr.Add(untilEnd{dialer.Close}); err != nil {
		return nil, fmt.Errorf("cannot have connections closed: %w", err)
	}
	pods, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("cannot watch pods: %w", err)
	}
	if _, err := pods.AddEventHandler(dialer.Handler()); err != nil {
		return nil, fmt.Errorf("cannot watch pods: %w", err)
	}
	return dialer, nil
}

// untilEnd does something once the manager ends, on every replica.
type untilEnd struct{ do func() }

// Start implements manager.Runnable.
func (u untilEnd) Start(ctx context.Context) error {
	<-ctx.Done()
	u.do()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (untilEnd) NeedLeaderElection() bool { return false }

// Settings are what pods and names are rendered with, and what of it can change at run time.
type Settings = settings.Live

// GitOpsManagers are the field managers whose fields Operations leave alone, unless someone names others.
func GitOpsManagers() []string { return settings.GitOpsManagers }

// PodSettings is what every pod gets that the operator makes.
type PodSettings = render.PodSettings

// NewSettings returns settings with the image that holds the agent's binary, and what every pod gets; nil for nothing.
func NewSettings(agentImage string, pods *PodSettings) *Settings {
	return settings.New(render.Settings{AgentImage: agentImage, Pods: pods})
}

// loadedFirst holds reconciles back until the plugins that were there at the start
// are loaded: an operator that restarts must not say that they are missing.
type loadedFirst struct {
	loader *plugincontroller.Loader
	next   reconcile.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (l loadedFirst) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !l.loader.Loaded() {
		return reconcile.Result{RequeueAfter: notLoadedRetry}, nil
	}
	return l.next.Reconcile(ctx, request)
}
