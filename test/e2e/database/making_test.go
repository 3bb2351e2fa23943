// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// rotationIn is how long a new password takes until every process has it.
const rotationIn = 8 * time.Minute

// lentBy is an Operation of who runs the tests, who lends it an account.
func lentBy(s *framework.Namespace, account string, op *platformv1.Operation) *platformv1.Operation {
	s.Helper()
	op.Spec.Author, op.Spec.ServiceAccountName = s.CurrentUser(), account
	return op
}

// TestMakeRotateDelete proves that Operations make a Redis, exchange its password in place, and delete it with all that
// was made from it.
func TestMakeRotateDelete(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "making")
	for account, verbs := range map[string][]string{"able": {"create", "delete"}, "unable": {"get"}} {
		s.Create(&corev1.ServiceAccount{ObjectMeta: framework.ObjectMeta(account)})
		s.Create(&rbacv1.Role{ObjectMeta: framework.ObjectMeta(account),
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{databasev1.GroupVersion.Group}, Resources: []string{"redis"},
				Verbs: verbs}}})
		s.Create(&rbacv1.RoleBinding{ObjectMeta: framework.ObjectMeta(account),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: s.Name}}})
	}
	i := &framework.Instance{Namespace: s, Name: "db"}
	for _, account := range []string{"unable", "able"} {
		op := lentBy(s, account, framework.NewOperation("make-"+account, "Create", i.Reference()))
		op.Spec.TargetSpec = "version: \"7.0\"\nstorage: {size: 64Mi}\n"
		if account == "unable" {
			s.ExpectOperationRefused(op, "cannot create resource \"redis\"")
			continue
		}
		s.Create(op)
		s.ExpectOperationSucceeded(op.Name)
	}
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")

	before, password := i.Footprint(), i.Account().Password
	s.Create(framework.NewOperation("rotate", "RotateCredentials", i.Reference()))
	// The kubelet takes its time to bring the Secret into the pod.
	if ended := s.WaitForOperationEnd("rotate", rotationIn); ended.Status.Phase != platformv1.OperationSucceeded {
		t.Fatalf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
	if err := before.RestartedInPlace(i.Footprint()); err != nil {
		t.Error(err)
	}
	if i.Account().Password == password {
		t.Error("clients are told the former password")
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	i.WaitReady()

	s.Create(lentBy(s, "able", framework.NewOperation("remove", "Delete", i.Reference())))
	s.ExpectOperationSucceeded("remove")
	for name, err := range map[string]error{"Redis": framework.ErrUnlessNotFound(s.Get(i.Name, &databasev1.Redis{})),
		"Application": framework.ErrUnlessNotFound(s.Get(i.Application(), &platformv1.Application{})),
		"pod":         framework.ErrUnlessNotFound(s.Get(i.PodName(), &corev1.Pod{}))} {
		if err != nil {
			t.Errorf("the %s: %v", name, err)
		}
	}
}
