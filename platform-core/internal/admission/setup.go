// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/zeroinfra/platform-core/internal/accept"
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
	// Checks of kinds that compile to no Application.
	Checks []Check
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Check judges the objects of a kind that compiles to no Application.
type Check struct {
	// Object returns an empty object of the kind.
	Object func() client.Object
	// Judge says what is wrong with one; nil for nothing.
	Judge func(obj client.Object) error
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
	c := &court{domain: deps.Domain, index: deps.Index, settings: deps.Settings, seen: mgr.GetClient(),
		live: mgr.GetAPIReader(), scheme: mgr.GetScheme()}
	server := webhook.NewServer(webhook.Options{
		Host: o.Address, Port: o.Port,
		TLSOpts: []func(*tls.Config){func(cfg *tls.Config) {
			cfg.MinVersion, cfg.GetCertificate = tls.VersionTLS12, k.certificate
		}},
	})
	server.Register(PathCore, endpoint{judge: c.core, ready: ready})
	judge, err := c.ofKinds(o, mgr.GetScheme())
	if err != nil {
		return err
	}
	server.Register(PathTyped, endpoint{judge: judge, ready: ready})
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

// ofKinds is the judge of all kinds of the operator.
func (c *court) ofKinds(o Options, scheme *runtime.Scheme) (judge, error) {
	judges := map[string]judge{}
	add := func(object client.Object, j judge) error {
		gvk, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return fmt.Errorf("cannot validate a kind: %w", err)
		}
		judges[gvk.Kind] = j
		return nil
	}
	for _, kind := range o.Kinds {
		if err := add(kind.Object(), c.typed(kind)); err != nil {
			return nil, err
		}
	}
	for _, check := range o.Checks {
		if err := add(check.Object(), check.judge); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
		if j := judges[request.Kind.Kind]; j != nil {
			return j(ctx, request)
		}
		return accept.Verdict{}, fmt.Errorf("this operator serves no kind %q", request.Kind.Kind)
	}, nil
}
