// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// inventory lists every object in the namespace of the test, of every kind that the API server knows, as
// "resource.group/name" in order. Left out: events and metrics, which nobody owns, and what was there before the
// test made its first instance.
func inventory(s *framework.Namespace) []string {
	s.Helper()
	var found []string
	for _, list := range namespacedResources(s) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			s.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "events" || group.Group == "metrics.k8s.io" || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			found = append(found, objectNames(s, group.WithResource(resource.Name))...)
		}
	}
	slices.Sort(found)
	return found
}

// namespacedResources are all that the API server has in namespaces. While an aggregated API is away for a moment, the
// list is not whole.
func namespacedResources(s *framework.Namespace) (lists []*metav1.APIResourceList) {
	s.Helper()
	s.Eventually(framework.SettleTimeout, "every API says what it serves", func() (err error) {
		lists, err = framework.Cluster.Kube.Discovery().ServerPreferredNamespacedResources()
		return err
	})
	return lists
}

// objectNames lists the objects of one resource. A generated name is shown as its beginning and *.
func objectNames(s *framework.Namespace, resource schema.GroupVersionResource) []string {
	s.Helper()
	objects := &metav1.PartialObjectMetadataList{}
	s.Eventually(framework.EndpointTimeout, "there is a list of "+resource.Resource, func() error {
		list, err := framework.Cluster.Meta.Resource(resource).Namespace(s.Name).List(s.Ctx, metav1.ListOptions{})
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
func listOwned(i *framework.Instance, lists ...client.ObjectList) {
	i.Helper()
	for _, list := range lists {
		if err := framework.Cluster.Client.List(i.Ctx, list, client.InNamespace(i.Namespace.Name),
			client.MatchingLabels{platformv1.ApplicationLabel: i.Application()}); err != nil {
			i.Fatal(err)
		}
	}
}

// inventoryOf keeps what belongs to an instance: all that has the name of its Application in its own.
func inventoryOf(i *framework.Instance) []string {
	i.Helper()
	return slices.DeleteFunc(inventory(i.Namespace), func(entry string) bool {
		return !framework.ContainsWord(entry, i.Application()) &&
			entry != fmt.Sprintf("redis.database.zeroinfra.github.com/%s", i.Name)
	})
}

// anonymous replaces the name of the instance, so that two instances can be compared.
func anonymous(i *framework.Instance, entries []string) []string {
	out := make([]string, len(entries))
	for n, entry := range entries {
		out[n] = strings.ReplaceAll(strings.ReplaceAll(entry, i.Application(), "APPLICATION"), "/"+i.Name, "/NAME")
	}
	slices.Sort(out)
	return out
}
