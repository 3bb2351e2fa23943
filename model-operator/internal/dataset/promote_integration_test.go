// SPDX-License-Identifier: Apache-2.0

//go:build integration

package dataset

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// allow gives somebody rights in the namespace.
func (b *bench) allow(subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	b.Helper()
	meta := b.meta("of-" + subject.Name)
	b.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{subject}})
}

// user is the client of a person with rights in the namespace.
func (b *bench) user(name string, rules ...rbacv1.PolicyRule) client.Client {
	b.Helper()
	b.allow(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, rules...)
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// fromThePage is the Operation and the rights of its account that the page of Model shows.
func fromThePage(t *testing.T) (*platformv1.Operation, []rbacv1.PolicyRule) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/kinds/model.md")
	if err != nil {
		t.Fatal(err)
	}
	op, role := &platformv1.Operation{}, &rbacv1.Role{}
	for _, found := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		into := map[string]any{"kind: Operation\n": op, "kind: Role\n": role}
		for kind, object := range into {
			if !strings.Contains(string(found[1]), kind) {
				continue
			}
			if err := yaml.UnmarshalStrict(found[1], object); err != nil {
				t.Fatal(err)
			}
		}
	}
	if op.Spec.Template == "" || len(role.Rules) == 0 {
		t.Fatal("the page shows no Operation or no Role")
	}
	return op, role.Rules
}

// A stage is changed by an Operation once somebody else has approved it, by an account that alone may do so.
func TestStageChangesByAnOperation(t *testing.T) {
	b := newBench(t)
	serve(t)
	op, rules := fromThePage(t)
	account := &corev1.ServiceAccount{ObjectMeta: b.meta(op.Spec.ServiceAccountName)}
	version := func(name aiv1.ModelVersionName, digit string) aiv1.ModelVersion {
		return aiv1.ModelVersion{Name: name, SHA256: strings.Repeat(digit, 64),
			Source: aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/" + digit}}}
	}
	m := &aiv1.Model{ObjectMeta: b.meta("sample"), Spec: aiv1.ModelSpec{Format: aiv1.FormatGGUF,
		Versions: []aiv1.ModelVersion{version("1.0", "1"), version("2.0", "2")},
		Stages:   map[aiv1.ModelStage]aiv1.ModelVersionName{"Production": "1.0"}}}
	b.create(account, m)
	b.allow(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: account.Name}, rules...)
	operations := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"operations"},
			Verbs: verbs}
	}
	ada := b.user("ada@example.com", operations("create"), rbacv1.PolicyRule{APIGroups: []string{""},
		Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}})
	bob := b.user("bob@example.com", operations("get", "patch", "approve"))
	op.Namespace = b.namespace
	if err := ada.Create(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	reaches := func(phase platformv1.OperationPhase) {
		t.Helper()
		testkit.WaitFor(t, env.Client, op, "is "+string(phase), func() error {
			if op.Status.Phase != phase {
				return fmt.Errorf("the status is %+v", op.Status)
			}
			return nil
		})
	}
	production := func(want aiv1.ModelVersionName) {
		t.Helper()
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil ||
			m.Spec.Stages["Production"] != want {
			t.Errorf("in production is %q, want %q: %v", m.Spec.Stages["Production"], want, err)
		}
	}
	reaches(platformv1.OperationAwaitingApproval)
	production("1.0")
	approved := client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"approval":{"by":"bob@example.com","decision":"Approved"}}}`))
	if err := bob.Patch(t.Context(), &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: op.Namespace,
		Name: op.Name}}, approved); err != nil {
		t.Fatal(err)
	}
	reaches(platformv1.OperationSucceeded)
	production("2.0")
	if before := op.Status.Steps[0].Outputs["version"]; before != "1.0" || op.Status.CompletionTime == nil {
		t.Errorf("the record says that %q was there before, and ended at %v", before, op.Status.CompletionTime)
	}
}
