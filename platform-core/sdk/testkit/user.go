// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Grant gives a subject rights in a namespace, by a Role and a binding that are called "of-" and its name.
func (e *Env) Grant(t testing.TB, namespace string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "of-" + subject.Name}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}},
	} {
		if err := e.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("cannot give %q rights: %v", subject.Name, err)
		}
	}
}

// User is the client of a person with rights in a namespace.
func (e *Env) User(t testing.TB, namespace, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	e.Grant(t, namespace, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, rules...)
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	c, err := client.New(config, client.Options{Scheme: e.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
