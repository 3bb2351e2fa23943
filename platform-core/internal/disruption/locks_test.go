// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestTryAcquire(t *testing.T) {
	var locks Locks
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	release, acquired := locks.TryAcquire(a)
	if !acquired {
		t.Fatal("a free lock is not acquired")
	}
	if _, again := locks.TryAcquire(a); again {
		t.Error("a held lock is acquired again")
	}
	if _, other := locks.TryAcquire(b); !other {
		t.Error("the lock of another Application is held")
	}
	release()
	if _, again := locks.TryAcquire(a); !again {
		t.Error("a released lock is not acquired")
	}
}
