// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// as returns a client of a user who has these rights on Operations in a namespace.
func as(t *testing.T, namespace, user string, verbs ...string) client.Client {
	t.Helper()
	create(t, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{platformv1.GroupVersion.Group},
			Resources: []string{"operations"}, Verbs: verbs}},
	})
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}
	cfg := rest.CopyConfig(env.Config)
	cfg.Impersonate.UserName = user
	if name, is := strings.CutPrefix(user, "account-"); is {
		create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}})
		account, err := env.Account(t.Context(), namespace, user, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		subject, cfg = rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: user}, account.Config
	}
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}, Subjects: []rbacv1.Subject{subject},
	})
	c, err := client.New(cfg, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asked(namespace, author string) *platformv1.Operation {
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "asked-"},
		Spec: platformv1.OperationSpec{
			TemplateRef: "Restart", Author: author,
			TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
				Name: "nothing"},
		},
	}
}

// forbidden says whether an error is a refusal of the policy in these words.
func forbidden(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want %q", what, err, text)
	}
}

// admits waits until the API server has the policies of the operator in force.
func admits(t *testing.T, namespace string, c client.Client) {
	t.Helper()
	testkit.Eventually(t, "the policies to be in force", func(ctx context.Context) error {
		op := asked(namespace, "somebody-else")
		if err := c.Create(ctx, op, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("an Operation of another author: %v", err)
		}
		return nil
	})
}

func TestTheAuthorOfAnOperationIsWhoAsks(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	ada, robot := as(t, namespace, "ada", "create", "update", "patch"), as(t, namespace, "account-robot", "create")
	admits(t, namespace, ada)
	for what, tc := range map[string]struct {
		by     client.Client
		author string
		text   string
	}{
		"herself":         {ada, "ada", ""},
		"nobody":          {ada, "", ""},
		"another":         {ada, "bob", "spec.author must be the user who creates the Operation: write 'ada'"},
		"its account":     {robot, "system:serviceaccount:" + namespace + ":account-robot", ""},
		"its short name":  {robot, "account-robot", "write 'system:serviceaccount:" + namespace + ":account-robot'"},
		"as an engine is": {ada, account.User, "spec.author must be the user who creates the Operation"},
	} {
		err := tc.by.Create(t.Context(), asked(namespace, tc.author))
		if tc.text != "" {
			forbidden(t, what, err, tc.text)
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// An engine makes nested Operations for the author of the one that they are part of.
	engine, err := client.New(account.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	nested := asked(namespace, "ada")
	nested.Labels = map[string]string{platformv1.TriggerLabel: string(platformv1.TriggerSchedule)}
	if err := engine.Create(t.Context(), nested); err != nil {
		t.Errorf("an engine cannot name the author: %v", err)
	}
	relabel := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, platformv1.TriggerLabel))
	forbidden(t, "taking the trigger away", ada.Patch(t.Context(), nested, relabel),
		"only an operator says what caused an Operation")
	for _, label := range []string{platformv1.TriggerLabel, platformv1.ScheduleLabel} {
		op := asked(namespace, "ada")
		op.Labels = map[string]string{label: "Schedule"}
		forbidden(t, label, ada.Create(t.Context(), op), "only an operator says what caused an Operation")
	}
}

// Only an engine makes an Operation a step of another: that is spared the queue and counts as what the other one's
// author asked for.
func TestNobodyMakesHisOperationAStepOfAnother(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	ada := as(t, namespace, "ada", "get", "create", "update", "patch")
	admits(t, namespace, ada)
	engine, err := client.New(account.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	const text = "only an operator makes an Operation part of something else"
	of := func(name, uid string) *platformv1.Operation {
		op := asked(namespace, "")
		op.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: platformv1.GroupVersion.String(), Kind: "Operation", Name: name, UID: types.UID(uid),
				Controller: new(true)}}
		return op
	}
	forbidden(t, "a forged step", ada.Create(t.Context(), of("parent", "1")), text)
	nested := of("parent", "1")
	if err := engine.Create(t.Context(), nested); err != nil {
		t.Fatalf("an engine cannot make a step's Operation: %v", err)
	}
	owners := func(uid string) client.Patch {
		return client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil,
				`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":"Operation","name":"parent","uid":%q,`+
					`"controller":true}]}}`,
				platformv1.GroupVersion.String(), uid))
	}
	forbidden(t, "another parent", ada.Patch(t.Context(), nested.DeepCopy(), owners("2")), text)
	if err := ada.Patch(t.Context(), nested.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Errorf("a step's Operation cannot be cancelled: %v", err)
	}
	alone := asked(namespace, "")
	alone.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "release", UID: "3"}}
	if err := ada.Create(t.Context(), alone); err != nil {
		t.Errorf("an owner that is no controller is refused: %v", err)
	}
	forbidden(t, "a parent afterwards", ada.Patch(t.Context(), alone, owners("1")), text)
}

