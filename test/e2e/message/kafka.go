// SPDX-License-Identifier: Apache-2.0

package message

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/test/e2e/framework"
)

// component of a Kafka that clients speak with.
const component = "kafka"

// clientID is what clients of the tests call themselves.
const clientID = "end-to-end"

// kafka is an instance and the ways to it.
type kafka struct {
	*framework.Application
	ways *framework.PortForwards
	// ca of the certificates that brokers show; empty where they speak no TLS.
	ca []byte
}

// account is what the binding Secret has.
type account struct{ address, username, password string }

func (k *kafka) binding() account {
	k.Helper()
	secret := &corev1.Secret{}
	k.MustGet(k.Object().Status.Binding.Name, secret)
	text := func(key string) string { return string(secret.Data[key]) }
	return account{net.JoinHostPort(text("host"), text("port")), text("username"), text("password")}
}

// as is the binding of another user.
func (a account) as(username, password string) account {
	a.username, a.password = username, password
	return a
}

// dialer leads to brokers by their names in DNS, and to any of them by the name of the Service.
type dialer struct {
	ways    *framework.PortForwards
	service string
}

// Dial implements the library's interface for dialers.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ways.Ctx, framework.AnswerTimeout)
	defer cancel()
	if address == d.service {
		return d.ways.DialService(ctx, network, address)
	}
	return d.ways.Dial(ctx, network, address)
}

// scramClient logs in as the library asks.
type scramClient struct{ *scram.ClientConversation }

