// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// imagined is the generation of a set that is only thought of.
const imagined = -1

// Forecast says in prose what would be done to the pods of a set if it had another spec, in order. It touches nothing.
type Forecast func(ctx context.Context, set *platformv1.WorkloadSet) ([]string, error)

// forecast implements Forecast by the planner and the observations that do the work, too.
func (c *Controller) forecast(ctx context.Context, wanted *platformv1.WorkloadSet) ([]string, error) {
	set := &platformv1.WorkloadSet{}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(wanted), set); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", wanted.Name, err)
	}
	set = set.DeepCopy()
	set.Namespace, set.Name, set.Spec, set.Generation = wanted.Namespace, wanted.Name, wanted.Spec, imagined
	f, err := c.observe(ctx, set)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, step := range rollout.Forecast(f.rollout) {
		lines = append(lines, step.String())
	}
	return lines, nil
}