// mighty returns a client of an account that a ClusterRole, or a Role in its own namespace, gives these rights.
func mighty(t *testing.T, namespace, name string, reach string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if reach == "cluster" {
		meta = metav1.ObjectMeta{Name: namespace + "-" + name}
		create(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subjects})
	} else {
		create(t, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
		create(t, &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects})
	}
	account, err := env.Account(t.Context(), namespace, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(account.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the rights of "+name,
		func(ctx context.Context) error { return c.Create(ctx, asked(namespace, ""), client.DryRunAll) })
	return c
}

// An account is not an engine's for all that it may do: not one that may do everything, nor one that has an engine's
// rights in a namespace.
func TestNoMightyAccountIsAnEngine(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	admits(t, namespace, as(t, namespace, "ada", "create"))
	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	group := []string{platformv1.GroupVersion.Group}
	for name, c := range map[string]client.Client{
		"administrator": mighty(t, namespace, "administrator", "cluster", all),
		"of-the-group": mighty(t, namespace, "of-the-group", "cluster",
			rbacv1.PolicyRule{APIGroups: group, Resources: []string{"*"}, Verbs: []string{"*"}}),
		"of-a-space": mighty(t, namespace, "of-a-space", "namespace", all),
		"as-it-was": mighty(t, namespace, "as-it-was", "cluster",
			rbacv1.PolicyRule{APIGroups: group, Resources: []string{"operations", "operations/status", "plugins"},
				Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}}),
		"by-itself": mighty(t, namespace, "by-itself", "namespace",
			rbacv1.PolicyRule{APIGroups: group, Resources: []string{"operations", "plugins"},
				Verbs: []string{"create", "engine"}}),
	} {
		forbidden(t, name+" names another author", c.Create(t.Context(), asked(namespace, "ada"), client.DryRunAll),
			"spec.author must be the user who creates the Operation")
		op := asked(namespace, "")
		op.Labels = map[string]string{platformv1.TriggerLabel: string(platformv1.TriggerSpec)}
		forbidden(t, name+" says what caused it", c.Create(t.Context(), op, client.DryRunAll),
			"only an operator says what caused an Operation")
	}
}

// Whoever has steps act as an account must be able to do so himself: nobody is lent rights.
func TestAnOperationActsAsWhomItsAuthorMayActAs(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	ada, eve := as(t, namespace, "ada", "create"), as(t, namespace, "eve", "create")
	admits(t, namespace, ada)
	create(t, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts"},
			ResourceNames: []string{"deployer"}, Verbs: []string{"impersonate"}}},
	})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "deployer"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ada"}},
	})
	acting := func(author, account string) *platformv1.Operation {
		op := asked(namespace, author)
		op.Spec.ServiceAccountName = account
		return op
	}
	testkit.Eventually(t, "a right that was just given",
		func(ctx context.Context) error { return ada.Create(ctx, acting("ada", "deployer")) })
	forbidden(t, "another account", ada.Create(t.Context(), acting("ada", "admin")),
		"user 'ada' may not have an Operation act as ServiceAccount 'admin'")
	forbidden(t, "another user", eve.Create(t.Context(), acting("eve", "deployer")),
		"user 'eve' may not have an Operation act as ServiceAccount 'deployer': that takes the verb impersonate on it in "+
			"namespace '"+namespace+"'")
	forbidden(t, "nobody", ada.Create(t.Context(), acting("", "deployer")), "an Operation with spec.serviceAccountName "+
		"needs spec.author, so that the record says who lent it that account: write 'ada'")
}

