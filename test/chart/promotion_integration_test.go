// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// modelChart is the chart of the kinds Model and Inference.
const modelChart = "model-operator"

// fromThePage is the Operation and the rights of its account that the page of Model shows.
func fromThePage(t *testing.T) (*platformv1.Operation, []rbacv1.PolicyRule) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(), "docs", "kinds", "model.md"))
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

// promotions are what a test does with the stages of Models in a namespace.
type promotions struct {
	*testing.T
	namespace string
	ada, bob  client.Client
}

// newPromotions installs the chart and gives Ada the right to ask for changes, Bob the right to approve them, and the
// account of the page the right to make them.
func newPromotions(t *testing.T) *promotions {
	t.Helper()
	r := installChart(t, modelChart)
	r.start()
	p := &promotions{T: t, namespace: env.Namespace(t)}
	op, rules := fromThePage(t)
	account := &corev1.ServiceAccount{ObjectMeta: p.meta(op.Spec.ServiceAccountName)}
	p.create(account)
	env.Grant(t, p.namespace,
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: account.Name}, rules...)
	operations := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"operations"},
			Verbs: verbs}
	}
	p.ada = env.User(t, p.namespace, "ada@example.com", operations("create"), rbacv1.PolicyRule{APIGroups: []string{""},
		Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}})
	p.bob = env.User(t, p.namespace, "bob@example.com", operations("get", "patch", "approve"))
	// The API server asks the operator a moment after that is ready.
	itself := p.model("itself")
	itself.Spec.Requires = []aiv1.ModelReference{{Name: itself.Name}}
	testkit.Eventually(t, "the webhook is asked", func(ctx context.Context) error {
		err := env.Client.Create(ctx, itself.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "names the Model itself") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	t.Cleanup(r.nothingDenied)
	return p
}

func (p *promotions) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.namespace, Name: name}
}

func (p *promotions) create(objects ...client.Object) {
	p.Helper()
	for _, object := range objects {
		if err := env.Client.Create(p.Context(), object); err != nil {
			p.Fatalf("cannot create %T %q: %v", object, object.GetName(), err)
		}
	}
}

// model is a Model with the versions 1.0 and 2.0, of which the first is in production.
func (p *promotions) model(name string) *aiv1.Model {
	m := &aiv1.Model{ObjectMeta: p.meta(name), Spec: aiv1.ModelSpec{Format: aiv1.FormatGGUF,
		Stages: map[aiv1.ModelStage]aiv1.ModelVersionName{"Production": "1.0"}}}
	for _, digit := range []string{"1", "2"} {
		m.Spec.Versions = append(m.Spec.Versions, aiv1.ModelVersion{Name: aiv1.ModelVersionName(digit + ".0"),
			SHA256: strings.Repeat(digit, 64),
			Source: aiv1.ModelSource{HTTP: &aiv1.ModelHTTPSource{URL: "https://models.example.com/" + digit}}})
	}
	return m
}

// stages changes those of a Model.
func (p *promotions) stages(m *aiv1.Model, body string) error {
	p.Helper()
	return merge(p.T, env.Client, m, `{"spec":{"stages":`+body+`}}`)
}

// promote has Ada ask for the change that the page shows, and Bob approve it, and waits until it ends.
func (p *promotions) promote(phase platformv1.OperationPhase) *platformv1.Operation {
	p.Helper()
	op, _ := fromThePage(p.T)
	op.Namespace = p.namespace
	if err := p.ada.Create(p.Context(), op); err != nil {
		p.Fatal(err)
	}
	reaches := func(phase platformv1.OperationPhase) {
		p.Helper()
		testkit.WaitFor(p.T, env.Client, op, "is "+string(phase), func() error {
			if op.Status.Phase != phase {
				return fmt.Errorf("the status is %+v", op.Status)
			}
			return nil
		})
	}
	reaches(platformv1.OperationAwaitingApproval)
	if err := merge(p.T, p.bob, op.DeepCopy(),
		`{"spec":{"approval":{"by":"bob@example.com","decision":"Approved"}}}`); err != nil {
		p.Fatal(err)
	}
	reaches(phase)
	return op
}

