// SPDX-License-Identifier: Apache-2.0

package application

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentplan "github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// keepsBinding says whether clients go on with the binding that there is: pods that wait for a maintenance window know neither
// a new password nor that TLS was turned on or off. With windows, these reach clients when all pods have them.
func (c *Controller) keepsBinding(ctx context.Context, app *platformv1.Application, f *facts, wanted map[string][]byte) (bool, error) {
	if app.Spec.Maintenance == nil || len(app.Spec.Maintenance.Windows) == 0 || f.settled() {
		return false, nil
	}
	have := &corev1.Secret{}
	key := client.ObjectKey{Namespace: app.Namespace, Name: platformv1.BindingNameFor(app.Name)}
	if err := c.client.Get(ctx, key, have); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	spoke, speaks := len(have.Data[agentplan.CAFile]) > 0, len(wanted[agentplan.CAFile]) > 0
	return spoke != speaks || !bytes.Equal(have.Data[passwordKey], wanted[passwordKey]), nil
}

// settled says whether all components are as asked, as far as they have seen what is asked.
func (f *facts) settled() bool {
	for _, component := range f.components {
		if conditions.Outcome(component).Kind() != outcome.KindDone {
			return false
		}
	}
	return len(f.written) == 0
}