func TestApprovals(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	verbs := []string{"get", "create", "update", "patch"}
	ada, bob, eve := as(t, namespace, "ada", append(verbs, "approve")...),
		as(t, namespace, "bob", append(verbs, "approve")...), as(t, namespace, "eve", verbs...)
	admits(t, namespace, ada)
	begun := asked(namespace, "ada")
	begun.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
	forbidden(t, "approved from the start", ada.Create(t.Context(), begun), "cannot be created as approved")

	decide := func(c client.Client, op *platformv1.Operation, by string, decision platformv1.OperationDecision) error {
		body := fmt.Appendf(nil, `{"spec":{"approval":{"by":%q,"decision":%q}}}`, by, decision)
		return c.Patch(t.Context(), op.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	}
	op := asked(namespace, "ada")
	if err := ada.Create(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	forbidden(t, "by its author", decide(ada, op, "ada", platformv1.OperationApproved),
		"the author of an Operation cannot approve it")
	forbidden(t, "in the name of another", decide(ada, op, "bob", platformv1.OperationApproved),
		"spec.approval.by must be the user who approves: write 'ada'")
	forbidden(t, "in the name of one who may", decide(eve, op, "bob", platformv1.OperationApproved),
		"spec.approval.by must be the user who approves: write 'eve'")
	forbidden(t, "without the right", decide(eve, op, "eve", platformv1.OperationApproved),
		"user 'eve' may not approve Operations in namespace '"+namespace+"': that takes the verb approve")
	if err := decide(bob, op, "bob", platformv1.OperationApproved); err != nil {
		t.Fatalf("somebody who may cannot approve: %v", err)
	}
	for what, err := range map[string]error{
		"another decision": decide(bob, op, "bob", platformv1.OperationRejected),
		"taken back": bob.Patch(t.Context(), op.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approval":null}}`))),
		"by the author afterwards": decide(ada, op, "ada", platformv1.OperationApproved),
	} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "approval is given once and cannot be changed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// What is approved can still be changed in what has nothing to do with that.
	if err := eve.Patch(t.Context(), op.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Errorf("it cannot be cancelled: %v", err)
	}
	nameless := asked(namespace, "")
	if err := ada.Create(t.Context(), nameless); err != nil {
		t.Fatal(err)
	}
	forbidden(t, "of nobody", decide(bob, nameless, "bob", platformv1.OperationApproved),
		"an Operation without spec.author cannot be approved")
	if err := decide(bob, op, "bob", platformv1.OperationApproved); err != nil {
		t.Errorf("the same approval again is no change: %v", err)
	}
	rejected := asked(namespace, "ada")
	if err := ada.Create(t.Context(), rejected); err != nil {
		t.Fatal(err)
	}
	if err := decide(bob, rejected, "bob", platformv1.OperationRejected); err != nil {
		t.Errorf("somebody who may cannot reject: %v", err)
	}
}

// Of several users who approve, each writes for himself, and the author does not.
func TestApprovalsOfSeveralUsers(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	verbs := []string{"get", "create", "update", "patch"}
	ada, bob, eve := as(t, namespace, "ada", append(verbs, "approve")...),
		as(t, namespace, "bob", append(verbs, "approve")...), as(t, namespace, "eve", verbs...)
	dan := as(t, namespace, "dan", append(verbs, "approve")...)
	admits(t, namespace, ada)
	begun := asked(namespace, "ada")
	begun.Spec.Approvals = map[string]platformv1.OperationDecision{"bob": platformv1.OperationApproved}
	forbidden(t, "approved from the start", ada.Create(t.Context(), begun), "cannot be created as approved")
	op := asked(namespace, "ada")
	if err := ada.Create(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	decide := func(c client.Client, by, decision string) error {
		body := fmt.Appendf(nil, `{"spec":{"approvals":{%q:%s}}}`, by, decision)
		return c.Patch(t.Context(), op.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	}
	const approved = `"Approved"`
	forbidden(t, "by its author", decide(ada, "ada", approved), "the author of an Operation cannot approve it")
	forbidden(t, "in the name of another", decide(bob, "dan", approved),
		"in spec.approvals each user writes under his own name: write 'bob'")
	forbidden(t, "without the right", decide(eve, "eve", approved), "user 'eve' may not approve Operations in namespace '"+
		namespace+"'")
	for who, c := range map[string]client.Client{"bob": bob, "dan": dan} {
		if err := decide(c, who, approved); err != nil {
			t.Fatalf("%s, who may, cannot approve: %v", who, err)
		}
	}
	for what, err := range map[string]error{"another decision": decide(bob, "bob", `"Rejected"`),
		"taken back": decide(bob, "bob", "null"), "of another": decide(ada, "dan", "null")} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
			"a decision in approvals is given once and cannot be changed") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