// Begin implements sarama.SCRAMClient.
func (c *scramClient) Begin(username, password, authzID string) error {
	client, err := scram.SHA512.NewClient(username, password, authzID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

// config of a client that waits for all replicas in sync, and sends no record twice.
func (k *kafka) config(a account) *sarama.Config {
	c := sarama.NewConfig()
	c.Version, c.ClientID = sarama.V4_0_0_0, clientID
	c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, dialer{k.ways, a.address}
	c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLTypeSCRAMSHA512
	c.Net.SASL.User, c.Net.SASL.Password = a.username, a.password
	c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{} }
	c.Net.TLS.Enable, c.Net.TLS.Config = len(k.ca) > 0, framework.TLSConfigFor(k.ca, "")
	c.Net.DialTimeout, c.Net.ReadTimeout, c.Net.WriteTimeout = 5*time.Second, 10*time.Second, 10*time.Second
	c.Net.MaxOpenRequests = 1
	c.Producer.RequiredAcks, c.Producer.Idempotent = sarama.WaitForAll, true
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewRoundRobinPartitioner
	c.Producer.Retry.Max, c.Producer.Retry.Backoff = 600, 100*time.Millisecond
	c.Metadata.Retry.Max, c.Metadata.Retry.Backoff = 600, 100*time.Millisecond
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

// in is the same instance for a subtest.
func (k *kafka) in(t *testing.T) *kafka {
	part := *k
	part.Application = &framework.Application{Namespace: k.Namespace.In(t), Name: k.Name}
	return &part
}

// producer sends records with growing numbers to a topic without pause.
type producer struct {
	*kafka
	topic string
	// run tells its records from those of other producers.
	run          string
	account      account
	stop, done   chan struct{}
	acknowledged atomic.Int64
	failed       atomic.Int64
	longest      atomic.Int64
	problem      atomic.Value
}

// produce begins to send, and returns once a record was acknowledged.
func (k *kafka) produce(topic string) *producer {
	k.Helper()
	p := &producer{kafka: k, topic: topic, run: rand.Text(), account: k.binding(), stop: make(chan struct{}),
		done: make(chan struct{})}
	sync, err := sarama.NewSyncProducer([]string{p.account.address}, k.config(p.account))
	if err != nil {
		k.Fatalf("no producer: %v", err)
	}
	go p.send(sync)
	p.goesOn()
	return p
}

func (p *producer) send(sync sarama.SyncProducer) {
	defer close(p.done)
	defer sync.Close()
	for last := time.Now(); ; {
		select {
		case <-p.stop:
			return
		default:
		}
		number := p.acknowledged.Load() + p.failed.Load()
		_, _, err := sync.SendMessage(&sarama.ProducerMessage{Topic: p.topic,
			Value: sarama.StringEncoder(p.record(number))})
		if err != nil {
			p.failed.Add(1)
			p.problem.Store(err.Error())
			continue
		}
		p.acknowledged.Add(1)
		p.longest.Store(max(p.longest.Load(), int64(time.Since(last))))
		last = time.Now()
	}
}

// record is the text of a number.
func (p *producer) record(number int64) string { return fmt.Sprintf("%s %d", p.run, number) }

// goesOn waits until further records are acknowledged.
func (p *producer) goesOn() {
	p.Helper()
	before := p.acknowledged.Load()
	p.Eventually(framework.SettleTimeout, "records are acknowledged", func() error {
		if p.acknowledged.Load() <= before+2 {
			return fmt.Errorf("%d are: %v", p.acknowledged.Load(), p.problem.Load())
		}
		return nil
	})
}

// judge ends it, and has the test fail where a record that was acknowledged is not there, or a send failed.
func (p *producer) judge(what string) {
	p.Helper()
	close(p.stop)
	<-p.done
	there := p.read(p.account, p.topic)
	lost := 0
	for number := range p.acknowledged.Load() + p.failed.Load() {
		if _, is := slices.BinarySearch(there, p.record(number)); !is {
			lost++
		}
	}
	p.Logf("%s: %d records acknowledged, %d lost, %d sends failed, %s at most between two", what, p.acknowledged.Load(),
		lost, p.failed.Load(), framework.FormatSeconds(time.Duration(p.longest.Load())))
	if failed := p.failed.Load(); int64(lost) > failed || failed > 0 {
		p.Errorf("%s: %d of %d records are lost, %d sends failed: %v", what, lost, p.acknowledged.Load(), failed,
			p.problem.Load())
	}
}

// read returns all records of a topic, in the order of texts.
func (k *kafka) read(a account, topic string) []string {
	k.Helper()
	var values []string
	k.Eventually(framework.SettleTimeout, "topic "+topic+" is read", func() (err error) {
		values, err = k.tryRead(a, topic)
		return err
	})
	slices.Sort(values)
	return values
}

func (k *kafka) tryRead(a account, topic string) (values []string, err error) {
	client, err := sarama.NewClient([]string{a.address}, k.config(a))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	partitions, err := client.Partitions(topic)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	// Of those that are read at the same time, a broker sends the records in one answer.
	var group errgroup.Group
	group.SetLimit(50)
	parts := make([][]string, len(partitions))
	for i, partition := range partitions {
		group.Go(func() error {
			end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
			if err != nil {
				return err
			}
			parts[i], err = readPartition(consumer, topic, partition, end)
			return err
		})
	}
	err = group.Wait()
	return slices.Concat(parts...), err
}

func readPartition(consumer sarama.Consumer, topic string, partition int32, end int64) (values []string, err error) {
	if end == 0 {
		return nil, nil
	}
	from, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	timeout := time.After(framework.SettleTimeout)
	for {
		select {
		case message := <-from.Messages():
			values = append(values, string(message.Value))
			if message.Offset >= end-1 {
				return values, nil
			}
		case <-timeout:
			return nil, fmt.Errorf("partition %d of %s ends at %d, and only %d records came", partition, topic, end,
				len(values))
		}
	}
}

// admin asks a cluster as an administrator's tools do.
func (k *kafka) admin(a account) sarama.ClusterAdmin {
	k.Helper()
	admin, err := sarama.NewClusterAdmin([]string{a.address}, k.config(a))
	if err != nil {
		k.Fatalf("cannot ask Kafka: %v", err)
	}
	k.Cleanup(func() { _ = admin.Close() })
	return admin
}

// inSync waits until each partition has all of its replicas in sync, and returns on which brokers they are.
func (k *kafka) inSync(topics ...string) (brokers []int32) {
	k.Helper()
	admin := k.admin(k.binding())
	k.Eventually(framework.ReadyTimeout, "all replicas of "+strings.Join(topics, ", ")+" are in sync", func() error {
		brokers = nil
		described, err := admin.DescribeTopics(topics)
		if err != nil {
			return err
		}
		for _, topic := range described {
			for _, p := range topic.Partitions {
				if len(p.Isr) != len(p.Replicas) || p.Err != sarama.ErrNoError {
					return fmt.Errorf("partition %d of %s has %v in sync of %v: %v", p.ID, topic.Name, p.Isr, p.Replicas, p.Err)
				}
				brokers = append(brokers, p.Replicas...)
			}
		}
		return nil
	})
	slices.Sort(brokers)
	return slices.Compact(brokers)
}
