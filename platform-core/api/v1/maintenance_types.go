// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Maintenance says when what a change of the spec asks for may disturb an instance.
type Maintenance struct {
	// windows in which pods that serve may be restarted or replaced; outside of all of them such changes wait. None: at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`
}

// MaintenanceWindow is a time that comes again and again.
type MaintenanceWindow struct {
	// schedule is when it opens, as a cron line of five fields, for example "0 2 * * 0". A time that the clocks of the zone
	// leave out opens it when they are put forward; of one that they show twice, the first counts.
	// +required
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?(,([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?)* ([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?(,([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?)* ([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?(,([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?)* ([*]|(0?[1-9]|1[0-2]|[A-Za-z]{3})(-(0?[1-9]|1[0-2]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?(,([*]|(0?[1-9]|1[0-2]|[A-Za-z]{3})(-(0?[1-9]|1[0-2]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?)* ([*]|([0-6]|[A-Za-z]{3})(-([0-6]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?(,([*]|([0-6]|[A-Za-z]{3})(-([0-6]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?)*$')`,message="schedule must be a cron line of five fields: minute, hour, day of month, month, day of week"
	Schedule string `json:"schedule"`
	// duration is how long it stays open, between 1m and 168h.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be between 1m and 168h"
	Duration metav1.Duration `json:"duration"`
	// timeZone of the schedule by its IANA name, for example Europe/Berlin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="timeZone must be the name of a time zone, such as Europe/Berlin or UTC"
	TimeZone string `json:"timeZone"`
}
