// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

func TestReport(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "kafkacluster-events"}}
	empty := app.DeepCopy()
	app.Status = platformv1.ApplicationStatus{
		Version: "4.4.0", Ready: "2/3",
		Endpoints: []platformv1.Endpoint{{Name: "kafkacluster-events", Host: "kafkacluster-events.shop.svc", Port: 9092}},
		Binding:   &platformv1.Binding{Name: "kafkacluster-events-binding"},
		Components: []platformv1.ComponentState{{Name: component, Replicas: 3, Pods: []platformv1.PodState{
			{Name: "kafkacluster-events-kafka-main-0", Health: "Healthy", External: "192.0.2.7:31092"},
			{Name: "kafkacluster-events-kafka-main-1", Health: "Healthy", Zone: "eu-1b", MemberID: "b1"},
			{Name: "kafkacluster-events-kafka-main-2", Health: "Starting", External: "192.0.2.9:31094"},
		}}},
	}
	separate := app.DeepCopy()
	app.Spec.Topology = combined
	apart := []platformv1.PodState{{Name: "kafkacluster-events-controller-main-0", Health: "Healthy",
		External: "not told", Zone: "eu-1a", MemberID: "c0"}}
	separate.Status.Components = append(separate.Status.Components,
		platformv1.ComponentState{Name: controller, Replicas: 3, Pods: apart})
	want := messagev1.KafkaClusterStatus{
		InstanceStatus: platformv1.InstanceStatus{
			Version: "4.4.0", Ready: "2/3", Endpoint: "kafkacluster-events.shop.svc:9092",
			BindingName: "kafkacluster-events-binding", Application: "kafkacluster-events",
		},
		Brokers: "2/3",
		ExternalAddresses: []messagev1.KafkaExternalAddress{
			{Pod: "kafkacluster-events-kafka-main-0", Address: "192.0.2.7:31092"},
			{Pod: "kafkacluster-events-kafka-main-2", Address: "192.0.2.9:31094"},
		},
		Racks: []messagev1.KafkaRack{{Pod: "kafkacluster-events-kafka-main-1", Rack: "eu-1b"}},
	}
	wantSeparate := *want.DeepCopy()
	wantSeparate.Controllers = "1/3"
	wantSeparate.Directories = []messagev1.KafkaDirectory{{Pod: "kafkacluster-events-controller-main-0", ID: "c0"}}
	withZooKeeper := separate.DeepCopy()
	withZooKeeper.Status.Components = withZooKeeper.Status.Components[:1]
	withZooKeeper.Status.Components = append(withZooKeeper.Status.Components,
		platformv1.ComponentState{Name: zookeeper, Replicas: 1, Pods: apart})
	wantZooKeeper := *want.DeepCopy()
	want.Directories = []messagev1.KafkaDirectory{{Pod: "kafkacluster-events-kafka-main-1", ID: "b1"}}
	wantZooKeeper.ZooKeeper, wantZooKeeper.Migration = "1/1", migrations[messagev1.StageZooKeeper]
	for name, c := range map[string]struct {
		app  *platformv1.Application
		want messagev1.KafkaClusterStatus
		zk   *messagev1.KafkaZooKeeper
	}{
		"combined":  {app, want, nil},
		"dedicated": {separate, wantSeparate, nil},
		"zookeeper": {withZooKeeper, wantZooKeeper, &messagev1.KafkaZooKeeper{}},
		"migrated":  {separate, wantSeparate, &messagev1.KafkaZooKeeper{Stage: messagev1.StageKRaft}},
		// What is no longer so does not stay in the status.
		"nothing known": {empty, messagev1.KafkaClusterStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "kafkacluster-events"},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := &messagev1.KafkaCluster{Status: messagev1.KafkaClusterStatus{
				InstanceStatus: platformv1.InstanceStatus{Version: "4.3.0", Endpoint: "old:1", BindingName: "old"},
				Brokers:        "9/9", Controllers: "9/9", ZooKeeper: "9/9", Migration: "old",
				ExternalAddresses: []messagev1.KafkaExternalAddress{{Pod: "old", Address: "old:1"}},
				Racks:             []messagev1.KafkaRack{{Pod: "old", Rack: "old"}},
				Directories:       []messagev1.KafkaDirectory{{Pod: "old", ID: "old"}},
			}}
			k.Spec.ZooKeeper = c.zk
			Kind{}.Report(k, c.app)
			if !reflect.DeepEqual(k.Status, c.want) {
				t.Errorf("got %+v, want %+v", k.Status, c.want)
			}
		})
	}
}

// What no broker tells any more, as in a cluster that is stopped, is what was last told.
func TestReportOfTheMetadataVersion(t *testing.T) {
	for name, c := range map[string]struct{ was, message, want string }{
		"not known":         {"", "", ""},
		"told":              {"", "metadata.version is that of Kafka 4.3: run the Operation UpgradeFeatures", "4.3"},
		"raised":            {"4.3", "metadata.version is that of Kafka 4.4", "4.4"},
		"told no more":      {"4.3", "", "4.3"},
		"told of something": {"4.3", "pod \"k-0\": the plugin gives no status", "4.3"},
	} {
		t.Run(name, func(t *testing.T) {
			app := &platformv1.Application{}
			if c.message != "" {
				app.Status.Conditions = []metav1.Condition{{Type: featuresCondition, Message: c.message}}
			}
			k := &messagev1.KafkaCluster{Status: messagev1.KafkaClusterStatus{MetadataVersion: c.was}}
			Kind{}.Report(k, app)
			if k.Status.MetadataVersion != c.want {
				t.Errorf("got %q, want %q", k.Status.MetadataVersion, c.want)
			}
		})
	}
}
