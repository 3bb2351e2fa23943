// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// Options are what the webhook is told from outside.
type Options struct {
	// Configuration is the name of the ValidatingWebhookConfiguration, which the chart makes.
	Configuration string
	// Secret is the name of the one with the certificate, in the operator's namespace.
	Secret string
	// Host is the DNS name that the API server calls, for example database-operator-webhook.zeroinfra-system.svc.
	Host string
	// Address and Port to listen on; all addresses when empty.
	Address string
	Port    int
	// Kinds that compile to Applications.
	Kinds []typed.Registration
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Deps are what the webhook needs from its surroundings.
type Deps struct {
	// Domain and Namespace of the operator.
	Domain, Namespace string
	// Index of the loaded plugins.
	Index *plugin.Index
	// Loaded says whether every plugin that was there at the start is in the index.
	Loaded func() bool
	// Settings that pods would be rendered with.
	Settings *settings.Live
}

// Paths of the webhooks, which the chart names.
const (
	PathCore  = "/validate/core"
	PathTyped = "/validate/typed"
)

// Setup has every replica serve the webhooks, and be ready only when it can.
func Setup(mgr ctrl.Manager, o Options, deps Deps) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	k := &keeper{
		domain: deps.Domain, secret: types.NamespacedName{Namespace: deps.Namespace, Name: o.Secret},
		configuration: o.Configuration, host: o.Host, now: o.Now,
	}
	if err := k.setup(mgr); err != nil {
		return err
	}
	ready := func() error {
		if !deps.Loaded() {
			return errNotReady
		}
		return nil
	}
	c := &court{domain: deps.Domain, index: deps.Index, settings: deps.Settings, seen: mgr.GetClient()}
	server := webhook.NewServer(webhook.Options{
		Host: o.Address, Port: o.Port,
		TLSOpts: []func(*tls.Config){func(cfg *tls.Config) {
			cfg.MinVersion, cfg.GetCertificate = tls.VersionTLS12, k.certificate
		}},
	})
	server.Register(PathCore, endpoint{judge: c.core, ready: ready})
	kinds := map[string]typed.Registration{}
	for _, kind := range o.Kinds {
		gvk, err := apiutil.GVKForObject(kind.Object(), mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("cannot validate a typed kind: %w", err)
		}
		kinds[gvk.Kind] = kind
	}
	server.Register(PathTyped, endpoint{judge: c.typed(kinds), ready: ready})
	if err := mgr.Add(server); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook", func(*http.Request) error {
		if k.served.Load() == nil {
			return errors.New("the certificate of the webhook is not there yet")
		}
		return ready()
	})
}
