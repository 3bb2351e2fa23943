// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// listed is how many pods a message names.
const listed = 5

// changes are what waits for a maintenance window, in the words of a message.
var changes = []struct {
	action rollout.Action
	words  string
}{
	{rollout.DeletePod, "replaced"},
	{rollout.UpdateImage, "restarted with another image"},
	{rollout.PushPlan, "restarted"},
}

// AwaitWindow says which pods wait for which window. They serve, and the rest of the set is as asked.
func AwaitWindow(f *Verdict, held []rollout.Step) outcome.Outcome {
	return outcome.Deferred(platformv1.ReasonWaitingForMaintenance,
		fmt.Sprintf("waits for the maintenance window, next %s: %s", f.Opening, describeHeld(held)))
}

// describeHeld says what is to be done to which pods.
func describeHeld(held []rollout.Step) string {
	var parts []string
	for _, change := range changes {
		var pods []string
		for _, step := range held {
			if step.Action == change.action {
				pods = append(pods, step.Pod)
			}
		}
		if len(pods) > 0 {
			parts = append(parts, enumerate(pods)+" to be "+change.words)
		}
	}
	return strings.Join(parts, ", ")
}

// enumerate names pods, the first ones of many.
func enumerate(pods []string) string {
	switch n := len(pods); {
	case n == 1:
		return "pod " + pods[0] + " is"
	case n > listed:
		return fmt.Sprintf("pods %s and %d more are", strings.Join(pods[:listed], ", "), n-listed)
	}
	last := len(pods) - 1
	return "pods " + strings.Join(pods[:last], ", ") + " and " + pods[last] + " are"
}
