// SPDX-License-Identifier: Apache-2.0

//go:build integration

package testkit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{Own: "an account is denied what it may not do"})
}

func clientOf(t *testing.T, operator *testkit.Operator) client.Client {
	t.Helper()
	c, err := client.New(operator.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The account of an operator may do what config/rbac says and no more, and the audit log tells which is which.
func TestOperatorAccount(t *testing.T) {
	namespace := env.Namespace(t)
	operator, err := env.Operator(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	c := clientOf(t, operator)
	if err := c.List(t.Context(), &corev1.PodList{}); err != nil {
		t.Errorf("it may not list pods: %v", err)
	}
	if err := c.List(t.Context(), &corev1.NamespaceList{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing namespaces was not forbidden: %v", err)
	}
	found, err := env.Accesses(operator.User)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []testkit.Access{{Verb: "list", Resource: "pods"},
		{Verb: "list", Resource: "namespaces", Refused: true}} {
		if found[want] != 1 {
			t.Errorf("the audit log has no %+v: %v", want, found)
		}
	}
}

// Who may patch and not create is denied to apply what is not there, which the audit log tells as well.
func TestApplyWithoutTheRightToCreate(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "patcher"}
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: meta.Namespace, Name: meta.Name}}},
	} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	patcher, err := env.Account(t.Context(), meta.Namespace, meta.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	wanted := corev1apply.ConfigMap("absent", meta.Namespace).WithData(map[string]string{"a": "b"})
	if err := clientOf(t, patcher).Apply(t.Context(), wanted, client.FieldOwner("test")); !apierrors.IsForbidden(err) {
		t.Errorf("applying what is not there was not forbidden: %v", err)
	}
	if err := env.Denied(patcher.User); err == nil || !strings.Contains(err.Error(), "denied to patch configmaps") {
		t.Errorf("the audit log tells of %v", err)
	}
}

// An agent with the rights of its pod's account writes the report of its own pod; the policy answers
// 403 to all else, as to a missing right.
func TestPolicyOnAgents(t *testing.T) {
	namespace := env.Namespace(t)
	if _, err := env.Operator(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	account := metav1.ObjectMeta{Namespace: namespace, Name: "agents"}
	pods := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "patch"}}}
	own, other := podOf(namespace, "own"), podOf(namespace, "other")
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.Role{ObjectMeta: account, Rules: pods},
		&rbacv1.RoleBinding{ObjectMeta: account,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}}},
		own, other,
	} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := env.Account(t.Context(), namespace, account.Name,
		&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: own.Name, UID: own.UID})
	if err != nil {
		t.Fatal(err)
	}
	c := clientOf(t, agent)
	report := `{"metadata":{"annotations":{"` + platformv1.ReportAnnotation + `":"{}"}}}`
	patch := func(pod *corev1.Pod, kind types.PatchType, body string) error {
		return c.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(kind, []byte(body)))
	}
	if err := patch(own, types.MergePatchType, report); err != nil {
		t.Errorf("it may not report: %v", err)
	}
	tries := 0
	testkit.Eventually(t, "the policy in force", func(context.Context) error {
		tries++
		if err := patch(own, types.MergePatchType,
			fmt.Sprintf(`{"metadata":{"labels":{"try":"%d"}}}`, tries)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a label was not forbidden: %w", err)
		}
		return nil
	})
	for what, err := range map[string]error{
		"another pod":        patch(other, types.MergePatchType, report),
		"a label":            patch(own, types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`),
		"another annotation": patch(own, types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`),
		"a finalizer":        patch(own, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a"]}}`),
		"an image": patch(own, types.JSONPatchType,
			`[{"op":"replace","path":"/spec/containers/0/image","value":"b"}]`),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: want 403, got %v", what, err)
		}
	}
}

func podOf(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy}},
		Spec: corev1.PodSpec{ServiceAccountName: "agents", Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
}
