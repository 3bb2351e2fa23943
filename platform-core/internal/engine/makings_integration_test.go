// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const standalone = "plugin: redis\npluginVersion: 1.0.0\nversion: \"7.0\"\ntopology: standalone\n"

// lends makes an account that has these rights on Applications.
func lends(t *testing.T, namespace, account string, verbs ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	create(t, &corev1.ServiceAccount{ObjectMeta: meta})
	create(t, &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"applications"},
			Verbs: verbs}}})
	create(t, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}})
}

// asked for by an author who lends an account, with the spec of a target that is to be made.
func lent(account, spec string) func(*platformv1.OperationSpec) {
	return func(s *platformv1.OperationSpec) {
		s.ServiceAccountName, s.Author, s.TargetSpec = account, author, spec
	}
}

// An Operation makes its target with the rights of the account that its author lends, once, and is done when that is
// Ready.
func TestCreateOfAnOperation(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	lends(t, namespace, "able", "create", "delete")
	lends(t, namespace, "unable", "get")
	app := application(namespace)
	for name, tc := range map[string]struct {
		change func(*platformv1.OperationSpec)
		says   string
	}{
		"no-account": {func(s *platformv1.OperationSpec) { s.TargetSpec = standalone },
			"may create a Application in serviceAccountName"},
		"no-right":  {lent("unable", standalone), "system:serviceaccount:" + namespace + ":unable"},
		"no-spec":   {lent("able", ""), `template "Create" needs targetSpec`},
		"typo":      {lent("able", standalone+"replica: 3\n"), `unknown field "spec.replica"`},
		"immutable": {lent("able", strings.Replace(standalone, "standalone", "", 1)), "topology"},
	} {
		status := ends(t, operate(t, app, name, "Create", tc.change), platformv1.OperationFailed)
		if !strings.Contains(status.Error, tc.says) {
			t.Errorf("%s: it says %q; want %q", name, status.Error, tc.says)
		}
	}
	dry := ends(t, operate(t, app, "dry", "Create", func(s *platformv1.OperationSpec) {
		lent("able", standalone)(s)
		s.DryRun = true
	}), platformv1.OperationSucceeded)
	if len(dry.Plan) < 2 || dry.Plan[0] != `create: makes Application "redis-a"` ||
		!slices.ContainsFunc(dry.Plan, func(line string) bool { return strings.Contains(line, "redis-a-redis-main-0") }) {
		t.Errorf("the plan is %q", dry.Plan)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app),
		&platformv1.Application{}); !apierrors.IsNotFound(err) {
		t.Errorf("the dry run made it: %v", err)
	}
	op := operate(t, app, "make", "Create", lent("able", standalone))
	status := ends(t, op, platformv1.OperationSucceeded)
	refresh(t, app)
	if app.Annotations[platformv1.MadeByAnnotation] != string(op.UID) ||
		status.Steps[0].Outputs["uid"] != string(app.UID) || app.Status.Ready != "1/1" {
		t.Errorf("it is %+v of %v", app.ObjectMeta, status.Steps[0].Outputs)
	}
	again := ends(t, operate(t, app, "again", "Create", lent("able", standalone)), platformv1.OperationFailed)
	if want := `there is a Application "redis-a" already`; !strings.Contains(again.Error, want) {
		t.Errorf("it says %q, want %q", again.Error, want)
	}
}

// Whatever crashes, the target is made once.
func TestCreateSurvivesTheEngine(t *testing.T) {
	namespace := env.Namespace(t)
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	node(t, namespace)
	lends(t, namespace, "able", "create")
	app := application(namespace)
	op := operate(t, app, "make", "Create", lent("able", standalone))
	uids := map[types.UID]bool{}
	crashing{times: 80, writes: 6, after: func() {
		if env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app) == nil {
			uids[app.UID] = true
		}
	}}.until(t, op)
	if op.Status.Phase != platformv1.OperationSucceeded || op.Status.Steps[0].Attempts != 1 || len(uids) != 1 {
		t.Errorf("it is %+v, and there were %v", op.Status, uids)
	}
}

// A target that is deleted goes with all that was made from it before the Operation ends, and protection counts.
func TestDeleteOfAnOperation(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	lends(t, namespace, "able", "create", "delete")
	app := application(namespace)
	app.Spec.DeletionProtection = true
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	admits(t, namespace, env.Client)
	for _, name := range []string{"protected", "protected-dry"} {
		refused := ends(t, operate(t, app, name, "Delete", func(s *platformv1.OperationSpec) {
			lent("able", "")(s)
			s.DryRun = strings.HasSuffix(name, "dry")
		}), platformv1.OperationFailed)
		want := "Application redis-a has deletionProtection: set spec.deletionProtection to false first"
		if !strings.Contains(refused.Error, want) {
			t.Errorf("%s: it says %q, want %q", name, refused.Error, want)
		}
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.DeletionProtection = false })
	dry := ends(t, operate(t, app, "dry", "Delete", func(s *platformv1.OperationSpec) {
		lent("able", "")(s)
		s.DryRun = true
	}), platformv1.OperationSucceeded)
	want := `delete: deletes Application "redis-a" and all that is made from it; volumes are kept`
	if len(dry.Plan) != 2 || dry.Plan[0] != want || !strings.Contains(dry.Plan[1], "there is no way back") {
		t.Errorf("the plan is %q, want %q", dry.Plan, want)
	}
	op := operate(t, app, "remove", "Delete", lent("able", ""))
	testkit.WaitFor(t, env.Client, app, "is being deleted", func() error {
		if app.DeletionTimestamp == nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	ends(t, op, platformv1.OperationRunning)
	// What a cluster collects goes from the outside in, and some of it later than its owner.
	removed(t, app)
	says(t, op, `WorkloadSet "redis-a-redis-main"`)
	removed(t, &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis"}})
	removed(t, &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis-main"}})
	removed(t, onlyPod(t, namespace))
	ends(t, op, platformv1.OperationSucceeded)
	gone := ends(t, operate(t, app, "again", "Delete", lent("able", "")), platformv1.OperationFailed)
	if want := `there is no Application "redis-a"`; !strings.Contains(gone.Error, want) {
		t.Errorf("it says %q, want %q", gone.Error, want)
	}
}

// removed takes an object away as the garbage collector does.
func removed(t *testing.T, obj client.Object) {
	t.Helper()
	if err := env.Client.Delete(t.Context(), obj, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	err := env.Client.Patch(t.Context(), obj,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// says waits until the step of an Operation waits for something.
func says(t *testing.T, op *platformv1.Operation, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, op, "waits for "+text, func() error {
		if len(op.Status.Steps) == 0 || !strings.Contains(op.Status.Steps[0].Message, text) {
			return fmt.Errorf("it says %+v", op.Status.Steps)
		}
		return nil
	})
}
