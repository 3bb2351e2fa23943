// SPDX-License-Identifier: Apache-2.0

// Package settings holds the settings that rendering depends on while they can change.
package settings

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Live holds the settings. It is safe for concurrent use.
type Live struct {
	mu      sync.RWMutex
	current render.Settings
	changed wakers
	gitOps  []string

	history        platformv1.OperationHistory
	historyChanged wakers

	// entities is how often Entities are looked at. Nothing is rendered with it.
	entities atomic.Int64
}

// wakers wake what depends on a setting, until that ends.
type wakers map[*func()]struct{}

// GitOpsManagers are the field managers of tools that write again and again what a repository says, unless someone
// names others.
var GitOpsManagers = []string{"argocd-controller", "kustomize-controller", "helm-controller"}

// DefaultEntityInterval is used until another one is set.
const DefaultEntityInterval = 5 * time.Minute

// EntityInterval is how often the objects of Entities are compared with what the middleware has.
func (l *Live) EntityInterval() time.Duration {
	return cmp.Or(time.Duration(l.entities.Load()), DefaultEntityInterval)
}

// UseEntityInterval changes it, from the next look on.
func (l *Live) UseEntityInterval(interval time.Duration) { l.entities.Store(int64(interval)) }

// History says how long the records of Operations are kept where an Application says nothing of that.
func (l *Live) History() platformv1.OperationHistory {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.history
}

// UseHistory changes it, and wakes who keeps records when it is not what it was.
func (l *Live) UseHistory(history platformv1.OperationHistory) {
	l.change(l.historyChanged, func() bool {
		same := equality.Semantic.DeepEqual(l.history, history)
		l.history = history
		return !same
	})
}

// HistorySource is Source for changes of History.
func (l *Live) HistorySource(all func(ctx context.Context) []reconcile.Request) source.Source {
	return l.source(l.historyChanged, all)
}

// New returns a Live that holds these settings.
func New(s render.Settings) *Live {
	return &Live{current: s, gitOps: GitOpsManagers, changed: wakers{}, historyChanged: wakers{}}
}

// Respect names the field managers whose fields Operations leave alone.
func (l *Live) Respect(managers []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gitOps = slices.Clone(managers)
}

// Respected returns the field managers whose fields Operations leave alone.
func (l *Live) Respected() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.gitOps
}

// Get returns the settings.
func (l *Live) Get() render.Settings {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.current
}

// Use replaces what can change at run time, and wakes what depends on it when it is not what it was.
func (l *Live) Use(imageRegistry, clusterDomain string) {
	l.change(l.changed, func() bool {
		before := l.current
		l.current.ImageRegistry, l.current.ClusterDomain = imageRegistry, clusterDomain
		return l.current != before
	})
}

// change makes a change and, where that says that it was one, wakes those that depend on it.
func (l *Live) change(depend wakers, do func() bool) {
	l.mu.Lock()
	changed, wakes := do(), slices.Collect(maps.Keys(depend))
	l.mu.Unlock()
	if !changed {
		return
	}
	for _, wake := range wakes {
		(*wake)()
	}
}

// Source returns what wakes a controller when the settings change: for all that it names then.
func (l *Live) Source(all func(ctx context.Context) []reconcile.Request) source.Source {
	return l.source(l.changed, all)
}

func (l *Live) source(depend wakers, all func(ctx context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		wake := func() {
			if ctx.Err() != nil {
				return // The controller has ended.
			}
			for _, request := range all(ctx) {
				queue.Add(request)
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		depend[&wake] = struct{}{}
		context.AfterFunc(ctx, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(depend, &wake)
		})
		return nil
	})
}
