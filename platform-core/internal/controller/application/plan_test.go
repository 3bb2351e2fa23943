// SPDX-License-Identifier: Apache-2.0

package application

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func testApp() *platformv1.Application {
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "redis-a", Namespace: "ns", Generation: 1},
		Spec: platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0",
			Topology: "standalone"},
	}
}

func checkRefusal(t *testing.T, refused *outcome.Outcome, reason, says string) {
	t.Helper()
	if reason == "" {
		if refused != nil {
			t.Fatalf("refused: %s %s", refused.Reason(), refused.Message())
		}
		return
	}
	if refused == nil || refused.Kind() != outcome.KindStalled || refused.Reason() != reason ||
		!strings.Contains(refused.Message(), says) {
		t.Fatalf("got %+v, want reason %s saying %q", refused, reason, says)
	}
}

func TestCheckSecrets(t *testing.T) {
	app := testApp()
	supplied := []platformv1.Credential{
		{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "mine", Key: "password"}}}
	checkRefusal(t, checkSecrets(app, &facts{supplied: supplied}), platformv1.ReasonSecretNotFound, `Secret "mine"`)
	checkRefusal(t, checkSecrets(app, &facts{supplied: supplied, passwords: map[string]string{"default": "x"}}), "", "")
	refused := &facts{supplied: supplied, unusable: map[string]string{"default": "it ends with a newline"}}
	checkRefusal(t, checkSecrets(app, refused), platformv1.ReasonSecretInvalid,
		`credential "default": it ends with a newline`)
}

func TestSettleFollowsTheComponents(t *testing.T) {
	wanted := []platformv1.ComponentSpec{{Component: "redis"}}
	if o := settle(testApp(), &facts{}, wanted, nil); o.Kind() != outcome.KindWaiting {
		t.Errorf("absent component: %v", o.Kind())
	}
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "redis-a-redis", Generation: 1}}
	f := &facts{components: map[string]*platformv1.Component{"redis": component}}
	conditions.Report(component, outcome.Done(), "fine")
	if o := settle(testApp(), f, wanted, nil); o.Kind() != outcome.KindDone {
		t.Errorf("ready component: %v", o.Kind())
	}
	component.Generation = 2
	if o := settle(testApp(), f, wanted, nil); o.Kind() != outcome.KindWaiting {
		t.Errorf("component that has not seen its spec: %v", o.Kind())
	}
	conditions.Report(component, outcome.Stalled("VolumeShrinkRefused", "no"), "")
	if o := settle(testApp(), f, wanted, nil); o.Kind() != outcome.KindStalled || o.Reason() != "VolumeShrinkRefused" {
		t.Errorf("stalled component: %v %s", o.Kind(), o.Reason())
	}
}

// Whatever a component waits for that is updated first, the Application names it, and who waits for it.
func TestSettleNamesComponentsThatWaitForTheirTurn(t *testing.T) {
	broker := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "broker", Generation: 1}}
	controller := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "controller", Generation: 1}}
	f := &facts{components: map[string]*platformv1.Component{"broker": broker, "controller": controller}}
	wanted := []platformv1.ComponentSpec{{Component: "broker"}, {Component: "controller"}}
	turn := outcome.Waiting(platformv1.ReasonUpdateOrder, "waits for component broker")
	for name, test := range map[string]struct {
		broker, controller outcome.Outcome
		reason, says       string
	}{
		"it is being updated": {outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 updated"), turn,
			platformv1.ReasonPodsNotReady,
			"component broker: 1 of 3 updated; component controller waits for its turn to be updated"},
		"it cannot be": {outcome.Stalled(platformv1.ReasonInvalidSpec, "mend it"), turn, platformv1.ReasonInvalidSpec,
			"component broker: mend it; component controller waits for its turn to be updated"},
		"it has been, a moment ago": {outcome.Done(), turn, platformv1.ReasonUpdateOrder,
			"component controller: waits for component broker"},
		"nobody waits": {outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 updated"), outcome.Done(),
			platformv1.ReasonPodsNotReady, "component broker: 1 of 3 updated"},
	} {
		conditions.Report(broker, test.broker, "")
		conditions.Report(controller, test.controller, "")
		o := settle(testApp(), f, wanted, nil)
		if o.Reason() != test.reason || o.Message() != test.says {
			t.Errorf("%s: it says %s %q, want %s %q", name, o.Reason(), o.Message(), test.reason, test.says)
		}
	}
}
