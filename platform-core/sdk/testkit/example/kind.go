// SPDX-License-Identifier: Apache-2.0

package example

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// Kind teaches the frame the kind Sample.
type Kind struct{}

var (
	_ typed.Kind[*Sample]      = Kind{}
	_ typed.Suspender[*Sample] = Kind{}
	_ typed.Reporter[*Sample]  = Kind{}
)

// Name implements typed.Kind.
func (Kind) Name() string { return "Sample" }

// New implements typed.Kind.
func (Kind) New() *Sample { return &Sample{} }

// Compile implements typed.Kind.
func (Kind) Compile(s *Sample) (*typed.Output, error) {
	if s.Spec.Replicas > 5 {
		return nil, fmt.Errorf("spec.replicas: %d is too many, a Sample has at most 5", s.Spec.Replicas)
	}
	app := &platformv1.Application{Spec: platformv1.ApplicationSpec{
		Plugin: "redis", PluginVersion: "1.0.0", Version: s.Spec.Version, Topology: "standalone",
		Components:     []platformv1.ApplicationComponent{{Name: "redis", Replicas: &s.Spec.Replicas}},
		DeletionPolicy: s.Spec.DeletionPolicy,
	}}
	return &typed.Output{Application: app, Entities: users(s)}, nil
}

// Report implements typed.Reporter.
func (Kind) Report(s *Sample, app *platformv1.Application) {
	s.Status.Host = ""
	for _, endpoint := range app.Status.Endpoints {
		s.Status.Host = endpoint.Host
	}
}

// users are the Entities of a Sample.
func users(s *Sample) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for _, name := range s.Spec.Users {
		specs = append(specs, platformv1.EntitySpec{Type: "acl-user", Name: name, DeletionPolicy: platformv1.EntityDelete})
	}
	return specs
}

// Suspended implements typed.Suspender.
func (Kind) Suspended(s *Sample) bool { return s.Spec.Suspend }
