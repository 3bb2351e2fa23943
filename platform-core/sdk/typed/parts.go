// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"cmp"
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// Healthy is the health of a pod whose server answers.
	Healthy = "Healthy"
	// PasswordKey is the key of a Secret that holds a password, for a reference that names none.
	PasswordKey = "password"
	// AuthorityKey is the key of a Secret that holds authorities as PEM, for a reference that names none.
	AuthorityKey = "ca.crt"
)

// HealthyPods counts the pods of a role, empty for any, whose server answers.
func HealthyPods(pods []platformv1.PodState, role string) int {
	n := 0
	for _, pod := range pods {
		if pod.Health == Healthy && (role == "" || pod.Role == role) {
			n++
		}
	}
	return n
}

// HealthyOf says how many pods of a component answer and how many it is to have, as "2/3".
func HealthyOf(c *platformv1.ComponentState) string {
	return fmt.Sprintf("%d/%d", HealthyPods(c.Pods, ""), c.Replicas)
}

// SetsOf returns the states of the sets of all components of an Application.
func SetsOf(app *platformv1.Application) []platformv1.SetState {
	var sets []platformv1.SetState
	for _, c := range app.Status.Components {
		sets = append(sets, c.Sets...)
	}
	return sets
}

// PasswordFrom returns a reference with its key, PasswordKey where it names none; nil for nil.
func PasswordFrom(from *platformv1.SecretKeyReference) *platformv1.SecretKeyReference {
	if from == nil {
		return nil
	}
	return &platformv1.SecretKeyReference{Name: from.Name, Key: cmp.Or(from.Key, PasswordKey)}
}

// Credentials returns the one credential whose password a user supplies; nil for one that is generated.
func Credentials(name string, from *platformv1.SecretKeyReference) []platformv1.Credential {
	if from == nil {
		return nil
	}
	return []platformv1.Credential{{Name: name, PasswordFrom: *PasswordFrom(from)}}
}

// Supplied returns a credential that a user has put under a key of a Secret.
func Supplied(credential, secret, key string) platformv1.Credential {
	return platformv1.Credential{Name: credential, PasswordFrom: platformv1.SecretKeyReference{Name: secret, Key: key}}
}

// Authority returns the one credential that is the authorities which a user supplies; nil for none.
func Authority(credential string, from *platformv1.AuthorityReference) []platformv1.Credential {
	if from == nil {
		return nil
	}
	return []platformv1.Credential{Supplied(credential, from.Name, cmp.Or(from.Key, AuthorityKey))}
}
