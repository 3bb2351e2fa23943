// SPDX-License-Identifier: Apache-2.0

// Package kindparts is what the kinds of this operator have alike, beside what all instances have (typed.Instance):
// parts of their specs as an Application has them, and of its status as they tell it.
package kindparts

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

const (
	// Primary is the role of a pod that takes writes.
	Primary = "primary"
	// Replica is the role of one that follows it.
	Replica = "replica"
)

// Credentials says where the password of a credential comes from; nil for one that is made.
func Credentials(name string, auth *databasev1.Auth) []platformv1.Credential {
	if auth == nil {
		return nil
	}
	return typed.Credentials(name, &auth.PasswordFrom)
}

// Failover of a primary whose replicas take over when the engine says so; nil for the default.
func Failover(f *databasev1.Failover) *platformv1.Failover {
	if f == nil {
		return nil
	}
	return (&platformv1.Failover{Mode: f.Mode, After: f.After}).DeepCopy()
}

// Autoscaling counts pods where an object counts the replicas beside the primary; nil for none.
func Autoscaling(a *databasev1.ReplicaAutoscaling) *platformv1.Autoscaling {
	if a == nil {
		return nil
	}
	from := a.DeepCopy()
	return &platformv1.Autoscaling{MinReplicas: from.MinReplicas + 1, MaxReplicas: from.MaxReplicas + 1,
		AutoscalingTargets: from.AutoscalingTargets}
}

// ReportReplicated tells of the primary and the replicas that a component of an Application has. The number of
// replicas and the changes of the primary are told where the component has any.
func ReportReplicated(s *databasev1.ReplicatedStatus, app *platformv1.Application, component string) {
	from := app.Status.DeepCopy()
	*s = databasev1.ReplicatedStatus{
		Primary: from.Primary, Term: from.Term, Durability: from.Durability, LossWindowSeconds: from.LossWindowSeconds,
		ReadOnlyEndpoint: typed.EndpointOf(app, Replica),
	}
	for _, c := range from.Components {
		if c.Name != component {
			continue
		}
		s.Replicas = fmt.Sprintf("%d/%d", typed.HealthyPods(c.Pods, Replica), max(c.Replicas-1, 0))
		for _, set := range c.Sets {
			s.Changes = append(s.Changes, set.Changes...)
		}
	}
}
