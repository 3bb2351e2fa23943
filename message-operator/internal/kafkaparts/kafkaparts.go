// SPDX-License-Identifier: Apache-2.0

// Package kafkaparts is what the kinds of Kafka have alike: what they declare inside a cluster.
package kafkaparts

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

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
	parameters := platformv1.Parameters{}
	for parameter, rate := range map[string]*resource.Quantity{
		"producer-byte-rate": rates.ProducerByteRate, "consumer-byte-rate": rates.ConsumerByteRate,
	} {
		if rate != nil {
			parameters[parameter] = Number(rate.Value())
		}
	}
	if rates.RequestPercentage > 0 {
		parameters["request-percentage"] = Number(int64(rates.RequestPercentage))
	}
	return platformv1.EntitySpec{Type: Quota, Name: name, Parameters: parameters, DeletionPolicy: platformv1.EntityDelete}
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

// Number is a whole number as a parameter.
func Number(n int64) platformv1.ParameterValue {
	return platformv1.ParameterValue(strconv.FormatInt(n, 10))
}
