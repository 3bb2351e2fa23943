// SPDX-License-Identifier: Apache-2.0

// Package volumes is the sub-reconciler of the volumes of a WorkloadSet: their claims, their size, and their data
// before the first pod starts.
//
// Duties: creates the claims of pods, adopts those and the snapshots that an earlier Application left, grows them,
// restores a Backup to those of the first pod by one Job (restore-<UID>-<attempt>), and deletes them with a set whose
// deletion policy asks for that, with a snapshot of each before or without.
//
// Inputs: facts.Facts. Snapshots, Backups, and claims of which an absence counts, are read live.
//
// Data is never destroyed as a side effect: only Delete deletes claims.
package volumes

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Reconciler creates and changes the volumes of sets.
type Reconciler struct {
	facts.Observer
	Client client.Client
	Apply  *apply.Applier
	Events *event.Recorder
	// Settings that Jobs are rendered with.
	Settings *settings.Live
}

// Verdict is what the volumes of a set come to.
type Verdict struct {
	// Refused is the first refusal among all claims; nil for none. What runs goes on running.
	Refused *outcome.Outcome
	// LeftOut says which volumes of an earlier Application hold data that the set would begin without; nil for none.
	LeftOut *outcome.Outcome
	// Growing says of a volume that has not yet the size that was asked for how far it is; nil for none.
	Growing *outcome.Outcome
	// Before says that no pod is made yet, since its data is to be there first.
	Before bool
	// Servers says that servers that run are to be given what they begin with.
	Servers bool
	// States of the claims for the status, in the order of pods.
	States []platformv1.VolumeState
}

// Plan says what the volumes of a set come to.
func Plan(set *platformv1.WorkloadSet, f *facts.Facts) Verdict {
	return Verdict{
		Refused: checkVolumes(set, f),
		LeftOut: refuseLeftOut(set, f),
		Growing: expanding(set, f),
		Before:  awaitsData(set, f) || takesOver(set, f),
		Servers: awaitsObjects(set, f),
		States:  volumeStates(set, f),
	}
}
