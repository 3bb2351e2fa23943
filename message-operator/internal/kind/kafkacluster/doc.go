// SPDX-License-Identifier: Apache-2.0

// Package kafkacluster is the kind KafkaCluster: a Kafka cluster, with its users.
//
// It compiles to an Application of the plugin kafka, with the one credential admin, and to an Entity for each user and
// each quota. The topology is dedicated where spec.controllers is set: the component kafka (port 9092) has the brokers,
// and controller the controllers. Else it is combined, and each pod of kafka is both. With spec.zookeeper the
// component zookeeper has what controllers have, and the topology is the stage of the migration away from it. With
// spec.bootstrap it is external: the one component keeper is a pod that looks after topics of a cluster elsewhere. It
// never changes. Compile is a pure function; testdata holds what it makes of each input. The frame in sdk/typed does
// the rest under the field owner typed/kafkacluster.
//
// Fields left out, of those that instances can have: logs, since Kafka writes no access logs; and autoscaling, since a
// broker that is added gets no load before partitions are moved there, and none can be removed before they are moved
// away. restoreFrom is refused: the plugin has no backups.
package kafkacluster
