// SPDX-License-Identifier: Apache-2.0

package application

import (
	"testing"

	"k8s.io/utils/ptr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

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
