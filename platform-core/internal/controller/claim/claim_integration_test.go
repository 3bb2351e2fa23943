// SPDX-License-Identifier: Apache-2.0

//go:build integration

package claim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{Own: "the controllers serve all namespaces", CRDs: []fs.FS{crd.FS},
		After: func(env *testkit.Env) error {
			var denied []error
			for _, domain := range domains {
				denied = append(denied, env.Denied("system:serviceaccount:"+systemOf(domain)+":controller-manager"))
			}
			return errors.Join(denied...)
		}})
}

// domains that the operators of these tests are of; each has an account in a namespace of its own.
var domains = []string{"database", "message", "storage"}

func systemOf(domain string) string { return "zeroinfra-" + domain }

var accounts = sync.OnceValues(func() (map[string]*testkit.Operator, error) {
	ctx, all := context.Background(), map[string]*testkit.Operator{}
	for _, domain := range domains {
		if err := env.Client.Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemOf(domain)}}); err != nil {
			return nil, err
		}
		account, err := env.Operator(ctx, systemOf(domain))
		if err != nil {
			return nil, err
		}
		all[domain] = account
	}
	return all, nil
})

// operator runs the claim controllers of a domain and returns its index of plugins.
func operator(t *testing.T, domain string) *plugin.Index {
	t.Helper()
	index, _ := mortal(t, domain)
	return index
}

// mortal is operator, and a way to cut it off from the API server for good: it does not even take its leave.
func mortal(t *testing.T, domain string) (index *plugin.Index, kill func()) {
	t.Helper()
	all, err := accounts()
	if err != nil {
		t.Fatal(err)
	}
	var dead atomic.Bool
	cfg := rest.CopyConfig(all[domain].Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if dead.Load() {
				return nil, errors.New("it is dead")
			}
			return next.RoundTrip(request)
		})
	})
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:     env.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&platformv1.Application{}: {Label: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: domain})},
			&platformv1.Operation{}:   {Label: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: domain})},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	index = plugin.NewIndex()
	if err := Setup(manager, Deps{Index: index, Domain: domain}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager of %s ended with: %v", domain, err)
		}
	})
	return index, func() { dead.Store(true); cancel() }
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func load(index *plugin.Index, name, version, domain string) {
	index.Set(name, version, &plugin.Bundle{Manifest: plugin.Manifest{Name: name, Version: version, Domain: domain},
		Digest: "sha256:1"}, nil)
}

// publish creates the Plugin object of a bundle; it is gone when the test ends.
func publish(t *testing.T, name, version, domain string) {
	t.Helper()
	p := &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + version},
		Spec: platformv1.PluginSpec{Plugin: name, Version: version, Domain: domain}}
	create(t, p)
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), p) })
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatalf("cannot create %T %q: %v", obj, obj.GetName(), err)
	}
}

func waitDomain(t *testing.T, obj client.Object, domain string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, obj, "domain "+domain, func() error {
		if got := obj.GetLabels()[platformv1.DomainLabel]; got != domain {
			return fmt.Errorf("domain is %q", got)
		}
		return nil
	})
}

func operation(namespace, name string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: platformv1.OperationSpec{TemplateRef: "Restart", TargetRef: target}}
}

func coreTarget(kind, name string) platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: kind, Name: name}
}

func TestEachOperatorClaimsWhatIsItsOwn(t *testing.T) {
	namespace := env.Namespace(t)
	load(operator(t, "database"), "redis", "1.0.0", "database")
	load(operator(t, "message"), "kafka", "1.0.0", "message")
	redis := testkit.BuildApplication(namespace, "a").Build()
	kafka := testkit.BuildApplication(namespace, "b").Plugin("kafka", "1.0.0").Build()
	create(t, redis)
	create(t, kafka)
	waitDomain(t, redis, "database")
	waitDomain(t, kafka, "message")
	if redis.Generation != 1 || len(redis.Status.Conditions) != 0 {
		t.Errorf("claiming did more than to label: %+v", redis)
	}

	controller := true
	typed := testkit.BuildApplication(namespace, "redis-c").Domain("database").OwnedBy(&metav1.OwnerReference{
		APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis", Name: "c", UID: "1", Controller: &controller}).Build()
	create(t, typed)
	set := &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b-kafka-main",
			Labels: map[string]string{platformv1.DomainLabel: "message"}},
		Spec: platformv1.WorkloadSetSpec{Revision: "1", Application: "b", Component: "kafka", Set: "main",
			Plugin:  platformv1.PluginReference{Name: "kafka", Version: "1.0.0"},
			Version: "4.0", Template: runtime.RawExtension{Raw: []byte("{}")}, Plan: runtime.RawExtension{Raw: []byte("{}")}},
	}
	create(t, set)
	for name, tc := range map[string]struct {
		target platformv1.TargetReference
		domain string
	}{
		"on-application": {coreTarget("Application", "a"), "database"},
		"on-set":         {coreTarget("WorkloadSet", "b-kafka-main"), "message"},
		"on-typed": {platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis",
			Name: "c"}, "database"},
	} {
		op := operation(namespace, name, tc.target)
		create(t, op)
		waitDomain(t, op, tc.domain)
	}
}

