// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/message-operator/config/crd"
	"github.com/zeroinfra/message-operator/internal/kind"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controllers serve all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{messagev1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// of is the registration of the kind of an object.
func of[T any](t *testing.T) typed.Registration {
	t.Helper()
	for _, registered := range kind.All() {
		if _, is := registered.Object().(T); is {
			return registered
		}
	}
	t.Fatalf("the operator does not serve %T", *new(T))
	return nil
}

// withUsers is the spec of an object with something inside the middleware.
const withUsers = `{"version":"4.4","users":[{"name":"shop","passwordFrom":{"name":"users"}}]}`

func TestDataProtection(t *testing.T) {
	kindtest.DataProtection(t, env, kindtest.Kept{Kind: of[*messagev1.KafkaCluster](t), Spec: withUsers})
}

func TestInstance(t *testing.T) {
	kindtest.Instance(t, env, kindtest.Kept{Kind: of[*messagev1.KafkaCluster](t), Spec: withUsers})
}

// topic makes a KafkaTopic of the cluster events.
func topic(t *testing.T, namespace, name string, spec messagev1.KafkaTopicSpec) *messagev1.KafkaTopic {
	t.Helper()
	spec.ClusterRef.Name = "events"
	k := &messagev1.KafkaTopic{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := env.Client.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k
}

// entity is what an object of the cluster has become; it is waited for.
func entity(t *testing.T, namespace, kind, name string) *platformv1.Entity {
	t.Helper()
	e := &platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: platformv1.EntityNameFor("kafkacluster-events", kind, name)}}
	testkit.WaitFor(t, env.Client, e, "is made", nil)
	return e
}

// tell plays the engine: it reports what became of an Entity.
func tell(t *testing.T, e *platformv1.Entity, o outcome.Outcome, observed map[string]string) {
	t.Helper()
	before := e.DeepCopy()
	conditions.Report(e, o, "the state matches the spec")
	e.Status.Observed, e.Status.DriftRepairs = observed, 1
	if err := patch.Status(t.Context(), env.Client, before, e); err != nil {
		t.Fatal(err)
	}
}

// says waits for a condition of a topic to be True for a reason, with a message that has the text.
func says(t *testing.T, k *messagev1.KafkaTopic, condition, reason, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, k, "says "+text, func() error {
		c := conditions.Get(k, condition)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("%s is %+v", condition, c)
		}
		return nil
	})
}

// A topic is what its Entities are: it waits while one is worked at, and is ready when all are.
func TestATopicTellsOfItsEntities(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, of[*messagev1.KafkaTopic](t))
	k := topic(t, namespace, "orders", messagev1.KafkaTopicSpec{Replicas: 3,
		Quotas: []messagev1.KafkaQuota{{User: "shop", KafkaRates: messagev1.KafkaRates{RequestPercentage: 50}}}})
	inside, quota := entity(t, namespace, "topic", "orders"), entity(t, namespace, "quota", "user/shop")
	says(t, k, platformv1.ReconcilingCondition, platformv1.ReasonProgressing, `"orders"`)
	tell(t, quota, outcome.Done(), nil)
	copied := outcome.Waiting(platformv1.ReasonProgressing, "3 of 12 partitions are copied to more brokers")
	tell(t, inside, copied, map[string]string{"partitions": "12", "replication-factor": "1-3"})
	says(t, k, platformv1.ReconcilingCondition, platformv1.ReasonProgressing,
		`topic "orders": 3 of 12 partitions are copied to more brokers`)
	if s := k.Status; s.TopicName != "orders" || s.Partitions != 12 || s.Replicas != "1-3" || s.DriftRepairs != 2 {
		t.Errorf("the status is %+v", s)
	}
	tell(t, inside, outcome.Done(), map[string]string{"partitions": "12", "replication-factor": "3"})
	testkit.WaitForReady(t, env.Client, k)
	if k.Status.Replicas != "3" || k.Status.Phase != platformv1.PhaseReady || k.Status.ObservedGeneration != k.Generation {
		t.Errorf("the status is %+v", k.Status)
	}
	const refusal = "Unknown topic config name: retention.days"
	tell(t, inside, outcome.Stalled(platformv1.ReasonRefusedByMiddleware, refusal), nil)
	says(t, k, platformv1.StalledCondition, platformv1.ReasonRefusedByMiddleware, refusal)

	// A quota that is taken out of the list goes, whatever becomes of the topic.
	if err := testkit.Edit(t.Context(), env.Client, k, func() { k.Spec.Quotas = nil }); err != nil {
		t.Fatal(err)
	}
	testkit.LetGo(t, env.Client, quota)
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// An Entity has the finalizer of the engine from its making where its object is deleted with it, and follows a change
// of that.
func TestAnEntityWaitsForItsObjectAsThePolicySays(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, of[*messagev1.KafkaTopic](t))
	k := topic(t, namespace, "logs", messagev1.KafkaTopicSpec{DeletionPolicy: platformv1.EntityDelete})
	inside := entity(t, namespace, "topic", "logs")
	for _, policy := range []platformv1.EntityDeletionPolicy{platformv1.EntityDelete, platformv1.EntityRetain,
		platformv1.EntityDelete, platformv1.EntityRetain} {
		if err := testkit.Edit(t.Context(), env.Client, k, func() { k.Spec.DeletionPolicy = policy }); err != nil {
			t.Fatal(err)
		}
		testkit.WaitFor(t, env.Client, inside, "has the policy "+string(policy), func() error {
			waits := slices.Contains(inside.Finalizers, platformv1.EntityFinalizer)
			if inside.Spec.DeletionPolicy != policy || waits != (policy == platformv1.EntityDelete) {
				return fmt.Errorf("its policy is %q, and its finalizers are %q", inside.Spec.DeletionPolicy, inside.Finalizers)
			}
			return nil
		})
	}
}

// Of two objects of one topic the one that was there first has it. The other says whose it is.
func TestTwoObjectsOfOneTopic(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, of[*messagev1.KafkaTopic](t))
	topic(t, namespace, "orders", messagev1.KafkaTopicSpec{})
	inside := entity(t, namespace, "topic", "orders")
	second := topic(t, namespace, "again", messagev1.KafkaTopicSpec{TopicName: "orders", Partitions: 7})
	says(t, second, platformv1.StalledCondition, platformv1.ReasonNameTaken, `belongs to KafkaTopic "orders"`)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(inside), inside); err != nil {
		t.Fatal(err)
	}
	if len(inside.Spec.Parameters) > 0 {
		t.Errorf("the second object changed the topic of the first: %v", inside.Spec.Parameters)
	}
}
