// SPDX-License-Identifier: Apache-2.0

package quantile_test

import (
	"testing"
	"time"

	"github.com/zeroinfra/test/bench/quantile"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[99-i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		samples []time.Duration
		share   float64
		want    time.Duration
	}{
		{nil, 0.5, 0}, {[]time.Duration{7}, 0.5, 7}, {[]time.Duration{7}, 0.99, 7}, {[]time.Duration{3, 1, 2}, 0.5, 2},
		{[]time.Duration{4, 3, 1, 2}, 0.5, 2},
		{hundred, 0, 1}, {hundred, 0.5, 50}, {hundred, 0.95, 95}, {hundred, 0.99, 99}, {hundred, 1, 100},
		{hundred[:20], 0.95, 99},
	} {
		if got := quantile.Of(test.samples, test.share); got != test.want {
			t.Errorf("%v of %v is %v, want %v", test.share, test.samples, got, test.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the samples were sorted")
	}
}
