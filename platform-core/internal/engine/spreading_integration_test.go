// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// earlier are the revisions that an engine of 0.1, which spread pods in another way, gave the sets of the plugin shop.
// They change with the plugin's files only.
var earlier = map[string]string{"a-db-0": "5d3c5cfef9158c82", "a-db-1": "5d3c5cfef9158c82",
	"a-web-main": "82b0430fbf59a994"}

// An engine that spreads pods in another way than the one before replaces none for it: the pods that it makes from then
// on are spread in the new way.
func TestPodsOfAnEarlierEngineStayWhereTheyAre(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	_, _, stop := run(t, -1)
	app := shop(namespace, "a", "tiers")
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	stop()
	asBefore(t, namespace)
	before := uids(t, namespace)

	f, _, stop := run(t, -1)
	for name := range earlier {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		testkit.WaitFor(t, env.Client, set, "is as this engine renders it, with all of its pods", func() error {
			if !strings.Contains(string(set.Spec.Template.Raw), "podAntiAffinity") {
				return fmt.Errorf("the template is that before: %s", set.Spec.Template.Raw)
			}
			if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedReplicas != set.Spec.Replicas ||
				s.ReadyReplicas != set.Spec.Replicas {
				return fmt.Errorf("generation %d, status %+v", set.Generation, s)
			}
			return nil
		})
	}
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "web", Replicas: new(int32(2))}}
	})
	added := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-web-main-1"}}
	testkit.WaitFor(t, env.Client, added, "runs", func() error {
		if added.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", added.Status.Phase)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	stop()
	if a := added.Spec.Affinity; a == nil || a.PodAntiAffinity == nil || len(added.Spec.TopologySpreadConstraints) != 1 {
		t.Errorf("a pod of this engine has affinity %+v, constraints %+v", a, added.Spec.TopologySpreadConstraints)
	}
	after := uids(t, namespace)
	delete(after, added.Name)
	if !reflect.DeepEqual(after, before) {
		t.Errorf("there are %v, and were %v", after, before)
	}
	for _, write := range f.spent() {
		if strings.HasPrefix(write, "DELETE") && strings.Contains(write, "/pods/") {
			t.Errorf("it wrote: %s", write)
		}
	}
}

// asBefore gives sets and pods revision and spreading of an engine of 0.1: two constraints, of which one is for zones.
// No engine runs meanwhile.
func asBefore(t *testing.T, namespace string) {
	t.Helper()
	var sets platformv1.WorkloadSetList
	if err := env.Client.List(t.Context(), &sets, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		var template corev1.PodTemplateSpec
		if err := json.Unmarshal(set.Spec.Template.Raw, &template); err != nil {
			t.Fatal(err)
		}
		own := template.Spec.TopologySpreadConstraints[0]
		zones := own
		zones.TopologyKey = corev1.LabelTopologyZone
		template.Spec.Affinity, template.Spec.TopologySpreadConstraints = nil, []corev1.TopologySpreadConstraint{own, zones}
		raw, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		set.Spec.Template.Raw, set.Spec.Revision = raw, earlier[set.Name]
		if err := env.Client.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		var pods corev1.PodList
		if err := env.Client.List(t.Context(), &pods, client.InNamespace(namespace),
			client.MatchingLabels(own.LabelSelector.MatchLabels)); err != nil {
			t.Fatal(err)
		}
		for j := range pods.Items {
			again(t, &pods.Items[j], set.Spec.Revision, &template.Spec)
		}
	}
}

// again makes a pod anew, of a revision and spread as a template says, and waits until it runs.
func again(t *testing.T, pod *corev1.Pod, revision string, like *corev1.PodSpec) {
	t.Helper()
	made := pod.DeepCopy()
	made.ResourceVersion, made.UID, made.CreationTimestamp, made.Status = "", "", metav1.Time{}, corev1.PodStatus{}
	made.Labels[platformv1.RevisionLabel] = revision
	made.Spec.Affinity, made.Spec.TopologySpreadConstraints = like.Affinity, like.TopologySpreadConstraints
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	create(t, made)
	testkit.WaitFor(t, env.Client, made, "runs again", func() error {
		if made.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", made.Status.Phase)
		}
		return nil
	})
}
