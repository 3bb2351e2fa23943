// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// warnings keeps what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// label sets the domain of an Application; empty removes it.
func label(t *testing.T, app *platformv1.Application, domain string) error {
	t.Helper()
	value := "null"
	if domain != "" {
		value = fmt.Sprintf("%q", domain)
	}
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, platformv1.DomainLabel, value)
	return env.Client.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(body)))
}

// A label that was set by hand strands nothing: its author is warned, its operator says what is wrong, and it can be
// taken away until something has come of it.
func TestALabelOfAnotherDomain(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	heard := &warnings{}
	cfg := rest.CopyConfig(env.Config)
	cfg.WarningHandlerWithContext = heard
	loud, err := client.New(cfg, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	stranded := application(namespace)
	stranded.Labels[platformv1.DomainLabel] = "nobody"
	if err := loud.Create(t.Context(), stranded); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(heard.said, " ")
	if !strings.Contains(said, "only an operator of domain 'nobody' will see this Application: leave the label") {
		t.Errorf("the warnings are %q", said)
	}
	if err := label(t, stranded, ""); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, stranded)
	if domain := stranded.Labels[platformv1.DomainLabel]; domain != "database" {
		t.Errorf("the domain is %q", domain)
	}
	for _, domain := range []string{"message", ""} {
		if err := label(t, stranded, domain); err == nil || !strings.Contains(err.Error(), "is immutable") {
			t.Errorf("the label of an Application that runs was changed to %q: %v", domain, err)
		}
	}

	foreign := &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "nats-1.0.0",
		Labels: map[string]string{platformv1.DomainLabel: "message"}},
		Spec: platformv1.PluginSpec{Plugin: "nats", Version: "1.0.0", Domain: "message"}}
	if err := env.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), foreign) })
	misled := testkit.BuildApplication(namespace, "nats-a").Domain("database").Plugin("nats", "1.0.0").Build()
	create(t, misled)
	testkit.WaitForCondition(t, env.Client, misled, platformv1.StalledCondition, metav1.ConditionTrue)
	want := `remove the label, and the operator of domain "message" takes this Application`
	if ready := conditions.Get(misled, platformv1.ReadyCondition); ready.Reason != platformv1.ReasonPluginNotFound ||
		!strings.Contains(ready.Message, want) {
		t.Errorf("it says %+v", ready)
	}
	if err := label(t, misled, ""); err != nil {
		t.Error(err)
	}
}
