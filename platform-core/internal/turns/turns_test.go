// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestTake(t *testing.T) {
	var turns Turns
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	release, taken := turns.Take(a)
	if !taken {
		t.Fatal("nobody has it")
	}
	if _, again := turns.Take(a); again {
		t.Error("two have it")
	}
	if _, other := turns.Take(b); !other {
		t.Error("that of another Application is taken")
	}
	release()
	if _, again := turns.Take(a); !again {
		t.Error("it was given back")
	}
}
