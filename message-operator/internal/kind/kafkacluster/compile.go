// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/internal/kafkaparts"
)

// What the plugin kafka calls things.
const (
	plugin     = "kafka"
	combined   = "combined"
	dedicated  = "dedicated"
	component  = "kafka"
	controller = "controller"
	zookeeper  = "zookeeper"
	admin      = "admin"
)

// defaultReplicas keep each record on three brokers, and as controllers can lose one.
const defaultReplicas = 3

// metadataSize is more than the metadata of a large cluster takes, in controllers or in ZooKeeper.
var metadataSize = resource.MustParse("2Gi")

// instance is what the brokers have of an InstanceSpec.
var instance = typed.Instance{Plugin: plugin, PluginVersion: "1.0.0", Component: component,
	Size: resource.MustParse("10Gi")}

// Compile implements typed.Kind. The defaults that the CRD states are filled in here too, for callers that have no API
// server before them.
func (Kind) Compile(k *messagev1.KafkaCluster) (*typed.Output, error) {
	spec := &k.Spec
	if spec.Bootstrap != nil {
		app, err := compileExternal(spec)
		return &typed.Output{Application: app}, err
	}
	if err := checkVersion(k); err != nil {
		return nil, err
	}
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	brokers := &app.Spec.Components[0]
	brokers.Replicas, brokers.Parameters = new(cmp.Or(spec.Replicas, defaultReplicas)), parameters(spec)
	brokers.External, brokers.AdditionalVolumes = spec.External.DeepCopy(), spec.DeepCopy().AdditionalVolumes
	app.Spec.Topology, app.Spec.Credentials = combined, credentials(spec.Auth)
	stage := stageOf(spec)
	switch {
	case stage != "":
		app.Spec.Topology = stages[stage]
		app.Spec.Components = append(app.Spec.Components, zookeepers(spec))
	case spec.Controllers != nil:
		app.Spec.Topology = dedicated
	}
	// Those that a cluster with ZooKeeper is yet to be migrated to are not there.
	if spec.Controllers != nil && stage != messagev1.StageZooKeeper && stage != messagev1.StageWithdrawing {
		app.Spec.Components = append(app.Spec.Components, controllers(spec))
	}
	return &typed.Output{Application: app, Entities: users(spec.Users)}, nil
}

// controllers tell of their metrics as brokers do.
func controllers(spec *messagev1.KafkaClusterSpec) platformv1.ApplicationComponent {
	c := spec.Controllers.DeepCopy()
	servers := metadataServers(spec, controller, c.Replicas, c.Resources, &c.Storage)
	servers.Monitoring = spec.Monitoring.DeepCopy()
	return servers
}

func zookeepers(spec *messagev1.KafkaClusterSpec) platformv1.ApplicationComponent {
	z := spec.ZooKeeper.DeepCopy()
	return metadataServers(spec, zookeeper, z.Replicas, z.Resources, &z.Storage)
}

// metadataServers have the metadata of the cluster. They may run where brokers may.
func metadataServers(spec *messagev1.KafkaClusterSpec, name string, replicas int32,
	resources corev1.ResourceRequirements, storage *platformv1.InstanceStorage) platformv1.ApplicationComponent {
	size := storage.Size
	if size.IsZero() {
		size = metadataSize.DeepCopy()
	}
	return platformv1.ApplicationComponent{
		Name:       name,
		Replicas:   new(cmp.Or(replicas, defaultReplicas)),
		Resources:  resources,
		Storage:    &platformv1.Storage{Size: size, StorageClassName: storage.StorageClassName},
		Scheduling: spec.Scheduling.DeepCopy(),
	}
}

// stages of the migration are topologies of the plugin, which says which of them goes on from which.
var stages = map[messagev1.KafkaMigrationStage]string{
	messagev1.StageZooKeeper:   "zookeeper",
	messagev1.StagePrepared:    "zookeeper-prepared",
	messagev1.StageMigrating:   "zookeeper-migrating",
	messagev1.StageWithdrawing: "zookeeper-withdrawing",
	messagev1.StageMigrated:    "migrated",
	messagev1.StageApart:       "migrated-apart",
}

// stageOf is the stage of a cluster with ZooKeeper; empty for one without.
func stageOf(spec *messagev1.KafkaClusterSpec) messagev1.KafkaMigrationStage {
	if spec.ZooKeeper == nil || spec.ZooKeeper.Stage == messagev1.StageKRaft {
		return ""
	}
	return cmp.Or(spec.ZooKeeper.Stage, messagev1.StageZooKeeper)
}

// credentials says where the password of admin comes from; nil for one that is made.
func credentials(auth *messagev1.Auth) []platformv1.Credential {
	if auth == nil {
		return nil
	}
	return typed.Credentials(admin, &auth.PasswordFrom)
}

// profiles are parameters of brokers by purpose. How many brokers have a record is said by Durability alone: of the
// others, that is the plugin's to say, which goes by the number of brokers.
var profiles = map[messagev1.KafkaProfile]platformv1.Parameters{
	messagev1.ProfileThroughput: {
		"num.io.threads": "16", "num.network.threads": "8", "num.replica.fetchers": "4",
		"socket.receive.buffer.bytes": "1048576", "socket.send.buffer.bytes": "1048576",
	},
	messagev1.ProfileLatency: {
		"group.initial.rebalance.delay.ms": "0", "num.network.threads": "8", "num.replica.fetchers": "4",
	},
	messagev1.ProfileDurability: {
		"auto.create.topics.enable": "false", "default.replication.factor": "3", "min.insync.replicas": "2",
		"unclean.leader.election.enable": "false",
	},
}

// selectors are parameters of brokers by the replica that consumers read from. Leader is Kafka's own.
var selectors = map[messagev1.KafkaReplicaSelector]platformv1.Parameters{
	messagev1.SelectorRackAware: {
		"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
	},
}

// parameters of the brokers: those of the volumes, the profile and the selector, but for what the user says himself.
func parameters(spec *messagev1.KafkaClusterSpec) platformv1.Parameters {
	out := retention(spec)
	for _, some := range []platformv1.Parameters{profiles[spec.Profile], selectors[spec.ReplicaSelector],
		spec.Parameters} {
		maps.Copy(out, some)
	}
	return out
}

// users and their quotas are Entities. A quota of a user is this object's to say, so that it is adopted.
func users(all []messagev1.KafkaUser) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for _, u := range all {
		user := platformv1.EntitySpec{
			Type: kafkaparts.User, Name: u.Name, PasswordFrom: typed.PasswordFrom(&u.PasswordFrom),
			DeletionPolicy: platformv1.EntityDelete, Adopt: u.Adopt,
		}
		if u.Iterations > 0 {
			user.Parameters = platformv1.Parameters{"iterations": typed.Number(u.Iterations)}
		}
		specs = append(specs, user)
		if u.Quota != nil {
			quota := kafkaparts.QuotaOf(kafkaparts.QuotaName(u.Name, ""), u.Quota)
			quota.Adopt = true
			specs = append(specs, quota)
		}
	}
	return specs
}
