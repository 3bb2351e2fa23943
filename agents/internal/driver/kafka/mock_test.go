// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// mocked is a driver of a broker that gives answers which have been written down.
func mocked(t *testing.T, answers map[string]sarama.MockResponse) *Driver {
	t.Helper()
	d, _ := mockedBroker(t, answers)
	return d
}

// mockedBroker is mocked, with the broker.
func mockedBroker(t *testing.T, answers map[string]sarama.MockResponse) (*Driver, *sarama.MockBroker) {
	t.Helper()
	broker := sarama.NewMockBroker(t, 1)
	t.Cleanup(broker.Close)
	var keys []sarama.ApiVersionsResponseKey
	for key := range int16(keyRemoveRaftVoter) {
		keys = append(keys, sarama.ApiVersionsResponseKey{ApiKey: key, MaxVersion: 20})
	}
	answers["ApiVersionsRequest"] = sarama.NewMockApiVersionsResponse(t).SetApiKeys(keys)
	broker.SetHandlerByMap(answers)
	return New(Options{Address: broker.Addr(), Password: func() (string, error) { return "", nil }}), broker
}

// TestAControllerThatIsBusyRefusesNothing: the whole call fails, and is made again.
func TestAControllerThatIsBusyRefusesNothing(t *testing.T) {
	change := driver.Change{Query: driver.Query{Name: "user/alice"}, Intent: driver.Create,
		Parameters: map[string]string{"consumer-byte-rate": "1024"}}
	for code, refuses := range map[sarama.KError]bool{sarama.ErrNotController: false, sarama.ErrRequestTimedOut: false,
		sarama.ErrPolicyViolation: true} {
		text := "it is so"
		d := mocked(t, map[string]sarama.MockResponse{
			"DescribeClientQuotasRequest": sarama.NewMockWrapper(&sarama.DescribeClientQuotasResponse{Version: 1}),
			"AlterClientQuotasRequest": sarama.NewMockWrapper(&sarama.AlterClientQuotasResponse{Version: 1,
				Entries: []sarama.AlterClientQuotasEntryResponse{
					{ErrorCode: code, ErrorMsg: &text,
						Entity: []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, Name: "alice"}}}}}),
		})
		problems, err := d.Change(t.Context(), KindQuota, []driver.Change{change})
		if refused := problems["user/alice"] == "Kafka refuses it: it is so"; refused != refuses || (err == nil) != refuses {
			t.Errorf("%v: got %v, %v", code, problems, err)
		}
	}
}

