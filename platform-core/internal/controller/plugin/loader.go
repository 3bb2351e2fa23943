// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/internal/plugin"
)

// settling is how long after its newest part an incomplete bundle may still become
// complete: Helm and kubectl make the ConfigMaps one after the other.
const settling = 2 * time.Second

// Loader turns ConfigMaps into bundles. It does so on every replica, so that a new leader has them at once.
type Loader struct {
	reader    client.Reader
	namespace string
	domain    string
	index     *plugin.Index
	parse     LoadFunc
	loaded    atomic.Bool
	// seen says which ConfigMaps each loaded bundle came from, so that nothing is parsed twice.
	mu   sync.Mutex
	seen map[key]string
}

// Loaded says whether every bundle that was there at the start has been read.
func (l *Loader) Loaded() bool { return l.loaded.Load() }

// key is one version of a plugin.
type key struct{ name, version string }

// parts are the ConfigMaps of one version of a plugin.
type parts struct {
	sources map[plugin.Part]plugin.Source
	// newest is when the newest of them was made.
	newest time.Time
	// identity changes with any of them.
	identity string
}

// domain that the bundle declares, broken or not; empty when there is none that is known. A bundle that declares none
// is of the domain of each operator that reads it, and its Plugin object of whoever is first.
func (p *parts) domain() string {
	declared := p.sources[plugin.PartManifest].Data["domain"]
	if !slices.Contains(plugin.Domains(), declared) {
		return ""
	}
	return declared
}

// sources lists the parts in the namespace by plugin and version.
func (l *Loader) sources(ctx context.Context) (map[key]*parts, error) {
	var list corev1.ConfigMapList
	if err := l.reader.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
		return nil, err
	}
	// The cache lists in no order.
	slices.SortFunc(list.Items, func(a, b corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	found := map[key]*parts{}
	for i := range list.Items {
		source, ok := plugin.ParseSource(&list.Items[i])
		if !ok || list.Items[i].DeletionTimestamp != nil {
			continue
		}
		k := key{source.Plugin, source.Version}
		if found[k] == nil {
			found[k] = &parts{sources: map[plugin.Part]plugin.Source{}}
		}
		p := found[k]
		source.DefaultDomain, source.Duplicate = l.domain, p.sources[source.Part].Name
		p.sources[source.Part] = source
		p.identity += string(list.Items[i].UID) + "/" + list.Items[i].ResourceVersion + " "
		if made := list.Items[i].CreationTimestamp.Time; made.After(p.newest) {
			p.newest = made
		}
	}
	return found, nil
}

// follow keeps the index as the ConfigMaps are until the context ends: a replica that comes to lead judges by what is
// there then, and not by what was there when it started.
func (l *Loader) follow(ctx context.Context, bundles cache.Cache) error {
	informer, err := bundles.GetInformer(ctx, &corev1.ConfigMap{})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot watch plugins: %w", err)
	}
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
			// A look that is still to come will see this change too.
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
	}); err != nil {
		return fmt.Errorf("cannot watch plugins: %w", err)
	}
	// GetInformer does not wait for a cache that has not been started yet, and reading from that is an error.
	if !bundles.WaitForCacheSync(ctx) {
		return nil
	}
	for {
		if err := l.loadAll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// loadAll reads every bundle that is there, and forgets those that are not.
func (l *Loader) loadAll(ctx context.Context) error {
	found, err := l.sources(ctx)
	if err != nil {
		return err
	}
	for k, p := range found {
		l.load(k, p)
	}
	for _, state := range l.index.List() {
		if k := (key{state.Name, state.Version}); found[k] == nil {
			l.forget(k)
		}
	}
	l.loaded.Store(true)
	return nil
}

// load reads one bundle into the index, unless it has these ConfigMaps already, and returns what the index now knows of
// it.
func (l *Loader) load(k key, p *parts) plugin.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state, ok := l.index.Get(k.name, k.version); ok && l.seen[k] == p.identity {
		return state
	}
	bundle, errs := l.parse(maps.Clone(p.sources))
	if bundle != nil && bundle.Manifest.Domain != l.domain {
		errs = append(errs, plugin.LoadError{
			File: plugin.SourceName(k.name, plugin.PartManifest, k.version),
			Message: "domain is \"" + bundle.Manifest.Domain + "\", and this operator serves \"" + l.domain +
				"\": install the operator of that domain, or the plugin in its namespace",
		})
		bundle = nil
	}
	l.index.Set(k.name, k.version, bundle, errs)
	if l.seen == nil {
		l.seen = map[key]string{}
	}
	l.seen[k] = p.identity
	state, _ := l.index.Get(k.name, k.version)
	return state
}

// forget drops a bundle whose ConfigMaps are gone.
func (l *Loader) forget(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index.Delete(k.name, k.version)
	delete(l.seen, k)
}

func missing(state plugin.State) bool {
	return slices.ContainsFunc(state.Errors, func(e plugin.LoadError) bool { return e.Missing != "" })
}
