// SPDX-License-Identifier: Apache-2.0

package message

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// manyName is the cluster of many topics, and manyTopics how many these are.
	manyName   = "many"
	manyTopics = 10_000
	// manyBudget is what they may take from the first object to the last that is Ready.
	manyBudget = 180 * time.Second
	// manyTimeout is when the test gives up on a machine that is slow.
	manyTimeout = 20 * time.Minute
	// manyMemory is what the operator may hold, in MiB.
	manyMemory = 400
	// creators is how many objects are created at the same time.
	creators = 32
)

// TestManyKafkaTopics creates 10,000 KafkaTopics of a cluster of three nodes, and deletes them: neither the operator
// nor a node is restarted. With E2E_HOLD_BUDGETS it fails where they are not Ready within 180 s, or the operator holds
// more than 400 MiB. It runs alone because it measures.
func TestManyKafkaTopics(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	cluster := &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(manyName), Spec: messagev1.KafkaClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "4.4", Resources: small("1Gi"),
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("8Gi")}},
	}}
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + manyName},
		ways: s.NewPortForwards()}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	before, memory := k.ProcessStarts(), k.watchMemory()
	fast := k.fastClient()
	t.Run("created", func(t *testing.T) {
		k := k.in(t)
		began := time.Now()
		ready := k.countReady()
		k.createTopics(fast)
		t.Logf("%d KafkaTopics were created within %s", manyTopics, framework.FormatSeconds(time.Since(began)))
		k.Eventually(manyTimeout, "all are Ready", func() error {
			if n := ready.Load(); n < manyTopics {
				return fmt.Errorf("%d of %d are", n, manyTopics)
			}
			return nil
		})
		took := time.Since(began)
		t.Logf("%d KafkaTopics were Ready within %s; the operator held up to %d MiB", manyTopics,
			framework.FormatSeconds(took), memory.Load())
		if framework.Config.HoldBudgets && took > manyBudget {
			t.Errorf("they may take %s", manyBudget)
		}
		if framework.Config.HoldBudgets && memory.Load() > manyMemory {
			t.Errorf("the operator may hold %d MiB", manyMemory)
		}
		k.hasTopics(manyTopics)
	})
	t.Run("deleted", func(t *testing.T) {
		k := k.in(t)
		began := time.Now()
		if err := fast.DeleteAllOf(k.Ctx, &messagev1.KafkaTopic{}, client.InNamespace(s.Name)); err != nil {
			t.Fatal(err)
		}
		k.Eventually(manyTimeout, "no Entity is left", func() error {
			entities := &platformv1.EntityList{}
			err := fast.List(k.Ctx, entities, client.InNamespace(s.Name), client.Limit(1))
			if err == nil && len(entities.Items) > 0 {
				err = fmt.Errorf("%q is there, and others", entities.Items[0].Name)
			}
			return err
		})
		t.Logf("%d KafkaTopics were deleted within %s", manyTopics, framework.FormatSeconds(time.Since(began)))
		k.hasTopics(0)
	})
	if now := k.ProcessStarts(); !maps.Equal(now, before) {
		t.Errorf("the nodes were %v and are %v", before, now)
	}
	pods, err := framework.PodsOf(s.Ctx, framework.OtherOperator)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		for container, n := range framework.Restarts(&pods[i]) {
			if n > 0 {
				t.Errorf("container %q of %s was restarted %d times", container, pods[i].Name, n)
			}
		}
	}
}

// fastClient is a client without a limit of its own.
func (k *kafka) fastClient() client.Client {
	k.Helper()
	config := rest.CopyConfig(framework.Cluster.Config)
	config.QPS = -1
	fast, err := client.New(config, client.Options{Scheme: framework.Cluster.Client.Scheme()})
	if err != nil {
		k.Fatal(err)
	}
	return fast
}

// createTopics creates the objects, several at a time.
func (k *kafka) createTopics(fast client.Client) {
	k.Helper()
	group, ctx := errgroup.WithContext(k.Ctx)
	group.SetLimit(creators)
	for i := range manyTopics {
		group.Go(func() error {
			topic := topicFor(fmt.Sprintf("topic-%05d", i), func(spec *messagev1.KafkaTopicSpec) {
				spec.ClusterRef.Name, spec.Partitions, spec.Replicas = manyName, 1, 1
				spec.ACLs = []messagev1.KafkaACL{{User: "alice", Operations: []messagev1.KafkaOperation{messagev1.OperationRead}}}
			})
			topic.Namespace = k.Namespace.Name
			return fast.Create(ctx, topic)
		})
	}
	if err := group.Wait(); err != nil {
		k.Fatal(err)
	}
}

// countReady counts the KafkaTopics of the namespace that have been Ready, from now on. An informer reads what a watch
// that broke off has missed.
func (k *kafka) countReady() *atomic.Int64 {
	k.Helper()
	topics, err := cache.New(framework.Cluster.Config, cache.Options{Scheme: framework.Cluster.Client.Scheme(),
		DefaultNamespaces: map[string]cache.Config{k.Namespace.Name: {}}})
	if err != nil {
		k.Fatal(err)
	}
	informer, err := topics.GetInformer(k.Ctx, &messagev1.KafkaTopic{}, cache.BlockUntilSynced(false))
	if err != nil {
		k.Fatal(err)
	}
	count, seen := &atomic.Int64{}, map[string]bool{}
	look := func(object any) {
		topic, is := object.(*messagev1.KafkaTopic)
		if is && !seen[topic.Name] && framework.ReadyNow(topic, topic.Status.ObservedGeneration) == nil {
			seen[topic.Name] = true
			count.Add(1)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: look,
		UpdateFunc: func(_, now any) { look(now) }}); err != nil {
		k.Fatal(err)
	}
	go func() {
		if err := topics.Start(k.Ctx); err != nil {
			k.Errorf("cannot watch the KafkaTopics: %v", err)
		}
	}()
	return count
}

// watchMemory tells the most that the operator's process has held since, in MiB.
func (k *kafka) watchMemory() *atomic.Int64 {
	k.Helper()
	most := &atomic.Int64{}
	ctx, cancel := context.WithCancel(k.Ctx)
	k.Cleanup(cancel)
	look := func() {
		leader, err := framework.LeaderOf(ctx, framework.OtherOperator)
		if err != nil {
			return
		}
		page, err := framework.ScrapeMetrics(ctx, leader)
		if err != nil {
			return
		}
		if bytes, is := framework.Sample(page, "process_resident_memory_bytes"); is {
			most.Store(max(most.Load(), int64(bytes)>>20))
		}
	}
	go func() {
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for look(); ctx.Err() == nil; look() {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return most
}

// hasTopics waits until the cluster has so many topics of the test.
func (k *kafka) hasTopics(want int) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, fmt.Sprintf("Kafka has %d topics", want), func() error {
		return k.ask(func(admin sarama.ClusterAdmin) error {
			topics, err := admin.ListTopics()
			has := 0
			for name := range topics {
				if strings.HasPrefix(name, "topic-") {
					has++
				}
			}
			if err == nil && has != want {
				err = fmt.Errorf("it has %d", has)
			}
			return err
		})
	})
}