func TestABrokerThatIsAwayIsTold(t *testing.T) {
	d := New(Options{Address: "127.0.0.1:1", Password: func() (string, error) { return "", nil }})
	if _, err := d.Observe(t.Context(), KindTopic, []driver.Query{{Name: "t"}}); err == nil ||
		!strings.Contains(err.Error(), "cannot reach Kafka at 127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

// TestABrokerStopsWhereNobodyCanTell: it does not wait for that as for a broker that is away.
func TestABrokerStopsWhereNobodyCanTell(t *testing.T) {
	d := New(Options{Address: "127.0.0.1:1", Password: func() (string, error) { return "", nil }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := d.awaitRestart(ctx, "1", waits{away: time.Hour, silence: time.Second, look: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "cannot reach Kafka") || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}

func TestUnknownKindsAndParametersAreRefused(t *testing.T) {
	d := New(Options{Address: "127.0.0.1:1", Password: func() (string, error) { return "", nil }})
	if _, err := d.Observe(t.Context(), "bucket", nil); err == nil {
		t.Error("a bucket is observed")
	}
	if err := (topics{}).check(nil,
		driver.Change{Query: driver.Query{Name: "t"}, Parameters: map[string]string{"colour": "red"}}); err == nil {
		t.Error("a colour is taken")
	}
}

// deletionOf is the answers of a broker that has a topic with a rule, and what deletes the topic.
func deletionOf(t *testing.T) (answers map[string]sarama.MockResponse, deletion driver.Change) {
	t.Helper()
	return map[string]sarama.MockResponse{
			"MetadataRequest":                   sarama.NewMockMetadataResponse(t).SetLeader("orders", 0, 1),
			"ListPartitionReassignmentsRequest": sarama.NewMockWrapper(&sarama.ListPartitionReassignmentsResponse{}),
			"DescribeConfigsRequest":            sarama.NewMockWrapper(&sarama.DescribeConfigsResponse{Version: 4}),
			"DescribeAclsRequest": sarama.NewMockWrapper(&sarama.DescribeAclsResponse{Version: 2,
				ResourceAcls: []*sarama.ResourceAcls{{Resource: resourceOf("orders"),
					Acls: []*sarama.Acl{{Principal: "User:alice", Host: anyHost, Operation: sarama.AclOperationWrite,
						PermissionType: sarama.AclPermissionAllow}}}}}),
			"DeleteAclsRequest":   sarama.NewMockDeleteAclsResponse(t),
			"CreateAclsRequest":   sarama.NewMockCreateAclsResponse(t),
			"DeleteTopicsRequest": sarama.NewMockDeleteTopicsResponse(t),
		}, driver.Change{Query: driver.Query{Name: "orders"}, Intent: driver.Delete,
			Parameters: map[string]string{parameterWhileConsumed: yes}}
}

// TestATopicIsThereUntilItsRulesAreGone: nobody would look for rules of a topic that is gone.
func TestATopicIsThereUntilItsRulesAreGone(t *testing.T) {
	answers, deletion := deletionOf(t)
	text := "not now"
	answers["DeleteAclsRequest"] = sarama.NewMockWrapper(&sarama.DeleteAclsResponse{Version: 2,
		FilterResponses: []*sarama.FilterResponse{{Err: sarama.ErrRequestTimedOut, ErrMsg: &text}}})
	d, broker := mockedBroker(t, answers)
	problems, err := d.Change(t.Context(), KindTopic, []driver.Change{deletion})
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, %v", problems, err)
	}
	for _, call := range broker.History() {
		if _, is := call.Request.(*sarama.DeleteTopicsRequest); is {
			t.Error("the topic is deleted, and its rules are there")
		}
	}
}

// TestATopicThatStaysHasItsRulesBack: whether it is refused for good or for now.
func TestATopicThatStaysHasItsRulesBack(t *testing.T) {
	for code, refuses := range map[sarama.KError]bool{sarama.ErrTopicDeletionDisabled: true,
		sarama.ErrRequestTimedOut: false} {
		answers, deletion := deletionOf(t)
		answers["DeleteTopicsRequest"] = sarama.NewMockDeleteTopicsResponse(t).SetError(code)
		d, broker := mockedBroker(t, answers)
		problems, err := d.Change(t.Context(), KindTopic, []driver.Change{deletion})
		if (problems["orders"] != "") != refuses || (err == nil) != refuses {
			t.Errorf("%v: got %v, %v", code, problems, err)
		}
		var rules []*sarama.AclCreation
		for _, call := range broker.History() {
			if made, is := call.Request.(*sarama.CreateAclsRequest); is {
				rules = append(rules, made.AclCreations...)
			}
		}
		if len(rules) != 1 || rules[0].Resource != resourceOf("orders") || rules[0].Principal != "User:alice" {
			t.Errorf("%v: given back are %+v", code, rules)
		}
	}
}

// TestAMinimumThatCannotBeReadHoldsUpARestart: without it a broker would be stopped that a topic cannot do without.
func TestAMinimumThatCannotBeReadHoldsUpARestart(t *testing.T) {
	for code, refuses := range map[sarama.KError]bool{sarama.ErrTopicAuthorizationFailed: true,
		sarama.ErrUnknownTopicOrPartition: false} {
		d := mocked(t, map[string]sarama.MockResponse{
			"MetadataRequest":                   sarama.NewMockMetadataResponse(t).SetLeader("orders", 0, 1),
			"ListPartitionReassignmentsRequest": sarama.NewMockWrapper(&sarama.ListPartitionReassignmentsResponse{}),
			"DescribeConfigsRequest": sarama.NewMockWrapper(&sarama.DescribeConfigsResponse{Version: 4,
				Resources: []*sarama.ResourceResponse{{Type: sarama.TopicResource, Name: "orders", ErrorCode: int16(code)}}}),
		})
		table, err := d.Query(t.Context(), driver.Statement{Text: Restart, Arguments: []string{"1"}, Access: driver.ReadOnly})
		if (err != nil) != refuses {
			t.Errorf("%v: got %v, %v", code, table, err)
		}
	}
}
