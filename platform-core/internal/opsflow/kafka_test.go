// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import "testing"

// The volume of a broker is deleted once the cluster has said that others have what is on it, or somebody has accepted
// the loss. Controllers hold no partitions.
func TestRebuildMemberOfKafka(t *testing.T) {
	for _, topology := range []string{"combined", "dedicated", "zookeeper"} {
		template := ofShipped(t, "kafka", topology, "RebuildMember")
		check, found := template.Step("check")
		if !found || template.Steps[0].Name != "check" || check.Operation == nil ||
			check.Operation.TemplateRef != "CheckExpendable" {
			t.Fatalf("%s: the first step is %+v", topology, template.Steps[0])
		}
		for _, test := range []struct{ pod, loss, want string }{
			{"kafkacluster-events-kafka-main-0", "no", "0"},
			{"kafkacluster-events-kafka-main-12", "no", "12"},
			{"kafkacluster-events-kafka-main-12", "yes", ""},
			{"kafkacluster-events-controller-main-1", "no", ""},
			{"kafkacluster-kafka-main-controller-main-1", "no", ""},
			{"kafkacluster-kafka-1-zookeeper-main-1", "no", ""},
		} {
			variables := map[string]any{"parameters": map[string]any{"pod": test.pod, "acceptLoss": test.loss}}
			asks, err := template.Truth("check", check.When, variables)
			if err != nil || asks != (test.want != "") {
				t.Errorf("%s: of %+v the cluster is asked: %t, %v", topology, test, asks, err)
			}
			if !asks {
				continue
			}
			broker, err := template.Text("check", check.Operation.Parameters["broker"], variables)
			if err != nil || broker != test.want {
				t.Errorf("%s: of %s the cluster is asked about broker %q, %v", topology, test.pod, broker, err)
			}
		}
	}
}
