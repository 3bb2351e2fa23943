// SPDX-License-Identifier: Apache-2.0

package component

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestOwned(t *testing.T) {
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Name: "a-db", UID: "1"}}
	service := func(name, uid string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{Name: component.Name, UID: component.UID, Controller: new(uid == "1")},
		}}}
	}
	var names []string
	for _, s := range owned([]corev1.Service{service("b", "1"), service("foreign", "2"), service("c", "1"),
		service("a", "1")}, component) {
		names = append(names, s.Name)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("owned are %v, want %v", names, want)
	}
}
