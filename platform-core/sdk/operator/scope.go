// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/operator/internal/scope"
)

// newRegistry returns what tells this operator of the others of its domain. Like leader election it never waits behind
// the requests of reconciles.
func newRegistry(cfg *rest.Config, domain string, s settings) (*scope.Registry, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter, cfg.Timeout = nil, askPatience
	live, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return registryOf(live, domain, s), nil
}

// registryOf returns the same with a client that is there.
func registryOf(live client.Client, domain string, s settings) *scope.Registry {
	return &scope.Registry{
		Client: live, Domain: domain, Namespace: s.namespace, Serves: s.watchNamespaces,
		LeaderLease: leaseName(domain), Now: time.Now,
	}
}

// awaitScope returns once no other operator of the domain serves the same namespaces. Until then it tells why it waits.
func awaitScope(ctx context.Context, registry *scope.Registry, probes *startProbes, log logr.Logger) error {
	told := ""
	return wait.PollUntilContextCancel(ctx, askEvery, true, func(ctx context.Context) (bool, error) {
		err := registry.Check(ctx)
		if err == nil {
			if told != "" {
				log.Info("taking over the namespaces that another operator served")
			}
			return true, nil
		}
		probes.say(err.Error())
		if why := err.Error(); why != told {
			log.Info("standing by", "reason", why)
			told = why
		}
		return false, nil
	})
}

// scopedLock is a lock of leader election that lets nobody lead before the operator is registered for its namespaces.
type scopedLock struct {
	resourcelock.Interface
	registry *scope.Registry
	// end ends the operator: another one came first, and its next start stands by.
	end   context.CancelCauseFunc
	taken bool
}

// Create implements resourcelock.Interface.
func (l *scopedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Interface.Create(ctx, record); err != nil {
		return err
	}
	return l.register(ctx)
}

// Update implements resourcelock.Interface.
func (l *scopedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Interface.Update(ctx, record); err != nil {
		return err
	}
	if record.HolderIdentity == "" {
		return nil // It gives the lease back.
	}
	return l.register(ctx)
}

// register registers the operator once, when it comes to lead: an operator that loses the lease ends.
func (l *scopedLock) register(ctx context.Context) error {
	if l.taken {
		return nil
	}
	err := l.registry.Take(ctx, l.Identity())
	l.taken = err == nil
	if served := (*scope.ServedError)(nil); errors.As(err, &served) {
		l.end(served)
	}
	return err
}
