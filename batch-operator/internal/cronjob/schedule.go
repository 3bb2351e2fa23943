// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/cron"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// scheduleOf reads the schedules of a CronJob. The error is a sentence.
func scheduleOf(cj *batchv1.CronJob) (cron.Schedule, error) {
	policy := cron.Policy{Gap: cron.Gap(cj.Spec.ClockChange.Gap), Overlap: cron.Overlap(cj.Spec.ClockChange.Overlap)}
	if policy.Gap == "" {
		policy.Gap = cron.GapShift
	}
	if policy.Overlap == "" {
		policy.Overlap = cron.OverlapFirst
	}
	return cron.Parse(cj.Spec.Schedules, cj.Spec.TimeZone, policy, cj.Namespace+"/"+cj.Name)
}

// textOf is the schedule that a settled time is about.
func textOf(cj *batchv1.CronJob) string {
	return strings.Join(cj.Spec.Schedules, "; ") + " " + cj.Spec.TimeZone
}

// startOf is when the run of a time begins: the time, and its share of the jitter, which never reaches the next time.
func (p *planner) startOf(at time.Time) time.Time {
	if p.cj.Spec.Jitter == nil {
		return at
	}
	span := p.cj.Spec.Jitter.Duration
	if next := p.schedule.Next(at); !next.IsZero() {
		span = min(span, next.Sub(at))
	}
	sum := sha256.Sum256([]byte(string(p.cj.UID) + "/" + at.UTC().Format(time.RFC3339)))
	share := binary.BigEndian.Uint64(sum[:]) % uint64(span)
	return at.Add(time.Duration(share).Truncate(time.Millisecond))
}

// nameOf is the name of the run of a time.
func nameOf(cj *batchv1.CronJob, at time.Time) string {
	return platformv1.DerivedName(platformv1.MaxLabelValue, cj.Name, at.UTC().Format("20060102-150405"))
}

// manualNameOf is the name of a run that somebody asked for.
func manualNameOf(cj *batchv1.CronJob, token string) string {
	sum := sha256.Sum256([]byte(string(cj.UID) + "/" + token))
	return platformv1.DerivedName(platformv1.MaxLabelValue, cj.Name, fmt.Sprintf("run-%x", sum[:5]))
}
