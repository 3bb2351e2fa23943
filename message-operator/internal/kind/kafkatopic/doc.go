// SPDX-License-Identifier: Apache-2.0

// Package kafkatopic is the kind KafkaTopic: a topic of a KafkaCluster, with its access rules, and quotas.
//
// It runs no instance, so it compiles to Entities alone: one of type topic and one of type quota for each quota, inside
// the Application of the KafkaCluster that it names. Compile is a pure function; testdata holds what it makes of each
// input. The frame in sdk/typed does the rest under the field owner typed/kafkatopic. The object is Ready when all of
// its Entities are; that of a topic whose partitions are still copied is not.
//
// The KafkaCluster is not read: each change of its status would have all of its topics be looked at. An Entity waits
// for its Application by itself, and says so.
package kafkatopic
