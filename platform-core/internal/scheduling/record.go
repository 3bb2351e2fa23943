// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Record is what is remembered of one schedule. It is part of an annotation, so that it outlives the Operations and is
// copied with the Application.
type Record struct {
	// Schedule is the line and the zone that Since was counted with.
	Schedule string `json:"schedule"`
	// Since is up to when all times are settled.
	Since time.Time `json:"since"`
	// Paused says that the times pass.
	Paused bool `json:"paused,omitempty"`
	// Last is the time that an Operation was last made for, and its name.
	Last      time.Time `json:"last,omitzero"`
	Operation string    `json:"operation,omitempty"`
	// Note says why a time was passed over after that.
	Note string `json:"note,omitempty"`
}

// Records are those of one Application, by schedule.
type Records map[string]Record

// RecordsOf reads the records of an Application. Those that cannot be read count as none: then each schedule counts
// from now on.
func RecordsOf(app *platformv1.Application) Records {
	records := Records{}
	if text := app.Annotations[platformv1.SchedulesAnnotation]; text != "" &&
		json.Unmarshal([]byte(text), &records) != nil {
		return Records{}
	}
	return records
}

// String returns the annotation; empty without records.
func (r Records) String() string {
	if len(r) == 0 {
		return ""
	}
	// Nothing in a Record can fail to be written.
	text, _ := json.Marshal(r)
	return string(text)
}

// Recorded says whether a time is settled on the record of the Application, so that it would not be made again without
// the Operation of it. What is no Operation of a schedule that the Application has is recorded.
func Recorded(app *platformv1.Application, op *platformv1.Operation) bool {
	name := op.Labels[platformv1.ScheduleLabel]
	if name == "" || !metav1.IsControlledBy(op, app) {
		return true
	}
	at, err := time.Parse(time.RFC3339, op.Annotations[platformv1.ScheduledForAnnotation])
	record, known := RecordsOf(app)[name]
	return err != nil || !known || !at.After(record.Since)
}
