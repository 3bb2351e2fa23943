// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Maintenance says when what a change of the spec asks for may disturb an instance.
type Maintenance struct {
	// windows in which pods that serve may be restarted or replaced; outside of all of them such changes wait. None: at
	// any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`
}

// MaintenanceWindow is a time that comes again and again.
type MaintenanceWindow struct {
	// schedule is when it opens, as a cron line of five fields, for example "0 2 * * 0". A time that the clocks of the
	// zone leave out opens it when they are put forward; of one that they show twice, the first counts.
	// +required
	Schedule CronLine `json:"schedule"`
	// duration is how long it stays open, between 1m and 168h.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be between 1m and 168h"
	Duration metav1.Duration `json:"duration"`
	// timeZone of the schedule by its IANA name, for example Europe/Berlin.
	// +required
	TimeZone TimeZone `json:"timeZone"`
}
