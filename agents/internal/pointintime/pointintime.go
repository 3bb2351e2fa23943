// SPDX-License-Identifier: Apache-2.0

// Package pointintime is what restores to a point in time have alike, whatever the logs are.
package pointintime

import (
	"fmt"
	"time"
)

// form is how times are written for people, in UTC.
const form = "2006-01-02T15:04:05.999999Z"

// OutOfRange says that a target cannot be reached, and what can be. What is archived later may change that.
type OutOfRange struct{ Why string }

// Error implements error.
func (o OutOfRange) Error() string { return o.Why }

// Refused is an OutOfRange with a sentence.
func Refused(format string, args ...any) error { return OutOfRange{fmt.Sprintf(format, args...)} }

// InWords is a time for people.
func InWords(t time.Time) string { return t.UTC().Format(form) }
