// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	loaded    atomic.Bool
}

// Loaded says whether every bundle that was there at the start has been read.
func (l *Loader) Loaded() bool { return l.loaded.Load() }

// key is one version of a plugin.
type key struct{ name, version string }

// sources lists the parts in the namespace by plugin and version, and when the newest part of each was made.
func (l *Loader) sources(ctx context.Context) (map[key]map[plugin.Part]plugin.Source, map[key]time.Time, error) {
	var list corev1.ConfigMapList
	if err := l.reader.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
		return nil, nil, err
	}
	found, newest := map[key]map[plugin.Part]plugin.Source{}, map[key]time.Time{}
	for i := range list.Items {
		source, ok := plugin.ParseSource(&list.Items[i])
		if !ok || list.Items[i].DeletionTimestamp != nil {
			continue
		}
		k := key{source.Plugin, source.Version}
		if found[k] == nil {
			found[k] = map[plugin.Part]plugin.Source{}
		}
		found[k][source.Part] = source
		if made := list.Items[i].CreationTimestamp.Time; made.After(newest[k]) {
			newest[k] = made
		}
	}
	return found, newest, nil
}

// loadAll reads every bundle that is there.
func (l *Loader) loadAll(ctx context.Context) error {
	found, _, err := l.sources(ctx)
	if err != nil {
		return err
	}
	for k, sources := range found {
		l.load(k, sources)
	}
	l.loaded.Store(true)
	return nil
}

// load reads one bundle into the index and returns what the index now knows of it.
func (l *Loader) load(k key, sources map[plugin.Part]plugin.Source) plugin.State {
	bundle, errs := plugin.Load(maps.Clone(sources))
	if bundle != nil && bundle.Manifest.Domain != l.domain {
		errs = append(errs, plugin.LoadError{
			File:    plugin.SourceName(k.name, plugin.PartManifest, k.version),
			Message: "domain is \"" + bundle.Manifest.Domain + "\", and the operator of this namespace serves \"" + l.domain + "\": install it in that operator's namespace",
		})
		bundle = nil
	}
	l.index.Set(k.name, k.version, bundle, errs)
	state, _ := l.index.Get(k.name, k.version)
	return state
}

func missing(state plugin.State) bool {
	return slices.ContainsFunc(state.Errors, func(e plugin.LoadError) bool { return e.Missing != "" })
}
