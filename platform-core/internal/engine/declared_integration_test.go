// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// tells has the agent of a pod report an attribute.
func tells(t *testing.T, namespace, name, attribute, value string) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	said, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	reported := pod.DeepCopy()
	said.Attributes = map[string]string{attribute: value}
	reported.Annotations[platformv1.ReportAnnotation] = said.String()
	if err := env.Client.Patch(t.Context(), reported, client.MergeFrom(pod)); err != nil {
		t.Fatal(err)
	}
}

// What pods report becomes a condition of the instance by what the plugin declares, and holds nothing up.
func TestConditionsThatAPluginDeclares(t *testing.T) {
	namespace, app := standing(t, "quorum")
	has := func(what string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, app, "says "+what, func() error {
			got := ""
			if c := conditions.Get(app, "Stocked"); c != nil {
				got = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
			}
			if got != what {
				return fmt.Errorf("it says %q", got)
			}
			return nil
		})
	}
	has("")
	tells(t, namespace, "a-quorum-main-0", "stock", "Full")
	has("True Full: the stock is full")
	tells(t, namespace, "a-quorum-main-2", "stock", "Empty")
	has("False Empty: the stock is empty")
	if !conditions.IsTrue(app, platformv1.ReadyCondition) {
		t.Error("it is not Ready for that")
	}
	tells(t, namespace, "a-quorum-main-2", "stock", "")
	has("True Full: the stock is full")
	tells(t, namespace, "a-quorum-main-0", "stock", "")
	has("")
}

// A credential that only a user can supply is there when he does, and is never made.
func TestACredentialThatOnlyAUserSupplies(t *testing.T) {
	namespace, app := standing(t, "quorum")
	mounted := client.ObjectKey{Namespace: namespace, Name: platformv1.CredentialNameFor("a", "partner")}
	if err := env.Client.Get(t.Context(), mounted, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a key was made: %v", err)
	}
	supply := func(s *platformv1.ApplicationSpec) {
		s.Credentials = []platformv1.Credential{
			{Name: "partner", PasswordFrom: platformv1.SecretKeyReference{Name: "mine", Key: "key"}}}
	}
	change(t, app, supply)
	testkit.WaitFor(t, env.Client, app, "waits for the Secret", func() error {
		if c := conditions.Get(app, platformv1.StalledCondition); c == nil || c.Reason != platformv1.ReasonSecretNotFound {
			return fmt.Errorf("it has %v", app.Status.Conditions)
		}
		return nil
	})
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Data: map[string][]byte{"key": []byte("the key")}})
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-quorum-main"}}
	uses := func(want []string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, set, fmt.Sprint("runs ", want), func() error {
			p, err := render.Plan(set)
			if err != nil || !slices.Equal(p.Process.Command, want) {
				return fmt.Errorf("it runs %v, %w", p.Process.Command, err)
			}
			return nil
		})
	}
	uses([]string{"quorum", "--partner=/zeroinfra/secrets/partner/password"})
	testkit.WaitForReady(t, env.Client, app)
	secret := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), mounted, secret); err != nil || string(secret.Data["password"]) != "the key" {
		t.Errorf("the pods mount %q, %v", secret.Data, err)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Credentials = nil })
	uses([]string{"quorum"})
	testkit.WaitForReady(t, env.Client, app)
}
