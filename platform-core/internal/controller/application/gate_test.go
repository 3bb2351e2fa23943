// SPDX-License-Identifier: Apache-2.0

package application

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// threeTier is web, which needs app, which needs db.
func threeTier() *facts {
	return &facts{
		state: plugin.State{Bundle: &plugin.Bundle{Components: schema.Components{Components: []schema.Component{
			{Name: "web", Needs: []string{"app"}}, {Name: "app", Needs: []string{"db"}}, {Name: "db"},
		}}}},
		components: map[string]*platformv1.Component{},
	}
}

// states of a component in the tests of the gate.
var states = map[string]func(*platformv1.Component){
	"ready":    func(c *platformv1.Component) { conditions.Report(c, outcome.Done(), "fine") },
	"ill":      func(c *platformv1.Component) { conditions.Report(c, outcome.Waiting("PodsNotReady", "ill"), "") },
	"stopping": func(c *platformv1.Component) { conditions.Report(c, outcome.Waiting("PodsNotReady", "ends"), "") },
	"stopped": func(c *platformv1.Component) {
		conditions.Report(c, outcome.DoneAs(platformv1.ReasonStopped, "gone"), "")
	},
	// Its status still speaks of the generation before.
	"unseen": func(c *platformv1.Component) { conditions.Report(c, outcome.Done(), "fine"); c.Generation++ },
}

func TestGate(t *testing.T) {
	stopped := []string{"stopped", "stopping"}
	for name, test := range map[string]struct {
		asked bool
		// are lists "component state".
		are  []string
		runs string
		says string
	}{
		"new":                   {true, nil, "db", "app: waiting for component db to be ready"},
		"the need is not ready": {true, []string{"db ill"}, "db", "app: waiting for component db"},
		"the need is ready": {true, []string{"db ready", "app stopped", "web stopped"}, "app db",
			"web: waiting for component app"},
		"the need was just told to run": {true, []string{"db unseen", "app stopped", "web stopped"}, "db",
			"app: waiting for component db"},
		"all ready":         {true, []string{"db ready", "app ready", "web stopped"}, "app db web", ""},
		"what runs goes on": {true, []string{"db ill", "app ready", "web ready"}, "app db web", ""},
		"the stop begins at the top": {false, []string{"db ready", "app ready", "web ready"}, "app db",
			"app: stops once component web has stopped"},
		"the stop waits for the pods": {false, []string{"db ready", "app ready", "web stopping"}, "app db",
			"db: stops once component app has stopped"},
		"the stop goes down": {false, []string{"db ready", "app ready", "web stopped"}, "db",
			"db: stops once component app has stopped"},
		"the stop ends":                {false, []string{"db ready", "app stopped", "web stopped"}, "", ""},
		"made stopped":                 {false, nil, "", ""},
		"a start while still stopping": {true, []string{"db ready", "app ready", "web stopping"}, "app db web", ""},
		"a start after everything ended": {true, []string{"db stopped", "app stopped", "web stopped"}, "db",
			"web: waiting for component app"},
	} {
		t.Run(name, func(t *testing.T) {
			f := threeTier()
			for _, text := range test.are {
				component, state, _ := strings.Cut(text, " ")
				obj := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: component, Generation: 1}}
				obj.Spec.Running = new(!slices.Contains(stopped, state))
				states[state](obj)
				f.components[component] = obj
			}
			app := testApp()
			app.Spec.Running = new(test.asked)
			var wanted []platformv1.ComponentSpec
			for _, component := range []string{"web", "app", "db"} {
				wanted = append(wanted, platformv1.ComponentSpec{Component: component, Running: new(test.asked)})
			}
			held := gate(app, f, wanted)
			var runs, says []string
			for _, spec := range wanted {
				if spec.IsRunning() {
					runs = append(runs, spec.Component)
				}
			}
			slices.Sort(runs)
			for _, component := range slices.Sorted(maps.Keys(held)) {
				says = append(says, component+": "+held[component])
			}
			if got := strings.Join(runs, " "); got != test.runs {
				t.Errorf("%q run, want %q", got, test.runs)
			}
			if got := strings.Join(says, "; "); !strings.Contains(got, test.says) || test.says == "" && got != "" {
				t.Errorf("it says %q, want %q", got, test.says)
			}
		})
	}
}

func TestSettleTellsWhatAComponentWaitsFor(t *testing.T) {
	f := threeTier()
	db := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "db", Generation: 1}}
	web := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1},
		Spec: platformv1.ComponentSpec{Running: new(false)}}
	states["ready"](db)
	states["stopped"](web)
	f.components["db"], f.components["web"] = db, web
	wanted := []platformv1.ComponentSpec{{Component: "db"}, {Component: "web"}}
	o := settle(testApp(), f, wanted, waits{"web": "waiting for component app to be ready"})
	if o.Kind() != outcome.KindWaiting || o.Reason() != platformv1.ReasonNeedNotReady ||
		o.Message() != "component web: waiting for component app to be ready" {
		t.Errorf("got %v %s %q", o.Kind(), o.Reason(), o.Message())
	}
	// The worst component speaks, and says who it is.
	conditions.Report(db, outcome.Stalled("VolumeShrinkRefused", "no"), "")
	if o = settle(testApp(), f, wanted, waits{"web": "waiting"}); o.Kind() != outcome.KindStalled ||
		o.Message() != "component db: no" {
		t.Errorf("got %v %q", o.Kind(), o.Message())
	}
	stopped := testApp()
	stopped.Spec.Running = new(false)
	states["stopped"](db)
	if o = settle(stopped, f, wanted, nil); o.Kind() != outcome.KindDone || o.Reason() != platformv1.ReasonStopped {
		t.Errorf("got %v %s", o.Kind(), o.Reason())
	}
}
