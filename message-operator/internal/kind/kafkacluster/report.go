// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// healthy is what the engine says of a pod whose server answers.
const healthy = "Healthy"

// Report implements typed.Reporter.
func (Kind) Report(k *messagev1.KafkaCluster, app *platformv1.Application) {
	s := &k.Status
	instance.Report(&s.InstanceStatus, app)
	s.Brokers, s.Controllers, s.ExternalAddresses = "", "", nil
	for _, c := range app.Status.Components {
		switch c.Name {
		case component:
			s.Brokers = counted(&c)
			for _, pod := range c.Pods {
				if pod.External != "" {
					s.ExternalAddresses = append(s.ExternalAddresses,
						messagev1.KafkaExternalAddress{Pod: pod.Name, Address: pod.External})
				}
			}
		case controller:
			s.Controllers = counted(&c)
		}
	}
}

// counted says how many pods of a component answer, of those that are wanted.
func counted(c *platformv1.ComponentState) string {
	n := 0
	for _, pod := range c.Pods {
		if pod.Health == healthy {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, c.Replicas)
}
