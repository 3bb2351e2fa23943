// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
)

// idle is how long an operator at rest is watched for writes.
const idle = 15 * time.Second

// TestLifeOfAnOperator goes through the life of two replicas: the first start in an
// empty cluster, rest, hand-over and restart.
func TestLifeOfAnOperator(t *testing.T) {
	namespace := env.Namespace(t)
	began := time.Now()
	first := run(t, namespace)
	first.waitReady()
	t.Logf("ready %v after the start in an empty cluster", time.Since(began).Round(time.Millisecond))
	holder := waitForLeader(t, namespace, "")
	expectDefinitions(t)

	s := create(t, "one")
	expectMetrics(t, first)

	second := run(t, namespace)
	second.waitReady()
	if now := leader(t, namespace); now != holder {
		t.Errorf("the second replica took the lead from %q: %q", holder, now)
	}

	expectNoWrites(t, "at rest", func() { observe(idle) })
	t.Logf("resident at rest: leader %s, other %s", resident(t, first), resident(t, second))

	began = time.Now()
	if code := first.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the leader ended with code %d after SIGTERM", code)
	}
	ended := time.Since(began)
	waitForLeader(t, namespace, holder)
	t.Logf("hand-over: the leader ended after %v, the other led after %v", ended.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	create(t, "two")

	if code := second.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the second leader ended with code %d after SIGTERM", code)
	}
	expectNothingDenied(t, first)
	expectNoWrites(t, "over a restart", func() {
		third := run(t, namespace)
		third.waitReady()
		waitForLeader(t, namespace, "")
		observe(idle / 3)
	})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil ||
		!conditions.IsTrue(s, platformv1.StalledCondition) {
		t.Errorf("after all this the status is %+v, %v", s.Status, err)
	}
}

// observe lets time pass in which nothing may happen.
func observe(period time.Duration) { <-time.After(period) }

// create makes a Sample and waits until the engine has said what it misses: there is no plugin here.
func create(t *testing.T, name string) *example.Sample {
	t.Helper()
	s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: name},
		Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	if reason := conditions.Get(s, platformv1.StalledCondition).Reason; reason != platformv1.ReasonPluginNotFound {
		t.Errorf("stalled with reason %s", reason)
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "sample-" + name}}
	testkit.WaitFor(t, env.Client, app, "exists", nil)
	for _, obj := range []platformv1.Conditioned{s, app} {
		if err := testkit.StatusLint(obj); err != nil {
			t.Errorf("the status of %T %q breaks %v", obj, obj.GetName(), err)
		}
	}
	return s
}

func expectDefinitions(t *testing.T) {
	t.Helper()
	for _, name := range []string{"applications.platform.zeroinfra.github.com", "samples.sample.zeroinfra.github.com"} {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		testkit.WaitFor(t, env.Client, definition, "has a revision", func() error {
			if definition.Annotations["platform.zeroinfra.github.com/crd-revision"] == "" {
				return fmt.Errorf("it has none")
			}
			return nil
		})
	}
}

func expectMetrics(t *testing.T, p *process) {
	t.Helper()
	wanted := []string{
		`zeroinfra_build_info{domain="database",version="1.2.3"} 1`,
		`zeroinfra_application_ready{application="`,
		`zeroinfra_reconcile_outcomes_total{controller="typed/sample",kind="`,
	}
	testkit.Eventually(t, "metrics", func(ctx context.Context) error {
		text, err := testkit.Get(ctx, "http://"+p.metric+"/metrics")
		if err != nil {
			return err
		}
		var samples example.SampleList
		var apps platformv1.ApplicationList
		for _, line := range append(wanted, stalled(ctx, "Sample", &samples), stalled(ctx, "Application", &apps,
			client.MatchingLabels{platformv1.DomainLabel: "database"})) {
			if !strings.Contains(text, line) {
				return fmt.Errorf("no %s", line)
			}
		}
		return nil
	})
}

// stalled is what the metrics are to say of the objects of a kind that are Stalled: other tests leave some.
func stalled(ctx context.Context, kind string, list client.ObjectList, options ...client.ListOption) string {
	if err := env.Client.List(ctx, list, options...); err != nil {
		return err.Error()
	}
	count := 0
	_ = meta.EachListItem(list, func(item runtime.Object) error { // It returns what the function returns.
		if obj, is := item.(platformv1.Conditioned); is && conditions.IsTrue(obj, platformv1.StalledCondition) {
			count++
		}
		return nil
	})
	return fmt.Sprintf(`zeroinfra_condition{kind=%q,status="True",type="Stalled"} %d`+"\n", kind, count)
}

// expectNoWrites fails when the API server served a write meanwhile, leases left out.
func expectNoWrites(t *testing.T, when string, do func()) {
	t.Helper()
	before, err := env.ServedWrites(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	do()
	after, err := env.ServedWrites(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for resource, count := range after {
		if n := count - before[resource]; n != 0 {
			t.Errorf("%s: %d writes of %s", when, n, resource)
		}
	}
}

func leader(t *testing.T, namespace string) string {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "database-operator.zeroinfra.github.com"}}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// waitForLeader waits until the lease has a holder other than this one.
func waitForLeader(t *testing.T, namespace, other string) string {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "database-operator.zeroinfra.github.com"}}
	testkit.WaitFor(t, env.Client, lease, "has a holder", func() error {
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder == "" || holder == other {
			return fmt.Errorf("it is %q", holder)
		}
		return nil
	})
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// Without its definitions, and told not to install them, an operator says so and is not ready.
func TestAnOperatorWaitsForItsDefinitions(t *testing.T) {
	namespace := env.Namespace(t)
	name := "samples.sample.zeroinfra.github.com"
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := env.Client.Delete(t.Context(), definition); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, definition)
	waiting := run(t, namespace, "--install-crds=false")
	testkit.Eventually(t, "a log line about it", func(context.Context) error {
		if text := waiting.output.String(); !strings.Contains(text, name) || !strings.Contains(text, "administrator") {
			return fmt.Errorf("no word of it in:\n%s", text)
		}
		return nil
	})
	if _, err := testkit.Get(t.Context(), "http://"+waiting.health+"/readyz"); err == nil {
		t.Error("it is ready without its definitions")
	}
	// Another replica, which may install them, helps it out.
	other := run(t, namespace)
	other.waitReady()
	waiting.waitReady()
	expectNothingDenied(t, other)
}

func TestABadStartEndsWithCode1(t *testing.T) {
	p := run(t, env.Namespace(t), "--workers=0")
	if code := p.exitCode(); code != 1 || !strings.Contains(p.output.String(), "--workers") {
		t.Errorf("code %d, output %q", code, p.output)
	}
}

func resident(t *testing.T, p *process) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if size, found := strings.CutPrefix(line, "VmRSS:"); found {
			return strings.TrimSpace(size)
		}
	}
	return "unknown"
}
