// SPDX-License-Identifier: Apache-2.0

// Package generations is the sub-reconciler of the data generations of a WorkloadSet: a restore in place puts other
// volumes under the names of its pods, and spec.data.generation says which they are to have.
//
// Duties: refuses a generation of which it is not known that the data is there, writes the record of the primary for
// another generation once no pod of the former one is left, finds the generation of a set that was made anew beside
// its volumes, and deletes volumes that an Operation prepared which is gone.
//
// Inputs: facts.Facts. What is absent in them is read live before it counts.
package generations

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/sdk/event"
)

// recheck is how soon a set is looked at again whose record or spec was written, or had been written by somebody else.
const recheck = 500 * time.Millisecond

// Reconciler brings the pods of sets to the generation of volumes that is asked for.
type Reconciler struct {
	facts.Observer
	Client client.Client
	Events *event.Recorder
	// Forget drops what is known of the primary of a set, whose record is about to be another one.
	Forget func(types.NamespacedName)
}

// Verdict says whether the pods of a set can change to the generation of volumes in the spec.
type Verdict struct {
	// Invalid says why they cannot; empty if they can, or have it.
	Invalid string
	// Keeps is what the spec is to say for this reconcile where they cannot: the generation that the pods have. Access
	// stays as it was: the access in the spec is meant for the new generation.
	Keeps *platformv1.SetData
}
