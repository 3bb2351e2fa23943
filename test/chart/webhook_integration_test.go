// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// user writes as a person does, and hears the warnings.
type user struct {
	client.Client
	mu    sync.Mutex
	heard []string
}

// HandleWarningHeader implements rest.WarningHandler. What admission policies warn of is not of the webhook.
func (u *user) HandleWarningHeader(_ int, _, text string) {
	if strings.HasPrefix(text, "Validation failed for ValidatingAdmissionPolicy") {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.heard = append(u.heard, text)
}

// warnings returns what was heard since the last time.
func (u *user) warnings() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	heard := u.heard
	u.heard = nil
	return heard
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{}
	cfg := rest.CopyConfig(env.Config)
	cfg.WarningHandler = u
	c, err := client.New(cfg, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	u.Client = c
	return u
}

// warned fails unless exactly one warning was heard, with these words.
func (u *user) warned(t *testing.T, words ...string) {
	t.Helper()
	heard := u.warnings()
	if len(heard) != 1 {
		t.Errorf("heard %q, want one warning with %q", heard, words)
		return
	}
	for _, word := range words {
		if !strings.Contains(heard[0], word) {
			t.Errorf("the warning %q says nothing of %q", heard[0], word)
		}
	}
}

// redis is an object of the typed kind, with pairs of parameters and values.
func redis(namespace, name string, parameters ...string) *unstructured.Unstructured {
	set := map[string]any{}
	for i := 0; i+1 < len(parameters); i += 2 {
		set[parameters[i]] = parameters[i+1]
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "database.zeroinfra.github.com/v1", "kind": "Redis",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"version": "7.0", "parameters": set},
	}}
}

func merge(t *testing.T, c client.Client, object client.Object, body string) error {
	t.Helper()
	return c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body)))
}

// refused fails unless a webhook refused it with these words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want a refusal with %q", err, words)
		return
	}
	for _, word := range append(words, "denied the request") {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal says nothing of %q: %v", word, err)
		}
	}
}

