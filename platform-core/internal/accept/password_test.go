// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Of the shipped redis, a server that is alone takes over another password and other TLS at once. Servers that log in
// at each other take one over beside the one before, and other TLS while they are stopped only.
func TestRedisThatIsNotAlone(t *testing.T) {
	bundle := loadVersion(t, "redis", "1.0.0").State.Bundle
	const passwordHeld, tlsRefused = "is in no Secret any more", "cannot change while it runs"
	for name, test := range map[string]struct {
		topology      string
		was, is, pods int
		running       bool
		password, tls string
	}{
		"standalone":            {topology: "standalone", was: 1, is: 1, pods: 1, running: true},
		"primary alone":         {topology: "replication", was: 1, is: 1, pods: 1, running: true},
		"replicas":              {"replication", 3, 3, 3, true, passwordHeld, tlsRefused},
		"replicas that come":    {"replication", 1, 3, 1, true, passwordHeld, tlsRefused},
		"replicas that go":      {"replication", 3, 1, 3, true, passwordHeld, tlsRefused},
		"replicas that went":    {"replication", 1, 1, 2, true, passwordHeld, tlsRefused},
		"replicas, stopping":    {"replication", 3, 3, 2, false, passwordHeld, tlsRefused},
		"replicas, stopped":     {topology: "replication", was: 3, is: 3},
		"under Sentinel":        {"sentinel", 3, 3, 3, true, passwordHeld, tlsRefused},
		"a cluster":             {"cluster", 2, 2, 6, true, passwordHeld, tlsRefused},
		"a cluster of one each": {"cluster", 1, 1, 3, true, passwordHeld, tlsRefused},
		"a cluster, stopped":    {topology: "cluster", was: 2, is: 2},
	} {
		t.Run(name, func(t *testing.T) {
			component := "redis"
			if test.topology == "cluster" {
				component = "node"
			}
			app := func(replicas int) *platformv1.Application {
				return testkit.BuildApplication("shop", "db").Plugin("redis", "1.0.0").Version("8.0").Topology(test.topology).
					Component(component, int32(replicas)).Build()
			}
			view := bundle.In(test.topology)
			before, refusal := render.Components(view, app(test.was))
			if refusal != nil {
				t.Fatal(refusal.Message)
			}
			f := Facts{Components: map[string]*platformv1.Component{}}
			f.State.Bundle = view
			for _, spec := range before {
				spec.Running = &test.running
				f.Components[spec.Component] = &platformv1.Component{Spec: spec, Status: platformv1.ComponentStatus{
					Sets: []platformv1.SetState{{Name: "main"}}, Pods: make([]platformv1.PodState, test.pods),
				}}
			}
			with := app(test.is)
			with.Spec.TLS = &platformv1.TLS{Enabled: true}
			wanted, refusal := render.Components(view, with)
			if refusal != nil {
				t.Fatal(refusal.Message)
			}
			reason := ""
			if test.tls != "" {
				reason = platformv1.ReasonInvalidSpec
			}
			expect(t, render.Join(tlsChanges(f, wanted)), reason, test.tls)
			if reason = ""; test.password != "" {
				reason = platformv1.ReasonPasswordHeld
			}
			declared, _ := view.Credential("default")
			expect(t, Password(declared, test.topology, f.Components, wanted), reason, test.password)
			expect(t, Password(declared, test.topology, nil, wanted), "", "")
		})
	}
}
