// SPDX-License-Identifier: Apache-2.0

package kafkatopic

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

func TestReportEntities(t *testing.T) {
	entity := func(kind, name string, repairs int64, observed map[string]string) platformv1.Entity {
		return platformv1.Entity{Spec: platformv1.EntitySpec{Type: kind, Name: name},
			Status: platformv1.EntityStatus{DriftRepairs: repairs, Observed: observed}}
	}
	topic := entity("topic", "orders", 2,
		map[string]string{"partitions": "12", "replication-factor": "1-3", "config": "{}"})
	quota := entity("quota", "user/shop", 1, map[string]string{"producer-byte-rate": "5"})
	for name, c := range map[string]struct {
		entities []platformv1.Entity
		want     messagev1.KafkaTopicStatus
	}{
		"a topic and a quota": {[]platformv1.Entity{quota, topic},
			messagev1.KafkaTopicStatus{TopicName: "orders", Partitions: 12, Replicas: "1-3", DriftRepairs: 3}},
		"just made": {nil, messagev1.KafkaTopicStatus{TopicName: "orders"}},
		"not read back yet": {[]platformv1.Entity{entity("topic", "orders", 0, nil)},
			messagev1.KafkaTopicStatus{TopicName: "orders"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := &messagev1.KafkaTopic{ObjectMeta: metav1.ObjectMeta{Name: "orders"},
				Status: messagev1.KafkaTopicStatus{TopicName: "old", Partitions: 9, Replicas: "9", DriftRepairs: 9}}
			Kind{}.ReportEntities(k, c.entities)
			if !reflect.DeepEqual(k.Status, c.want) {
				t.Errorf("got %+v, want %+v", k.Status, c.want)
			}
		})
	}
}
