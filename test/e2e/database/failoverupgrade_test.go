// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// upgrade brings an instance to another version while clients write: those that follow first, and the one that writes
// once another one does. No write is lost that was acknowledged with a replica, and nobody waits longer than for a
// switchover.
func upgrade(r *framework.Replicated, version string) {
	r.Helper()
	primary, before := r.WaitForPrimary()
	uids := r.UIDs()
	trial := r.StartTrial()
	op := r.Query("UpgradePaaS", platformv1.Parameters{"version": platformv1.ParameterValue(version)})
	now, _ := r.WaitForPrimary()
	trial.StopAndVerify("upgraded", before, framework.FailoverGapLimit)
	if now == primary {
		r.Errorf("pod %s wrote before and after: it was to hand over before it was changed", primary)
	}
	if step := op.Status.Steps[0]; step.Attempts != 1 {
		r.Errorf("it took %d attempts: %+v", step.Attempts, step)
	}
	changes := r.WorkloadSet().Status.Primary.Changes
	if last := changes[len(changes)-1]; last.Cause != platformv1.PrimaryOrdered || last.From != primary || last.To != now {
		r.Errorf("the last change of the writer is %+v", last)
	}
	for pod := range uids {
		r.Eventually(framework.SettleTimeout, fmt.Sprintf("%s to run %s", pod, version), func() error {
			if said := adminSays(r, pod, "INFO", "server"); !strings.Contains(said, "redis_version:"+version) {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
	}
}
