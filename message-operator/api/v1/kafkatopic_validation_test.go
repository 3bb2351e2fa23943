// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// topic is a KafkaTopic of the KafkaCluster events.
func topic(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, messagev1.GroupVersion.WithKind("KafkaTopic"), namespace, name,
		map[string]any{"clusterRef": map[string]any{"name": "events"}}, spec)
}

func TestCreateTopic(t *testing.T) {
	long := strings.Repeat("a", 250)
	createEach(t, topic, map[string]creation{
		"smallest":                  {"a", ``, ""},
		"name with dots":            {"a.b.c", ``, ""},
		"name of 249":               {long[1:], ``, ""},
		"name of 250":               {long, ``, "the name of a topic has at most 249 characters"},
		"long name, short topic":    {long, `topicName: a`, ""},
		"no cluster":                {"x", `clusterRef: null`, "spec.clusterRef"},
		"cluster of a long name":    {"x", `clusterRef: {name: ` + long[:26] + `}`, "spec.clusterRef.name"},
		"cluster with a dot":        {"x", `clusterRef: {name: a.b}`, "spec.clusterRef.name"},
		"topic":                     {"b", `topicName: Orders.v1_raw-2`, ""},
		"topic with a slash":        {"x", `topicName: a/b`, "spec.topicName"},
		"topic of 250":              {"x", `topicName: ` + long, "spec.topicName"},
		"topic of a dot":            {"x", `topicName: "."`, "Kafka has no topic named . or .."},
		"topic of dots":             {"x", `topicName: ".."`, "Kafka has no topic named . or .."},
		"topic of three dots":       {"c", `topicName: "..."`, ""},
		"topic of Kafka":            {"x", `topicName: __consumer_offsets`, "topics that begin with __ are Kafka's own"},
		"topic with one line first": {"d", `topicName: _schemas`, ""},
		"no partitions":             {"x", `partitions: 0`, "spec.partitions"},
		"negative partitions":       {"x", `partitions: -1`, "spec.partitions"},
		"many partitions":           {"x", `partitions: 32768`, "spec.partitions"},
		"many replicas":             {"x", `replicas: 61`, "spec.replicas"},
		"in-sync replicas":          {"e", `{replicas: 3, minInSyncReplicas: 3}`, ""},
		"too many in-sync replicas": {"x", `{replicas: 3, minInSyncReplicas: 4}`,
			"minInSyncReplicas cannot be above replicas"},
		"in-sync replicas alone": {"f", `minInSyncReplicas: 2`, ""},
		"in-sync in config":      {"g", `{replicas: 3, config: {min.insync.replicas: 3}}`, ""},
		"too many in-sync in config": {"x", `{replicas: 3, config: {min.insync.replicas: "4"}}`,
			"min.insync.replicas cannot be above replicas"},
		"in-sync in config, no word": {"h", `{replicas: 3, config: {min.insync.replicas: two}}`, ""},
		"retention":                  {"i", `retention: {time: 1s, bytes: 1}`, ""},
		"retention of nothing":       {"x", `retention: {}`, "retention needs time or bytes"},
		"retention of no time":       {"x", `retention: {time: 999ms}`, "retention.time must be 1s or more"},
		"retention in days":          {"x", `retention: {time: 7d}`, "must be a duration"},
		"retention of no bytes":      {"x", `retention: {bytes: 0}`, "retention.bytes must be 1 or more"},
		"retention for ever":         {"j", `config: {retention.ms: -1}`, ""},
		"policy":                     {"k", `cleanupPolicy: "compact,delete"`, ""},
		"unknown policy":             {"x", `cleanupPolicy: Compact`, "spec.cleanupPolicy"},
		"compression":                {"l", `compressionType: zstd`, ""},
		"unknown compression":        {"x", `compressionType: zip`, "spec.compressionType"},
		"message":                    {"m", `maxMessageBytes: 2147483647`, ""},
		"message of 2Gi":             {"x", `maxMessageBytes: 2Gi`, "maxMessageBytes must be 1 or more, and less than 2Gi"},
		"message of nothing":         {"x", `maxMessageBytes: 0`, "maxMessageBytes must be 1 or more, and less than 2Gi"},
		"everything in config": {"n",
			`config: {cleanup.policy: compact, compression.type: zstd, max.message.bytes: 1, min.insync.replicas: 1,
  retention.bytes: 1, retention.ms: 1}`,
			""},
		"retention, other in config": {"o", `{retention: {time: 1h}, config: {retention.bytes: 1}}`, ""},
		"cleanupPolicy twice": {"x", `{cleanupPolicy: compact, config: {cleanup.policy: compact}}`,
			"cleanupPolicy and cleanup.policy of config say the same"},
		"compressionType twice": {"x", `{compressionType: zstd, config: {compression.type: zstd}}`,
			"compressionType and compression.type of config say the same"},
		"maxMessageBytes twice": {"x", `{maxMessageBytes: 1, config: {max.message.bytes: 1}}`,
			"maxMessageBytes and max.message.bytes of config say the same"},
		"minInSyncReplicas twice": {"x", `{minInSyncReplicas: 1, config: {min.insync.replicas: 1}}`,
			"minInSyncReplicas and min.insync.replicas of config say the same"},
		"retention.bytes twice": {"x", `{retention: {bytes: 1}, config: {retention.bytes: 1}}`,
			"retention.bytes and retention.bytes of config say the same"},
		"retention.time twice": {"x", `{retention: {time: 1h}, config: {retention.ms: 1}}`,
			"retention.time and retention.ms of config say the same"},
		"a throttle of leaders":       {"x", `config: {leader.replication.throttled.replicas: "*"}`, "take them out"},
		"a throttle of followers":     {"x", `config: {follower.replication.throttled.replicas: "*"}`, "take them out"},
		"true without quotation mark": {"x", `config: {preallocate: true}`, "spec.config.preallocate"},
		"deletion policy":             {"x", `deletionPolicy: Snapshot`, "spec.deletionPolicy"},
		"a field that does not exist": {"x", `brokers: 3`, "spec.brokers"},
	})
}

