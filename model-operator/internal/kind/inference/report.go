// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Report implements typed.Reporter.
func (Kind) Report(i *aiv1.Inference, app *platformv1.Application) {
	s := &i.Status
	instance.Report(&s.InstanceStatus, app)
	reportCanary(i, app)
	reportIdle(i)
	s.Replicas = 0
	for _, c := range app.Status.Components {
		if c.Name == instance.Component {
			s.Replicas = int32(len(c.Pods))
			if i.Spec.Idle != nil {
				// Those of the door are not counted.
				s.Ready = fmt.Sprintf("%d/%d", c.ReadyReplicas, c.Replicas)
			}
		}
	}
	if conditions.IsTrue(app, platformv1.ReadyCondition) && len(app.Spec.Components) > 0 {
		// All pods have what the spec asks. Until then some may serve the version before.
		s.Model = &aiv1.InferenceModelStatus{
			Name: app.Annotations[modelAnnotation], Version: aiv1.ModelVersionName(app.Annotations[versionAnnotation]),
			Digest: "sha256:" + string(app.Spec.Components[0].Parameters[digestParameter]),
		}
		s.Adapters, s.Datasets = servedAdapters(app), mountedDatasets(app)
	}
}
