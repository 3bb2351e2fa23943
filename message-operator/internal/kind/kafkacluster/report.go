// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// Report implements typed.Reporter.
func (Kind) Report(k *messagev1.KafkaCluster, app *platformv1.Application) {
	s := &k.Status
	instance.Report(&s.InstanceStatus, app)
	s.Brokers, s.Controllers, s.ExternalAddresses, s.Racks = "", "", nil, nil
	if b := k.Spec.Bootstrap; b != nil && len(b.Servers) > 0 {
		s.Endpoint = b.Servers[0]
	}
	for _, c := range app.Status.Components {
		switch c.Name {
		case component:
			s.Brokers = typed.HealthyOf(&c)
			for _, pod := range c.Pods {
				if pod.Zone != "" {
					s.Racks = append(s.Racks, messagev1.KafkaRack{Pod: pod.Name, Rack: pod.Zone})
				}
				if pod.External != "" {
					s.ExternalAddresses = append(s.ExternalAddresses,
						messagev1.KafkaExternalAddress{Pod: pod.Name, Address: pod.External})
				}
			}
		case controller:
			s.Controllers = typed.HealthyOf(&c)
		}
	}
}