func TestCreateTopicWithAccess(t *testing.T) {
	same := `{user: a, clientID: c, producerByteRate: 1}`
	createEach(t, topic, map[string]creation{
		"acls": {"a",
			`acls: [{user: shop, operations: [Read, Write, Describe]}, {user: "CN=billing,O=Shop",
  operations: [Read]}]`,
			""},
		"a user twice": {"x", `acls: [{user: a, operations: [Read]}, {user: a, operations: [Write]}]`,
			"spec.acls[1]"},
		"an acl of everybody":  {"x", `acls: [{user: "*", operations: [Read]}]`, "spec.acls[0].user"},
		"an acl of nobody":     {"x", `acls: [{user: "", operations: [Read]}]`, "spec.acls[0].user"},
		"an acl of nothing":    {"x", `acls: [{user: a, operations: []}]`, "spec.acls[0].operations"},
		"an operation twice":   {"x", `acls: [{user: a, operations: [Read, Read]}]`, "spec.acls[0].operations[1]"},
		"an unknown operation": {"x", `acls: [{user: a, operations: [Alter]}]`, "spec.acls[0].operations[0]"},
		"quotas": {"b",
			`quotas: [{user: a, producerByteRate: 1}, {clientID: a, consumerByteRate: 1Mi}, {user: a, clientID: a,
  requestPercentage: 5}, {user: "*", producerByteRate: 1}]`,
			""},
		"a quota of nobody":  {"x", `quotas: [{producerByteRate: 1}]`, "a quota needs a user, a clientID or both"},
		"a quota of nothing": {"x", `quotas: [{user: a}]`, "a quota needs a limit"},
		// What the plugin would not take.
		"a quota of more threads than there are": {"x", `quotas: [{user: a, requestPercentage: 100001}]`,
			"spec.quotas[0].requestPercentage"},
		"a quota of many threads": {"d", `quotas: [{user: a, requestPercentage: 100000}]`, ""},
		"a quota with a slash":    {"x", `quotas: [{user: a/client/b, producerByteRate: 1}]`, "spec.quotas[0].user"},
		"a client with a slash":   {"x", `quotas: [{clientID: a/b, producerByteRate: 1}]`, "spec.quotas[0].clientID"},
		"a quota twice": {"x", `quotas: [` + same + `, ` + same + `]`,
			"two quotas are for the same user and clientID"},
		"a quota of a client, too": {"c", `quotas: [` + same + `, {user: a, producerByteRate: 1}]`, ""},
	})
}

func TestUpdateTopic(t *testing.T) {
	updateEach(t, topic, map[string]update{
		"more partitions":    {`partitions: 3`, `partitions: 6`, ""},
		"partitions at last": {``, `partitions: 6`, ""},
		"fewer partitions": {`partitions: 6`, `partitions: 5`,
			"partitions can only grow: Kafka cannot take any away"},
		"partitions taken out": {`partitions: 6`, ``, "partitions can only grow: Kafka cannot take any away"},
		"more replicas":        {`replicas: 1`, `replicas: 3`, ""},
		"fewer replicas":       {`replicas: 3`, `replicas: 2`, ""},
		"too few replicas": {`{replicas: 3, minInSyncReplicas: 2}`, `{replicas: 1, minInSyncReplicas: 2}`,
			"minInSyncReplicas cannot be above replicas"},
		"another topic":   {`topicName: a`, `topicName: b`, "topicName is immutable"},
		"a topic at last": {``, `topicName: b`, "topicName is immutable"},
		"a topic no more": {`topicName: a`, ``, "topicName is immutable"},
		"another cluster": {``, `clusterRef: {name: other}`, "clusterRef is immutable"},
		"everything that can": {`{topicName: a, partitions: 1}`,
			`{topicName: a, partitions: 1, retention: {time: 1h}, adopt: true, deletionPolicy: Delete,
  deleteWhileConsumed: true}`,
			""},
		"other access and quotas": {`{acls: [{user: a, operations: [Read]}], quotas: [{user: a,
  producerByteRate: 1}]}`,
			`{acls: [{user: b, operations: [Write]}]}`, ""},
		"a field in place of text": {`config: {retention.ms: 1000}`, `retention: {time: 1s}`, ""},
	})
}

func TestDefaultsOfATopic(t *testing.T) {
	got := &messagev1.KafkaTopic{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "defaults"},
		Spec: messagev1.KafkaTopicSpec{ClusterRef: messagev1.KafkaClusterReference{Name: "events"}}}
	if err := env.Client.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if spec := got.Spec; spec.DeletionPolicy != "Retain" || spec.Partitions != 0 || spec.Replicas != 0 {
		t.Errorf("the defaults are %+v", spec)
	}
}