// production checks which version of a Model is in that stage.
func (p *promotions) production(m *aiv1.Model, want aiv1.ModelVersionName) {
	p.Helper()
	if err := env.Client.Get(p.Context(), client.ObjectKeyFromObject(m), m); err != nil ||
		m.Spec.Stages["Production"] != want {
		p.Errorf("in production is %q, want %q: %v", m.Spec.Stages["Production"], want, err)
	}
}

// A stage is changed by an Operation once somebody else has approved it, by an account that alone may do so. While the
// Model lacks another that it requires the Operation fails, and says so.
func TestStageChangesByAnOperation(t *testing.T) {
	p := newPromotions(t)
	m := p.model("sample")
	m.Spec.Requires = []aiv1.ModelReference{{Name: "base"}}
	p.create(m)
	failed := p.promote(platformv1.OperationFailed)
	p.production(m, "1.0")
	const want = `version "2.0" cannot go to stage Production: spec.requires[0] names Model "base", which does not ` +
		`exist: create it, or name another`
	ready := conditions.Get(failed, platformv1.ReadyCondition)
	if said := fmt.Sprintf("%+v %+v", failed.Status.Steps, ready); !strings.Contains(said, want) {
		t.Errorf("the Operation says %s, want %q", said, want)
	}

	p.create(p.model("base"))
	done := p.promote(platformv1.OperationSucceeded)
	p.production(m, "2.0")
	if before := done.Status.Steps[0].Outputs["version"]; before != "1.0" || done.Status.CompletionTime == nil {
		t.Errorf("the record says that %q was there before, and ended at %v", before, done.Status.CompletionTime)
	}
}

// Models that require each other are created in any order, and wait. A version of one that is there goes to a stage
// only once all of them exist; to archive it, and to take it out of a stage, needs nothing.
func TestPromotionIsRefusedWhileARequiredModelIsMissing(t *testing.T) {
	p := newPromotions(t)
	adapter, base := p.model("adapter"), p.model("base")
	adapter.Spec.Requires = []aiv1.ModelReference{{Name: "base"}}
	p.create(adapter)
	testkit.WaitForCondition(t, env.Client, adapter, platformv1.StalledCondition, metav1.ConditionTrue)
	const missing = `version "2.0" cannot go to stage Production: spec.requires[0] names Model "base", which does not ` +
		`exist`
	refused(t, p.stages(adapter, `{"Production":"2.0"}`), missing, "create it, or name another")
	refused(t, p.stages(adapter, `{"Staging":"2.0"}`), `version "2.0" cannot go to stage Staging`)
	p.production(adapter, "1.0")
	for _, body := range []string{`{"Archived":"2.0"}`, `{"Archived":null}`, `{"Production":null}`} {
		if err := p.stages(adapter, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	if err := merge(t, env.Client, adapter, `{"spec":{"licence":"Apache-2.0"}}`); err != nil {
		t.Errorf("it is no change of a stage: %v", err)
	}

	// The cache of the operator may not have it yet.
	p.create(base)
	if err := p.stages(adapter, `{"Production":"2.0"}`); err != nil {
		t.Error(err)
	}
	testkit.WaitForReady(t, env.Client, adapter)
	testkit.WaitFor(t, env.Client, base, "is in use", func() error {
		if base.Status.InUse != 1 {
			return fmt.Errorf("inUse is %d", base.Status.InUse)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, adapter, platformv1.StalledCondition, metav1.ConditionTrue)
	refused(t, p.stages(adapter, `{"Production":"1.0"}`), `which is being deleted`)
	if err := env.Client.Delete(t.Context(), adapter); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, base)
}