// judges waits until the API server asks the operator, which has loaded the plugin.
func (r *release) judges(namespace string) {
	r.Helper()
	testkit.Eventually(r, "a bad Redis is refused", func(ctx context.Context) error {
		err := env.Client.Create(ctx, redis(namespace, "probe", "maxclient", "1"), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

// TestWebhook proves that what is wrong is said in the answer, in the words of the condition, and that nothing but that
// is held up.
func TestWebhook(t *testing.T) {
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	u := newUser(t)

	bad := redis(namespace, "bad", "maxclient", "1")
	began := time.Now()
	err := u.Create(t.Context(), bad)
	t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
	refused(t, err, `"kinds.database.zeroinfra.github.com"`, `parameter "maxclient"`, "maxclients")
	refused(t, u.Create(t.Context(), redis(namespace, "bad", "maxclients", "lots", "port", "1")), "maxclients", "lots",
		"port")

	good := redis(namespace, "good", "maxclients", "100")
	if err := u.Create(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-good"}}
	testkit.WaitFor(t, env.Client, app, "is made by the operator, whom nobody asks", nil)
	refused(t, merge(t, u, good, `{"spec":{"parameters":{"maxclient":"1"}}}`), "maxclient")
	if err := merge(t, u, good, `{"spec":{"parameters":{"maxclients":"200"}}}`); err != nil {
		t.Error(err)
	}
	u.warnings() // There is no default StorageClass, or there is one of another test.

	labelled := func(domain string, edit func(*platformv1.Application)) *platformv1.Application {
		app := application(namespace)
		app.Name, app.Labels = "direct-"+domain, map[string]string{platformv1.DomainLabel: domain}
		if domain == "" {
			app.Name, app.Labels = "direct", nil
		}
		edit(app)
		return app
	}
	version := func(app *platformv1.Application) { app.Spec.Version = "6.2" }
	refused(t, u.Create(t.Context(), labelled("database", version)), `"applications.database`, "6.2")
	refused(t, u.Create(t.Context(), labelled("", version)), `"unclaimed.database`, "6.2")
	if err := u.Create(t.Context(), labelled("message", version)); err != nil {
		t.Errorf("it is another operator's: %v", err)
	}
	u.warnings()
	unknown := func(app *platformv1.Application) { app.Spec.PluginVersion = "9.9.9" }
	for _, domain := range []string{"database", ""} {
		if err := u.Create(t.Context(), labelled(domain, unknown)); err != nil {
			t.Errorf("a plugin may come later: %v", err)
		}
		u.warned(t, "it will wait", "redis", "9.9.9")
	}
	r.nothingDenied()
	r.logMemory()
	r.latency(namespace)
}

// TestAmountsInMilliUnitsAreRefused proves that memory and storage in thousandths of a byte are refused, of a typed
// kind and of an Application.
func TestAmountsInMilliUnitsAreRefused(t *testing.T) {
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	u := newUser(t)
	amount := func(size, memory string) error {
		object := redis(namespace, "small", "maxclients", "100")
		for path, text := range map[string]string{"storage.size": size, "resources.limits.memory": memory} {
			if text == "" {
				continue
			}
			fields := append([]string{"spec"}, strings.Split(path, ".")...)
			if err := unstructured.SetNestedField(object.Object, text, fields...); err != nil {
				t.Fatal(err)
			}
		}
		return u.Create(t.Context(), object, client.DryRunAll)
	}
	refused(t, amount("500m", ""), "has storage of size 500m", "thousandths, here of a byte; write 500Mi for mebibytes")
	refused(t, amount("", "400m"), "has a limit of 400m of memory", "write 400Mi for mebibytes")
	if err := amount("500Mi", "400Mi"); err != nil {
		t.Error(err)
	}
	app := application(namespace)
	app.Labels = map[string]string{platformv1.DomainLabel: "database"}
	size := &platformv1.Storage{Size: resource.MustParse("500m")}
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis", Storage: size}}
	refused(t, u.Create(t.Context(), app, client.DryRunAll), "has storage of size 500m", "write 500Mi for mebibytes")
	r.nothingDenied()
}

// latency logs what the webhook adds to a change, and fails when that is felt even by the fastest.
func (r *release) latency(namespace string) {
	r.Helper()
	measure := func() (median, fastest time.Duration) {
		const rounds = 60
		var took []time.Duration
		for range rounds {
			began := time.Now()
			err := env.Client.Create(r.Context(), redis(namespace, "measured", "maxclients", "100"), client.DryRunAll)
			if err != nil {
				r.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		r.Logf("create of a Redis: median %v, 95th percentile %v", took[rounds/2].Round(10*time.Microsecond),
			took[rounds*95/100].Round(10*time.Microsecond))
		return took[rounds/2], took[0]
	}
	with, fastest := measure()
	configuration := r.configuration()
	if err := env.Client.Delete(r.Context(), configuration); err != nil {
		r.Fatal(err)
	}
	testkit.Eventually(r, "the API server asks nobody", func(ctx context.Context) error {
		return env.Client.Create(ctx, redis(namespace, "probe", "maxclient", "1"), client.DryRunAll)
	})
	without, alone := measure()
	r.Logf("the webhook adds %v to the median", (with - without).Round(10*time.Microsecond))
	if fastest-alone > time.Second {
		r.Errorf("it adds %v", fastest-alone)
	}
}

// configuration is the ValidatingWebhookConfiguration of the release.
func (r *release) configuration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	name := r.chart + "." + r.namespace
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// logMemory logs what the operator holds.
func (r *release) logMemory() {
	r.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS") {
			r.Logf("operator: %s", strings.TrimSpace(line))
		}
	}
}

// TestWebhookAway proves that without the operator an object is stored, that its condition then says the same, and that
// it can be edited and deleted as long as a change breaks nothing more.
func TestWebhookAway(t *testing.T) {
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	u := newUser(t)
	refusal := u.Create(t.Context(), redis(namespace, "bad", "maxclient", "1"))
	r.stop()

	bad := redis(namespace, "bad", "maxclient", "1")
	if err := u.Create(t.Context(), bad); err != nil {
		t.Fatalf("nobody is there to refuse it: %v", err)
	}
	r.start()
	r.judges(namespace)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-bad"}}
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	if says := conditions.Get(app, platformv1.StalledCondition).Message; refusal == nil ||
		!strings.Contains(refusal.Error(), says) {
		t.Errorf("the condition says %q, and the refusal was %v", says, refusal)
	}

	u.warnings()
	for _, body := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/a"]}}`} {
		if err := merge(t, u, bad, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	if heard := u.warnings(); len(heard) > 0 {
		t.Errorf("metadata is nobody's business: %q", heard)
	}
	if err := merge(t, u, bad, `{"spec":{"maxmemoryPolicy":"allkeys-lru"}}`); err != nil {
		t.Errorf("it breaks nothing more: %v", err)
	}
	u.warned(t, "still refused", "maxclient")
	refused(t, merge(t, u, bad, `{"spec":{"parameters":{"port":"1"}}}`), "port")
	u.warnings()
	if err := u.Delete(t.Context(), bad); err != nil {
		t.Errorf("it cannot be deleted: %v", err)
	}
	if err := merge(t, u, bad, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("its finalizer cannot be taken: %v", err)
	}
	testkit.WaitGone(t, env.Client, bad)
	r.nothingDenied()
}

// TestWebhookFailsClosed proves what failurePolicy Fail holds up, and what it never does.
func TestWebhookFailsClosed(t *testing.T) {
	r := install(t, "webhooks.failurePolicy=Fail")
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	u := newUser(t)
	good := redis(namespace, "good", "maxclients", "100")
	if err := u.Create(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for what, err := range map[string]error{
		"create": u.Create(t.Context(), redis(namespace, "other")),
		"change": merge(t, u, good.DeepCopy(), `{"spec":{"parameters":{"maxclients":"200"}}}`),
	} {
		if err == nil || apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// Of other domains nothing is held up, and of this one no metadata and no deletion.
	unclaimed := application(namespace)
	unclaimed.Name, unclaimed.Spec.Plugin = "unclaimed", "other"
	if err := u.Create(t.Context(), unclaimed); err != nil {
		t.Errorf("it may be any operator's: %v", err)
	}
	if err := merge(t, u, good, `{"metadata":{"finalizers":["example.com/a"]}}`); err != nil {
		t.Error(err)
	}
	if err := u.Delete(t.Context(), good); err != nil {
		t.Error(err)
	}
	if err := merge(t, u, good, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Error(err)
	}
	testkit.WaitGone(t, env.Client, good)
}

// TestWebhookCertificateComesBack proves that a lost certificate is made again, with the rights of the chart in some
// namespaces only, that a release which is applied again takes nothing away, and that elsewhere nobody is asked.
func TestWebhookCertificateComesBack(t *testing.T) {
	inside, outside := env.Namespace(t), env.Namespace(t)
	r := install(t, "watchNamespaces={"+inside+"}")
	r.start()
	r.judges(inside)
	if err := env.Client.Create(t.Context(), redis(outside, "bad", "maxclient", "1"), client.DryRunAll); err != nil {
		t.Errorf("it is in no namespace of the operator: %v", err)
	}
	configuration := r.configuration()
	bundle := func() []byte {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration); err != nil {
			t.Fatal(err)
		}
		return configuration.Webhooks[0].ClientConfig.CABundle
	}
	before := bundle()
	for _, object := range render(t, r.chart, r.namespace, "watchNamespaces={"+inside+"}") {
		if object.GetKind() != "ValidatingWebhookConfiguration" {
			continue
		}
		r.redirect(object)
		if err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("helm"),
			client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(bundle(), before) {
		t.Error("an upgrade took the authority out")
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: chartName + "-webhook"}}
	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another authority is trusted", func(context.Context) error {
		if bytes.Equal(bundle(), before) {
			return errors.New("it is the one before")
		}
		return nil
	})
	r.judges(inside)
	r.nothingDenied()
}

// TestWebhookOnEveryReplica proves that a replica which does not lead answers as the leader does, with the same
// certificate.
func TestWebhookOnEveryReplica(t *testing.T) {
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	standby := &release{T: t, chart: r.chart, namespace: r.namespace, account: r.account, arguments: r.arguments,
		webhook: testkit.FreeAddress(t)}
	standby.start()
	configuration := r.configuration()
	onlyStandby := func() {
		for i := range configuration.Webhooks {
			url := configuration.Webhooks[i].ClientConfig.URL
			*url = strings.Replace(*url, portOf(t, r.webhook), portOf(t, standby.webhook), 1)
			// Nobody answers but this replica.
			configuration.Webhooks[i].FailurePolicy = new(admissionregistrationv1.Fail)
		}
	}
	if err := testkit.Edit(t.Context(), env.Client, configuration, onlyStandby); err != nil {
		t.Fatal(err)
	}
	standby.judges(namespace)
	standby.nothingDenied()
}
