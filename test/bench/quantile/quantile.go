// SPDX-License-Identifier: Apache-2.0

// Package quantile says how samples of times are spread.
package quantile

import (
	"math"
	"slices"
	"time"
)

// Of returns the smallest of the samples that so large a share of them is not above (0.95 is the 95th percentile); 0
// when there are none.
func Of(samples []time.Duration, share float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	// A share such as 0.95 is a little more than that as a floating-point number, and may be with one sample more.
	rank := int(math.Ceil(share*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
