// SPDX-License-Identifier: Apache-2.0

package application

import (
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
)

// Clients of what is not in the pods are told where it is, as they are told where a Service is.
func TestReportOfWhatIsElsewhere(t *testing.T) {
	bundle, _, errs := pluginfolder.Load(filepath.Join("..", "..", "..", "..", "storage-operator", "plugins",
		"s3-external", "1.0.0"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	keeper := &platformv1.Component{}
	app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Topology: "external"}}
	for _, c := range []struct {
		components map[string]*platformv1.Component
		endpoint   platformv1.ParameterValue
		want       []platformv1.Endpoint
	}{
		{nil, "https://s3.example.com", nil},
		{map[string]*platformv1.Component{"keeper": keeper}, "https://s3.example.com",
			[]platformv1.Endpoint{{Name: "s3", Host: "s3.example.com", Port: 443}}},
		{map[string]*platformv1.Component{"keeper": keeper}, "", nil},
	} {
		keeper.Spec.Parameters = platformv1.Parameters{"endpoint": c.endpoint}
		report(app, &facts{components: c.components, state: plugin.State{Bundle: bundle}})
		if !slices.Equal(app.Status.Endpoints, c.want) {
			t.Errorf("at %q, clients are told %+v, want %+v", c.endpoint, app.Status.Endpoints, c.want)
		}
	}
}

func TestReportWriter(t *testing.T) {
	const none = int64(-1)
	component := func(failover *platformv1.Failover, copies ...int32) *platformv1.Component {
		c := &platformv1.Component{}
		c.Spec.Failover = failover
		for _, n := range copies {
			c.Status.Sets = append(c.Status.Sets, platformv1.SetState{Term: 7, SynchronousReplicas: n})
		}
		return c
	}
	decided := &platformv1.Failover{}
	for name, c := range map[string]struct {
		components map[string]*platformv1.Component
		durability platformv1.Durability
		window     int64
		term       int64
	}{
		"nothing is known":       {nil, "", none, 0},
		"the middleware decides": {map[string]*platformv1.Component{"a": component(nil, 1)}, "", none, 0},
		"each write has a copy": {map[string]*platformv1.Component{"a": component(decided, 1)},
			platformv1.DurabilitySynchronous, 0, 7},
		"no write has": {map[string]*platformv1.Component{"a": component(decided, 0)},
			platformv1.DurabilityAsynchronous, none, 7},
		"those of one set have": {map[string]*platformv1.Component{"a": component(decided, 1, 0)},
			platformv1.DurabilityAsynchronous, none, 0},
		"those of one component have": {map[string]*platformv1.Component{"a": component(decided, 0),
			"b": component(decided, 2)}, platformv1.DurabilityAsynchronous, none, 0},
		"beside another component": {map[string]*platformv1.Component{"a": component(nil, 0), "b": component(decided, 2)},
			platformv1.DurabilitySynchronous, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			// What is no longer so does not stay in the status.
			app := &platformv1.Application{Status: platformv1.ApplicationStatus{Term: 3, Durability: "old",
				LossWindowSeconds: ptr.To(int64(9))}}
			reportWriter(app, &facts{components: c.components})
			if got := ptr.Deref(app.Status.LossWindowSeconds, none); app.Status.Durability != c.durability || got != c.window ||
				app.Status.Term != c.term {
				t.Errorf("durability %q, window %d, term %d, want %q, %d, %d", app.Status.Durability, got, app.Status.Term,
					c.durability, c.window, c.term)
			}
		})
	}
}
