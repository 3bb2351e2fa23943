// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"testing"
	"time"
)

func TestATurnEndsBeforeItsDeadline(t *testing.T) {
	began := time.Now()
	limited, cancel := context.WithDeadline(t.Context(), began.Add(30*time.Second))
	defer cancel()
	for after, over := range map[time.Duration]bool{0: false, 14 * time.Second: false, 16 * time.Second: true,
		31 * time.Second: true} {
		if got := isOver(limited, began, began.Add(after)); got != over {
			t.Errorf("after %s the time of a turn is over: %t", after, got)
		}
	}
	if isOver(t.Context(), began, began.Add(time.Hour)) {
		t.Error("the time of a turn without a deadline is over")
	}
}
