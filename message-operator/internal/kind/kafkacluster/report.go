// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"cmp"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// migrations say what a stage is, and how it goes on.
var migrations = map[messagev1.KafkaMigrationStage]string{
	messagev1.StageZooKeeper: "not begun: the Operation MigrateToKRaft begins it",
	messagev1.StagePrepared:  "step 1 of 5: controllers wait for the brokers",
	messagev1.StageMigrating: "step 2 of 5: controllers take over the metadata, and write changes to ZooKeeper as well",
	messagev1.StageMigrated: "step 3 of 5: brokers follow the controllers alone; the Operation FinishMigration ends it, " +
		"and RevertMigration goes back",
	messagev1.StageApart:       "step 4 of 5: controllers leave ZooKeeper, and there is no way back",
	messagev1.StageWithdrawing: "going back: the controllers are gone, and the brokers go on with ZooKeeper",
}

// Report implements typed.Reporter.
func (Kind) Report(k *messagev1.KafkaCluster, app *platformv1.Application) {
	s := &k.Status
	instance.Report(&s.InstanceStatus, app)
	s.Brokers, s.Controllers, s.ZooKeeper, s.ExternalAddresses, s.Racks = "", "", "", nil, nil
	s.Directories = directoriesOf(app)
	// It is never lowered: what was read holds while no broker says it.
	s.MetadataVersion = cmp.Or(metadataVersionOf(app), s.MetadataVersion)
	s.Migration = migrations[stageOf(&k.Spec)]
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
		case zookeeper:
			s.ZooKeeper = typed.HealthyOf(&c)
		}
	}
}

// directoriesOf are those of the controllers: of all nodes where each is one.
func directoriesOf(app *platformv1.Application) (directories []messagev1.KafkaDirectory) {
	for _, c := range app.Status.Components {
		if c.Name != controller && app.Spec.Topology != combined {
			continue
		}
		for _, pod := range c.Pods {
			if pod.MemberID != "" {
				directories = append(directories, messagev1.KafkaDirectory{Pod: pod.Name, ID: pod.MemberID})
			}
		}
	}
	return directories
}
