// SPDX-License-Identifier: Apache-2.0

// Package enginetest runs the controller of Operations in tests of kinds that compile to Operations with an inline
// template.
//
// It is all of the engine that such an Operation needs. Nobody runs the Jobs of its steps: testkit.Env.EndJob ends
// them.
package enginetest

import (
	"context"
	"net"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/operation"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Options of a manager.
type Options struct {
	// Domain of the operator.
	Domain string
	// Namespace that it serves.
	Namespace string
	// Kinds of the operator: their objects bear no label of the domain.
	Kinds []client.Object
	// Dial opens the connections of calls that steps make; the engine's own way, which refuses addresses of the node,
	// when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// NewClient makes the client of the controllers; that of the manager when nil.
	NewClient client.NewClientFunc
	// Transport is the way of the controllers to the API server; a plain one when nil.
	Transport *testkit.Transport
}

// CheckTemplate says what is wrong with an inline template, as operator.ControllerSettings has it.
func CheckTemplate(text string) error { return engine.CheckTemplate(text) }

// StepType returns the type of what a step of the named kind says, for tests that compare the tasks of a typed kind
// with it. It panics where there is no such kind.
func StepType(kind string) reflect.Type {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[optemplate.Step]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == kind {
			return field.Type.Elem()
		}
	}
	panic("there are no steps of the kind " + kind)
}

// NewManager returns a manager of the account env.System with the controller of Operations. testkit.Run runs it.
func NewManager(t testing.TB, env *testkit.Env, o Options) ctrl.Manager {
	t.Helper()
	byObject := map[client.Object]cache.ByObject{&platformv1.Operation{}: {Transform: engine.TrimOperation}}
	for _, kind := range o.Kinds {
		byObject[kind] = cache.ByObject{Label: labels.Everything()}
	}
	account := rest.CopyConfig(env.System.Config)
	if o.Transport != nil {
		account.Wrap(o.Transport.Wrap)
	}
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, NewClient: o.NewClient,
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultNamespaces:    map[string]cache.Config{o.Namespace: {}},
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: o.Domain}),
			ByObject:             byObject,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = operation.Setup(mgr, operation.Deps{
		Index: plugin.NewIndex(), Locks: &disruption.Locks{}, Domain: o.Domain, Settings: settings.New(render.Settings{}),
		Dial: o.Dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}
