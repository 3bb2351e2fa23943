// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InferenceIdle says when there are no servers, and how requests wait for them then.
type InferenceIdle struct {
	// after is how long no request has to come until the servers go, in whole seconds from 1m to 24h. Default 10m.
	// Another one restarts the doors, one after the other.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h') && duration(self).getMilliseconds() % 1000 == 0",message="idle.after must be whole seconds from 1m to 24h"
	After *metav1.Duration `json:"after,omitempty"`
	// maxWaiting is how many requests may wait for a server, at each door: 1 to 1000. Further ones are answered with 503.
	// Default 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxWaiting *int32 `json:"maxWaiting,omitempty"`
	// maxWait is how long a request may wait for a server, in whole seconds from 1s to 1h, and is answered with 503 after
	// that. A server has to download its model first. Default 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h') && duration(self).getMilliseconds() % 1000 == 0",message="idle.maxWait must be whole seconds from 1s to 1h"
	MaxWait *metav1.Duration `json:"maxWait,omitempty"`
	// doors are the pods that take requests, 1 to 3. With one there is a gap while it is replaced. Default 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3
	Doors *int32 `json:"doors,omitempty"`
}

// IdlePhase says whether there are servers behind a door.
// +kubebuilder:validation:Enum=Active;Idle;Starting
type IdlePhase string

// Phases.
const (
	// IdleActive: there are servers.
	IdleActive IdlePhase = "Active"
	// IdleNoServers: no request has come for long, and there are no servers.
	IdleNoServers IdlePhase = "Idle"
	// IdleStarting: a request came, and servers are made.
	IdleStarting IdlePhase = "Starting"
)

// InferenceIdleStatus says whether there are servers.
type InferenceIdleStatus struct {
	// phase: Active while there are servers, Idle while there are none, Starting while they are made again.
	// +required
	Phase IdlePhase `json:"phase"`
	// since is when Idle or Starting began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// IdleProgressAnnotation of an Inference has its IdleProgress as JSON. Whoever deletes it has servers be made.
const IdleProgressAnnotation = "ai.zeroinfra.github.com/idle-progress"

// IdleProgress says that there are to be no servers, or that they are made again: a decision that is on record, and
// that what runs follows.
type IdleProgress struct {
	// Phase is Idle or Starting; Active is not on record.
	Phase IdlePhase `json:"phase"`
	// Since is when the phase began.
	Since metav1.Time `json:"since"`
}

// IdleProgress returns what is on record; Active where nothing is, or nothing that can be read. Without spec.idle
// there are servers.
func (i *Inference) IdleProgress() IdleProgress {
	var p IdleProgress
	if json.Unmarshal([]byte(i.Annotations[IdleProgressAnnotation]), &p) != nil {
		return IdleProgress{Phase: IdleActive}
	}
	switch {
	case p.Phase == IdleNoServers && i.Spec.Idle != nil, p.Phase == IdleStarting:
		return p
	case p.Phase == IdleNoServers:
		p.Phase = IdleStarting
		return p
	}
	return IdleProgress{Phase: IdleActive}
}
