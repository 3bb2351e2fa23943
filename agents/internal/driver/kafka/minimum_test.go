// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// TestAMinimumAboveTheReplicasIsRefused: also where the number of replicas is the cluster's business.
func TestAMinimumAboveTheReplicasIsRefused(t *testing.T) {
	alone := &topic{partitions: []partition{{Replicas: []int32{1}}}}
	for name, test := range map[string]struct {
		factor, minimum string
		was             *topic
		want            string
	}{
		"its own factor":          {"2", "3", nil, "min.insync.replicas is 3, and each partition has 2 replicas"},
		"enough by its own":       {"3", "3", nil, ""},
		"what it has":             {"", "2", alone, "has 1 replicas"},
		"what it is to have":      {"2", "2", alone, ""},
		"that of the cluster":     {"", "3", nil, "has 2 replicas"},
		"enough by the cluster":   {"", "2", nil, ""},
		"what is no number":       {"", "many", nil, ""},
		"the least that there is": {"", "1", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			alive := &sarama.DescribeClusterBroker{BrokerID: 1, Host: "127.0.0.1"}
			d, broker := mockedBroker(t, map[string]sarama.MockResponse{
				"DescribeClusterRequest": sarama.NewMockWrapper(&sarama.DescribeClusterResponse{Version: 2,
					Brokers: []*sarama.DescribeClusterBroker{alive}}),
				"DescribeConfigsRequest": sarama.NewMockWrapper(&sarama.DescribeConfigsResponse{Version: 4,
					Resources: []*sarama.ResourceResponse{{Type: sarama.BrokerResource, Name: "1", Configs: []*sarama.ConfigEntry{
						{Name: settingFactor, Value: "2", Source: sarama.SourceStaticBroker}}}}}),
			})
			alive.Port = broker.Port()
			change := driver.Change{Query: driver.Query{Name: "orders"}, Parameters: map[string]string{
				parameterFactor: test.factor, parameterConfig: `{"min.insync.replicas":"` + test.minimum + `"}`}}
			problems := driver.Problems{}
			err := d.with(t.Context(), func(s *session) error {
				return checkMinimum(s, []driver.Change{change}, map[string]*topic{"orders": test.was}, problems)
			})
			if got := problems["orders"]; err != nil || (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