func TestAnUnknownPluginIsToldAndClaimedOnceItIsThere(t *testing.T) {
	namespace := env.Namespace(t)
	index := operator(t, "database")
	operator(t, "message")
	publish(t, "redis", "1.1.0", "database")
	app := testkit.BuildApplication(namespace, "a").Build()
	create(t, app)
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	accepted := meta.FindStatusCondition(app.Status.Conditions, platformv1.AcceptedCondition)
	want := `no operator has plugin "redis" version "1.0.0": known versions are 1.1.0`
	if accepted == nil || accepted.Status != metav1.ConditionFalse || accepted.Reason != platformv1.ReasonPluginNotFound ||
		accepted.Message != want {
		t.Errorf("Accepted is %+v, want message %s", accepted, want)
	}
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}

	// An Operation on it waits, and is claimed with it.
	op := operation(namespace, "restart", coreTarget("Application", "a"))
	create(t, op)
	testkit.WaitForCondition(t, env.Client, op, platformv1.ReconcilingCondition, metav1.ConditionTrue)
	if op.Status.Phase != platformv1.OperationPending {
		t.Errorf("the Operation is %s", op.Status.Phase)
	}

	// Two operators have said it once: nothing more is written while nothing changes.
	settled := app.ResourceVersion
	other := testkit.BuildApplication(namespace, "later").Plugin("nothing", "1.0.0").Build()
	create(t, other)
	testkit.WaitForCondition(t, env.Client, other, platformv1.StalledCondition, metav1.ConditionTrue)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	if app.ResourceVersion != settled {
		t.Error("the same condition was written again")
	}

	load(index, "redis", "1.0.0", "database")
	publish(t, "redis", "1.0.0", "database")
	waitDomain(t, app, "database")
	waitDomain(t, op, "database")
}

func TestAnOperationWithoutATargetFails(t *testing.T) {
	namespace := env.Namespace(t)
	operator(t, "database")
	operator(t, "message")
	ttl := int32(1)
	for name, tc := range map[string]struct {
		target platformv1.TargetReference
		text   string
	}{
		"absent-application": {coreTarget("Application", "nobody"), `no Application "nobody"`},
		"absent-component":   {coreTarget("Component", "nobody"), `no Component "nobody"`},
		"unknown-kind": {platformv1.TargetReference{APIVersion: "example.com/v1", Kind: "Toaster", Name: "x"},
			`no Toaster "x" of group example.com`},
		"no-target-kind": {coreTarget("Plugin", "x"), "cannot be the target"},
	} {
		t.Run(name, func(t *testing.T) {
			op := operation(namespace, name, tc.target)
			create(t, op)
			testkit.WaitForCondition(t, env.Client, op, platformv1.StalledCondition, metav1.ConditionTrue)
			if op.Status.Phase != platformv1.OperationFailed || !strings.Contains(op.Status.Error, tc.text) ||
				op.Status.CompletionTime == nil {
				t.Errorf("status is %+v, want an error with %s", op.Status, tc.text)
			}
			if err := testkit.StatusLint(op); err != nil {
				t.Error(err)
			}
		})
	}
	short := operation(namespace, "short", coreTarget("Application", "nobody"))
	short.Spec.TTLSecondsAfterFinished = &ttl
	create(t, short)
	testkit.WaitGone(t, env.Client, short)
}
