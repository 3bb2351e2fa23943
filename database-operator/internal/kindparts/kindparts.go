// SPDX-License-Identifier: Apache-2.0

// Package kindparts is what the kinds of this operator have alike: parts of their specs as an Application has them, and of its status as they
// tell it.
package kindparts

import (
	"cmp"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

const (
	// PasswordKey is the key of a Secret that names none.
	PasswordKey = "password"
	// Primary is the role of a pod that takes writes.
	Primary = "primary"
	// Replica is the role of one that follows it.
	Replica = "replica"
	// Healthy is what the engine says of a pod whose server answers.
	Healthy = "Healthy"
)

// Running is written down only where it is false: true is the default.
func Running(wanted *bool) *bool {
	if wanted == nil || *wanted {
		return nil
	}
	return new(false)
}

// Storage of each pod. byDefault is its size where none is said.
func Storage(size resource.Quantity, class *string, byDefault resource.Quantity) *platformv1.Storage {
	if size.IsZero() {
		size = byDefault
	}
	return (&platformv1.Storage{Size: size, StorageClassName: class}).DeepCopy()
}

// Credentials says where the password of a credential comes from; nil for one that is made.
func Credentials(name string, auth *databasev1.Auth) []platformv1.Credential {
	if auth == nil {
		return nil
	}
	return []platformv1.Credential{{Name: name, PasswordFrom: *PasswordFrom(&auth.PasswordFrom)}}
}

// PasswordFrom is a reference with its key, which is password where none is said; nil for none.
func PasswordFrom(from *platformv1.SecretKeyReference) *platformv1.SecretKeyReference {
	if from == nil {
		return nil
	}
	return &platformv1.SecretKeyReference{Name: from.Name, Key: cmp.Or(from.Key, PasswordKey)}
}

// Failover of a primary whose replicas take over when the engine says so; nil for the default.
func Failover(f *databasev1.Failover) *platformv1.Failover {
	if f == nil {
		return nil
	}
	return (&platformv1.Failover{Mode: f.Mode, After: f.After}).DeepCopy()
}

// Number is a whole number as a parameter.
func Number(n int32) platformv1.ParameterValue {
	return platformv1.ParameterValue(strconv.Itoa(int(n)))
}

// Endpoint returns the address of the Service for pods of a role; empty when there is none.
func Endpoint(all []platformv1.Endpoint, role string) string {
	for _, e := range all {
		if e.Role == role {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}

// Members are the pods of an Application that have a role.
func Members(app *platformv1.Application) []databasev1.Member {
	var members []databasev1.Member
	for _, c := range app.Status.Components {
		for _, pod := range c.Pods {
			if pod.Role != "" {
				members = append(members, databasev1.Member{Name: pod.Name, Role: pod.Role})
			}
		}
	}
	return members
}

// Changes of the pod that writes are the latest ones of a component, the last one last, with which its Application's status shares nothing.
func Changes(c platformv1.ComponentState) []platformv1.WriterChange {
	var changes []platformv1.WriterChange
	for _, set := range c.DeepCopy().Sets {
		changes = append(changes, set.Changes...)
	}
	return changes
}

// HealthyIn counts the pods of a role, empty for any, whose server answers.
func HealthyIn(pods []platformv1.PodState, role string) int {
	n := 0
	for _, pod := range pods {
		if pod.Health == Healthy && (role == "" || pod.Role == role) {
			n++
		}
	}
	return n
}
