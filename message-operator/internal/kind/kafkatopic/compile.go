// SPDX-License-Identifier: Apache-2.0

package kafkatopic

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/internal/kafkaparts"
)

// Parameters of an Entity of type topic. One that is left out is the cluster's default.
const (
	partitionsParameter    = "partitions"
	factorParameter        = "replication-factor"
	configParameter        = "config"
	accessParameter        = "access"
	whileConsumedParameter = "delete-while-consumed"
)

// Compile implements typed.Kind.
func (Kind) Compile(k *messagev1.KafkaTopic) (*typed.Output, error) {
	spec := &k.Spec
	entities := []platformv1.EntitySpec{{
		Type: kafkaparts.Topic, Name: topicName(k), Parameters: topicOf(spec),
		DeletionPolicy: cmp.Or(spec.DeletionPolicy, platformv1.EntityRetain), Adopt: spec.Adopt,
	}}
	for _, q := range spec.Quotas {
		quota := kafkaparts.QuotaOf(kafkaparts.QuotaName(q.User, q.ClientID), &q.KafkaRates)
		quota.Adopt = spec.Adopt
		entities = append(entities, quota)
	}
	for i := range entities {
		entities[i].ApplicationRef.Name = platformv1.ApplicationNameFor(kafkaparts.ClusterKind, spec.ClusterRef.Name)
	}
	return &typed.Output{Entities: entities}, nil
}

// topicName is the name of the topic in Kafka.
func topicName(k *messagev1.KafkaTopic) string { return cmp.Or(k.Spec.TopicName, k.Name) }

// topicOf is a topic in the words of the plugin.
func topicOf(spec *messagev1.KafkaTopicSpec) platformv1.Parameters {
	parameters := platformv1.Parameters{}
	for name, number := range map[string]int32{partitionsParameter: spec.Partitions, factorParameter: spec.Replicas} {
		if number > 0 {
			parameters[name] = typed.Number(number)
		}
	}
	if spec.DeleteWhileConsumed {
		parameters[whileConsumedParameter] = typed.Yes
	}
	if config := configOf(spec); len(config) > 0 {
		parameters[configParameter] = typed.JSON(config)
	}
	if access := accessOf(spec.ACLs); len(access) > 0 {
		parameters[accessParameter] = typed.JSON(access)
	}
	return parameters
}

// configOf is the configuration by Kafka's names. The CRD keeps config and the fields apart.
func configOf(spec *messagev1.KafkaTopicSpec) map[string]string {
	config := map[string]string{}
	for name, value := range spec.Config {
		config[name] = string(value)
	}
	number := func(name string, n int64) { config[name] = strconv.FormatInt(n, 10) }
	if r := spec.Retention; r != nil && r.Time != nil {
		number("retention.ms", r.Time.Milliseconds())
	}
	if r := spec.Retention; r != nil && r.Bytes != nil {
		number("retention.bytes", r.Bytes.Value())
	}
	// For ever is for ever: the cluster limits the bytes of a partition where nobody says how many.
	if _, limited := config["retention.bytes"]; config["retention.ms"] == "-1" && !limited {
		config["retention.bytes"] = "-1"
	}
	if spec.MinInSyncReplicas > 0 {
		number("min.insync.replicas", int64(spec.MinInSyncReplicas))
	}
	if spec.MaxMessageBytes != nil {
		number("max.message.bytes", spec.MaxMessageBytes.Value())
	}
	if spec.CleanupPolicy != "" {
		config["cleanup.policy"] = spec.CleanupPolicy
	}
	if spec.CompressionType != "" {
		config["compression.type"] = spec.CompressionType
	}
	return config
}

// accessOf is what principals may do, in the words of the driver.
func accessOf(acls []messagev1.KafkaACL) map[string][]string {
	access := map[string][]string{}
	for _, acl := range acls {
		var words []string
		for _, operation := range acl.Operations {
			words = append(words, strings.ToLower(string(operation)))
		}
		slices.Sort(words)
		access["User:"+acl.User] = words
	}
	return access
}
