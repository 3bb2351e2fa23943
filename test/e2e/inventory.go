// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// inventory lists every object in the namespace of the test, of every kind that the API server knows, as
// "resource.group/name" in order. Left out: events and metrics, which nobody owns, and what was there before the
// test made its first instance.
func (s *space) inventory() []string {
	s.Helper()
	var found []string
	for _, list := range s.namespacedResources() {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			s.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "events" || group.Group == "metrics.k8s.io" || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found = append(found, s.named(group.WithResource(resource.Name))...)
		}
	}
	slices.Sort(found)
	return found
}

// namespacedResources are all that the API server has in namespaces. While an aggregated API is away for a moment, the list is not whole.
func (s *space) namespacedResources() (lists []*metav1.APIResourceList) {
	s.Helper()
	s.eventually(settleIn, "every API says what it serves", func() (err error) {
		lists, err = world.kube.Discovery().ServerPreferredNamespacedResources()
		return err
	})
	return lists
}

// named lists the objects of one resource. A generated name is shown as its beginning and *.
func (s *space) named(resource schema.GroupVersionResource) []string {
	s.Helper()
	objects := &metav1.PartialObjectMetadataList{}
	s.eventually(spreadIn, "there is a list of "+resource.Resource, func() error {
		list, err := world.meta.Resource(resource).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
		if err == nil {
			objects = list
		}
		// A definition may have gone since the API server told of it.
		return client.IgnoreNotFound(err)
	})
	kind := strings.TrimSuffix(resource.Resource+"."+resource.Group, ".")
	var found []string
	for _, object := range objects.Items {
		name := object.Name
		if object.GenerateName != "" {
			name = object.GenerateName + "*"
		}
		switch found = append(found, kind+"/"+name); found[len(found)-1] {
		case "serviceaccounts/default", "configmaps/kube-root-ca.crt", "pods/client":
			found = found[:len(found)-1]
		}
	}
	return found
}

// listOwned fills lists with the objects of an instance.
func (i *instance) listOwned(lists ...client.ObjectList) {
	i.Helper()
	for _, list := range lists {
		if err := world.client.List(i.ctx, list, client.InNamespace(i.space.name),
			client.MatchingLabels{platformv1.ApplicationLabel: i.application()}); err != nil {
			i.Fatal(err)
		}
	}
}

// containsWord says whether a name holds another one that ends at a dash, a dot or the end: "redis-a-main" holds
// "redis-a", and "redis-ab" does not.
func containsWord(name, word string) bool {
	_, rest, found := strings.Cut(name, word)
	return found && (rest == "" || rest[0] == '-' || rest[0] == '.')
}

// inventoryOf keeps what belongs to an instance: all that has the name of its Application in its own.
func (i *instance) inventoryOf() []string {
	i.Helper()
	return slices.DeleteFunc(i.inventory(), func(entry string) bool {
		return !containsWord(entry, i.application()) && entry != fmt.Sprintf("redis.database.zeroinfra.github.com/%s", i.name)
	})
}

// anonymous replaces the name of the instance, so that two instances can be compared.
func (i *instance) anonymous(entries []string) []string {
	out := make([]string, len(entries))
	for n, entry := range entries {
		out[n] = strings.ReplaceAll(strings.ReplaceAll(entry, i.application(), "APPLICATION"), "/"+i.name, "/NAME")
	}
	slices.Sort(out)
	return out
}
