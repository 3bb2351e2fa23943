// SPDX-License-Identifier: Apache-2.0

package tuning

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// Reasons of an operator's settings. An event on their ConfigMap has them.
const (
	// reasonRefused: the ConfigMap of the settings has a value that is not allowed. The operator keeps the
	// settings of before. Correct the value that the event names.
	reasonRefused = "InvalidSettings"
)

// Keeper keeps an operator to its settings.
type Keeper struct {
	// Key of the ConfigMap.
	Key types.NamespacedName
	// Defaults for what the ConfigMap does not set.
	Defaults Values
	// Use has settings take effect. It is called for each change, one at a time.
	Use func(Values)
	// Log tells of changes and of refusals.
	Log logr.Logger

	mu sync.Mutex
	// seen is the data that was last looked at.
	seen map[string]string
	used *Values
}

// Read returns the ConfigMap of the settings; nil when there is none.
func Read(ctx context.Context, live client.Reader, key types.NamespacedName) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	if err := live.Get(ctx, key, found); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read the settings from ConfigMap %q: %w", key, err)
	} else if err != nil {
		return nil, nil
	}
	return found, nil
}

// Take looks at the ConfigMap, nil for none: what works is used, and the error tells what does not.
func (k *Keeper) Take(found *corev1.ConfigMap) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	data := map[string]string{}
	if found != nil {
		maps.Copy(data, found.Data)
	}
	values, err := Parse(data, k.Defaults)
	if err != nil {
		telemetry.SettingsRefused()
		if k.used == nil {
			k.use(k.Defaults)
		}
		err = fmt.Errorf("cannot use the settings in ConfigMap %q, those before it stay: %w", k.Key, err)
		if k.seen == nil || !maps.Equal(k.seen, data) {
			k.Log.Error(err, "refused settings")
		}
	} else {
		telemetry.SettingsAccepted()
		k.use(values)
	}
	k.seen = data
	return err
}

// use has values take effect that are not in effect yet.
func (k *Keeper) use(values Values) {
	if k.used != nil && *k.used == values {
		return
	}
	k.Use(values)
	k.used = &values
	telemetry.SettingsUsed(map[string]float64{KeyWorkers: float64(values.Workers), KeyQPS: values.QPS,
		KeyBurst: float64(values.Burst)})
	k.Log.Info("uses settings", KeyWorkers, values.Workers, KeyQPS, values.QPS, KeyBurst, values.Burst,
		KeyImageRegistry, values.ImageRegistry, KeyClusterDomain, values.ClusterDomain, KeyEntityInterval,
		values.EntityInterval.String(), KeyHistoryTTL, values.HistoryTTL.String(), KeyHistoryLimit, values.HistoryLimit,
		KeyLogLevel, values.LogLevel.String())
}

// Setup has every replica follow the ConfigMap while the manager runs. The leader tells of refusals in events.
func (k *Keeper) Setup(mgr manager.Manager, events *event.Recorder) error {
	// A cache of its own: the manager's selects on the domain label, which settings do not carry.
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{
				k.Key.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", k.Key.Name)}},
		}},
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("cannot make the cache of settings: %w", err)
	}
	return mgr.Add(follower{k, own, events, mgr.Elected()})
}

// follower watches the ConfigMap; it runs on every replica.
type follower struct {
	*Keeper
	cache  cache.Cache
	events *event.Recorder
	leads  <-chan struct{}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (follower) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (f follower) Start(ctx context.Context) error {
	informer, err := f.cache.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("cannot watch settings: %w", err)
	}
	take := func(obj any) {
		if found, ok := obj.(*corev1.ConfigMap); ok {
			f.follow(ctx, found)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, obj any) { take(obj) },
		// Without it everything is as the flags say, which works.
		DeleteFunc: func(any) { _ = f.Take(nil) },
	}); err != nil {
		return fmt.Errorf("cannot watch settings: %w", err)
	}
	return f.cache.Start(ctx)
}

// follow takes a ConfigMap and tells in an event when it is refused, once this replica leads.
func (f follower) follow(ctx context.Context, found *corev1.ConfigMap) {
	refused := f.Take(found)
	if refused == nil {
		return
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-f.leads:
			f.events.Warning(found, reasonRefused, "%v", refused)
		}
	}()
}
