// SPDX-License-Identifier: Apache-2.0

// Package kafkaparts is what the kinds of Kafka have alike: what they declare inside a cluster.
package kafkaparts

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// Types of Entities of the plugin kafka.
const (
	Topic = "topic"
	Quota = "quota"
	User  = "user"
)

// ClusterKind is the kind whose objects run the Applications that have topics.
const ClusterKind = "KafkaCluster"

// QuotaOf returns the Entity of a quota. The name is one of user/<name>, client/<id> and user/<name>/client/<id>. It
// holds no data, so it goes with what declares it.
func QuotaOf(name string, rates *messagev1.KafkaRates) platformv1.EntitySpec {
	quota := typed.EntityOf(Quota, rates)
	quota.Name = name
	if rates.RequestPercentage == 0 {
		delete(quota.Parameters, "request-percentage")
	}
	return quota
}

// QuotaName is the name of the quota of a user, of a client, or of a client as a user; an empty one is left out.
func QuotaName(user, clientID string) string {
	switch {
	case clientID == "":
		return "user/" + user
	case user == "":
		return "client/" + clientID
	}
	return "user/" + user + "/client/" + clientID
}
