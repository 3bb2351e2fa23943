// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const (
	// defaultBackoff is before the first of the attempts that follow the first one.
	defaultBackoff = 5 * time.Second
	// longestBackoff is the most that it grows to where nobody says another time.
	longestBackoff = 5 * time.Minute
	// defaultFactor is by how much it grows where nobody says it.
	defaultFactor = 2
)

// checkRetry refuses times between attempts that cannot be, and exit codes where no step has any.
func checkRetry(retry *platformv1.OperationRetry, template optemplate.Template) *Refusal {
	if retry == nil {
		return nil
	}
	for _, field := range []struct {
		name string
		time *metav1.Duration
	}{{"backoff", retry.Backoff}, {"maxBackoff", retry.MaxBackoff}} {
		if field.time != nil && field.time.Duration <= 0 {
			return refuse(platformv1.ReasonInvalidSpec, "retry.%s %s is not allowed: it must be greater than 0", field.name,
				field.time.Duration)
		}
	}
	if field := retry.ExitCodesField(); field != "" && !slices.ContainsFunc(template.Steps, exitsByRetry) {
		return refuse(platformv1.ReasonInvalidSpec, "retry.%s are those of containers, and template %q has no step with a "+
			"container that spec.retry is for: leave them out", field, template.Name)
	}
	return nil
}

// exitsByRetry says whether a step has a container, and is tried again as the Operation says.
func exitsByRetry(step optemplate.Step) bool {
	return step.Retry == nil && (step.Task() != nil || step.Job != nil)
}

// retry is how a step is tried again: what its template says, else what the Operation does.
func (r *run) retry(t *optemplate.Step) optemplate.StepRetry {
	asked := r.op.Spec.Retry
	switch {
	case t.Retry != nil:
		return *t.Retry
	case asked == nil || t.Approval != nil:
		return optemplate.StepRetry{}
	}
	return optemplate.StepRetry{Limit: asked.Limit, Backoff: spanOf(asked.Backoff), Factor: asked.Factor,
		MaxBackoff: spanOf(asked.MaxBackoff), JitterPercent: asked.JitterPercent, ExitCodes: asked.ExitCodes,
		ExceptExitCodes: asked.ExceptExitCodes}
}

// spanOf is a time as templates have it.
func spanOf(d *metav1.Duration) optemplate.Span {
	if d == nil {
		return ""
	}
	return optemplate.Span(d.Duration.String())
}

// backoff is how long a step waits for its next attempt after so many.
func (r *run) backoff(t *optemplate.Step, attempt int32) time.Duration {
	retry := r.retry(t)
	wait := cmp.Or(retry.Backoff.Duration(), defaultBackoff)
	// One that was asked to be longer does not shrink.
	longest := cmp.Or(retry.MaxBackoff.Duration(), max(longestBackoff, wait))
	factor := time.Duration(cmp.Or(retry.Factor, defaultFactor))
	for n := int32(1); n < attempt && factor > 1 && wait < longest; n++ {
		if wait > longest/factor {
			wait = longest
			break
		}
		wait *= factor
	}
	wait = min(wait, longest)
	if retry.JitterPercent > 0 {
		share := shareOf(fmt.Sprintf("%s/%s/%d", r.op.UID, t.Name, attempt))
		wait -= time.Duration(float64(wait) * float64(retry.JitterPercent) / 100 * share)
	}
	return max(wait, 1)
}

// shareOf is a number from 0 to 1 that follows from a text: a controller that takes over comes to the same.
func shareOf(text string) float64 {
	sum := sha256.Sum256([]byte(text))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}

// lastExit says that a step that failed is not to be tried again, since a container of it ended with an exit code that
// is left out; empty where none did.
func (r *run) lastExit(t *optemplate.Step, step *platformv1.StepStatus, v verdict) string {
	listed, except := r.retry(t).ExitCodes, r.retry(t).ExceptExitCodes
	codes := []int32{v.exitCode}
	for i := range step.Targets {
		if step.Targets[i].Phase == platformv1.OperationFailed {
			codes = append(codes, step.Targets[i].ExitCode)
		}
	}
	for _, code := range codes {
		switch {
		case code == 0:
		case len(listed) > 0 && !slices.Contains(listed, code):
			return fmt.Sprintf("it is not tried again, since retry.exitCodes does not have %d", code)
		case slices.Contains(except, code):
			return fmt.Sprintf("it is not tried again after exit code %d", code)
		}
	}
	return ""
}
