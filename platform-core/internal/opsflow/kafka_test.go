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

// A rebalance goes by the throttle that it is given, 0 for none, and else by that of the cluster.
func TestThrottleOfRebalanceOfKafka(t *testing.T) {
	template := ofShipped(t, "kafka", "combined", "Rebalance")
	step, _ := template.Step("move")
	for throttle, want := range map[string]string{"": "null", "0": "0", "1048576": "1048576"} {
		variables := map[string]any{"parameters": map[string]any{"throttle": throttle, "atOnce": "20", "empty": "",
			"broker": ""}}
		goal, err := template.Text("move", step.Agent.Parameters["goal"], variables)
		if want := `{"balance":"even","atOnce":20,"throttle":` + want +
			`,"emptied":{"directory":"","broker":""}}`; err != nil || goal != want {
			t.Errorf("throttle %q: the goal is %s, %v; want %s", throttle, goal, err, want)
		}
	}
}
