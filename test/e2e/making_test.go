// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// rotationIn is how long a new password takes until every process has it.
const rotationIn = 8 * time.Minute

// lentBy is an Operation of who runs the tests, who lends it an account.
func (s *space) lentBy(account string, op *platformv1.Operation) *platformv1.Operation {
	s.Helper()
	op.Spec.Author, op.Spec.ServiceAccountName = s.me(), account
	return op
}

// TestMakeRotateDelete proves that Operations make a Redis, exchange its password in place, and delete it with all that was made from it.
func TestMakeRotateDelete(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "making")
	for account, verbs := range map[string][]string{"able": {"create", "delete"}, "unable": {"get"}} {
		s.create(&corev1.ServiceAccount{ObjectMeta: named(account)})
		s.create(&rbacv1.Role{ObjectMeta: named(account), Rules: []rbacv1.PolicyRule{{APIGroups: []string{databasev1.GroupVersion.Group}, Resources: []string{"redis"}, Verbs: verbs}}})
		s.create(&rbacv1.RoleBinding{ObjectMeta: named(account), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: s.name}}})
	}
	i := &instance{space: s, name: "db"}
	for _, account := range []string{"unable", "able"} {
		op := s.lentBy(account, operation("make-"+account, "Create", i.reference()))
		op.Spec.TargetSpec = "version: \"7.0\"\nstorage: {size: 64Mi}\n"
		if account == "unable" {
			s.refusedOperation(op, "cannot create resource \"redis\"")
			continue
		}
		s.create(op)
		s.succeeded(op.Name)
	}
	i.ready()
	i.must("SET", "kept", "yes")

	before, password := i.footprint(), i.account().password
	s.create(operation("rotate", "RotateCredentials", i.reference()))
	// The kubelet takes its time to bring the Secret into the pod.
	if ended := s.finished("rotate", rotationIn); ended.Status.Phase != platformv1.OperationSucceeded {
		t.Fatalf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
	if err := before.restartedInPlace(i.footprint()); err != nil {
		t.Error(err)
	}
	if i.account().password == password {
		t.Error("clients are told the former password")
	}
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	i.ready()

	s.create(s.lentBy("able", operation("remove", "Delete", i.reference())))
	s.succeeded("remove")
	for name, err := range map[string]error{"Redis": gone(s.get(i.name, &databasev1.Redis{})), "Application": gone(s.get(i.application(), &platformv1.Application{})),
		"pod": gone(s.get(i.podName(), &corev1.Pod{}))} {
		if err != nil {
			t.Errorf("the %s: %v", name, err)
		}
	}
}
