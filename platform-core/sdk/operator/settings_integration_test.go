// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
)

// tuned is a running operator and the ConfigMap with its settings.
type tuned struct {
	*process
	settings *corev1.ConfigMap
}

// set makes or replaces what the ConfigMap holds.
func (o *tuned) set(data map[string]string) {
	o.Helper()
	o.settings.Data = data
	write := env.Client.Update
	if o.settings.UID == "" {
		write = func(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
			return env.Client.Create(ctx, obj)
		}
	}
	if err := write(o.Context(), o.settings); err != nil {
		o.Fatal(err)
	}
}

// waitMetrics waits for lines among the metrics.
func (o *tuned) waitMetrics(lines ...string) {
	o.Helper()
	testkit.Eventually(o, "metrics", func(ctx context.Context) error {
		text, err := testkit.Get(ctx, "http://"+o.metric+"/metrics")
		if err != nil {
			return err
		}
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				return fmt.Errorf("no %s", line)
			}
		}
		return nil
	})
}

func (o *tuned) said(text string) int { return strings.Count(o.output.String(), text) }

func newTuned(t *testing.T, data map[string]string) *tuned {
	t.Helper()
	namespace := env.Namespace(t)
	o := &tuned{process: &process{T: t},
		settings: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database-operator-settings"}}}
	if data != nil {
		o.set(data)
	}
	// They serve different namespaces, so that two can work at once.
	o.process = run(t, namespace, "--watch-namespaces="+namespace)
	o.waitReady()
	waitForLeader(t, namespace, "")
	return o
}

// TestSettingsTakeEffectAtRunTime changes each setting of a running operator. What the image registry, the cluster's
// domain, the managers of GitOps and the interval of Entities do is tested where they are used.
func TestSettingsTakeEffectAtRunTime(t *testing.T) {
	o := newTuned(t, map[string]string{"workers": "3", "logLevel": "info"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 3`, `zeroinfra_setting{name="kubeApi.qps"} 500`,
		"zeroinfra_settings_refused 0")

	o.set(map[string]string{"workers": "7", "kubeApi.qps": "300", "kubeApi.burst": "900", "logLevel": "error"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 7`, `zeroinfra_setting{name="kubeApi.qps"} 300`,
		`zeroinfra_setting{name="kubeApi.burst"} 900`)
	quiet := o.said("uses settings")
	o.set(map[string]string{"workers": "8", "logLevel": "error"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 8`, `zeroinfra_setting{name="kubeApi.qps"} 500`)
	if got := o.said("uses settings"); got != quiet {
		t.Errorf("at level error it still tells of settings: %d lines, before %d", got, quiet)
	}
	o.set(map[string]string{"logLevel": "debug"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 10`)
	if got := o.said("uses settings"); got != quiet+1 {
		t.Errorf("at level debug it does not tell of settings: %d lines, before %d", got, quiet)
	}

	if err := env.Client.Delete(t.Context(), o.settings); err != nil {
		t.Fatal(err)
	}
	o.settings.UID, o.settings.ResourceVersion = "", ""
	o.set(map[string]string{"workers": "2"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 2`)
	expectNothingDenied(t, o.process)
}

// What cannot work is told in an event, a metric and a log line, and what worked before stays.
func TestBrokenSettingsAreRefused(t *testing.T) {
	o := newTuned(t, map[string]string{"workers": "3"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 3`)
	o.set(map[string]string{"workers": "none", "logLevel": "loud", "wrokers": "4"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 3`, "zeroinfra_settings_refused 1")
	o.expectEvent("workers", "logLevel", "wrokers")
	if o.said("refused settings") != 1 {
		t.Errorf("the log tells of it %d times", o.said("refused settings"))
	}
	o.set(map[string]string{"workers": "4"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 4`, "zeroinfra_settings_refused 0")

	// They keep no operator from starting.
	o = newTuned(t, map[string]string{"workers": "none"})
	o.waitMetrics(`zeroinfra_setting{name="workers"} 10`, "zeroinfra_settings_refused 1")
	o.expectEvent("workers")
	expectNothingDenied(t, o.process)
}

// expectEvent waits for the event on the ConfigMap that names these settings.
func (o *tuned) expectEvent(names ...string) {
	o.Helper()
	testkit.Eventually(o, "the event on the ConfigMap", func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := env.Client.List(ctx, &list, client.InNamespace(o.settings.Namespace)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason != "InvalidSettings" || e.Type != corev1.EventTypeWarning || e.Regarding.Name != o.settings.Name {
				continue
			}
			for _, name := range names {
				if !strings.Contains(e.Note, name) {
					return fmt.Errorf("it does not name %s: %s", name, e.Note)
				}
			}
			return nil
		}
		return fmt.Errorf("there is none among %d", len(list.Items))
	})
}

// The limit of requests holds for all kinds together, is felt when it is changed, and does not cost the lease.
func TestRequestsAreLimitedAtRunTime(t *testing.T) {
	o := newTuned(t, nil)
	const qps, burst, period = 2, 2, 6 * time.Second
	o.set(map[string]string{"kubeApi.qps": fmt.Sprint(qps), "kubeApi.burst": fmt.Sprint(burst)})
	o.waitMetrics(fmt.Sprintf(`zeroinfra_setting{name="kubeApi.qps"} %d`, qps))
	// It serves its own namespace alone.
	namespace := o.settings.Namespace
	before := o.requests()
	began := time.Now()
	for i := range 10 {
		s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("s%d", i)},
			Spec: example.SampleSpec{Version: "7.0"}}
		if err := env.Client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	observe(period)
	count, passed := o.requests()-before, time.Since(began)
	// Some more for what was on its way when the limit came; without one, all are made at once.
	if most := 2 * (int(passed.Seconds()*qps) + burst); count > most || count < 2 {
		t.Errorf("%d requests in %v, want at most %d and some", count, passed, most)
	}
	o.set(map[string]string{"kubeApi.qps": "500", "kubeApi.burst": "500"})
	for i := range 10 {
		s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("s%d", i)}}
		testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	}
	if rest, took := o.requests()-before-count, time.Since(began)-passed; float64(rest) < qps*took.Seconds() {
		t.Errorf("with a high limit, %d requests took %v", rest, took)
	}
	waitForLeader(t, o.settings.Namespace, "")
}

// requests returns how many the operator has made that its limit is for.
func (o *tuned) requests() int {
	o.Helper()
	found, err := env.Accesses(o.account.User)
	if err != nil {
		o.Fatal(err)
	}
	sum := 0
	for access, count := range found {
		if access.Resource != "leases" {
			sum += count
		}
	}
	return sum
}
