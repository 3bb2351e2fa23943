// SPDX-License-Identifier: Apache-2.0

// Package kindtest proves, on a real API server, what every typed kind promises alike. An operator calls it for each
// kind that it serves.
package kindtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// collector is who removes what has lost its owner.
const collector = "system:serviceaccount:kube-system:generic-garbage-collector"

// earlier is the UID of an Application whose volumes are asked for.
const earlier = "6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11"

// Kept is a kind of which DataProtection is proved, and the spec of an object, as JSON: with something inside the
// middleware where the kind declares such.
type Kept struct {
	Kind typed.Registration
	Spec string
	// Named are objects that the spec names; they are made in the namespace of the object.
	Named []client.Object
}

// DataProtection proves that deletionProtection and adoptVolumes of an object reach its Application, that what it
// declares inside the middleware is taken over with the volumes that have it, that adoptVolumes is refused where there
// are no volumes, that neither of the two is deleted while the object is protected, and that the Application goes with
// an object that no longer is, though no operator be there to tell it. The definitions of the engine and of the kind
// have to be in the environment, and the account of the operator, with which the kind is served: what it was denied
// fails the test.
func DataProtection(t *testing.T, env *testkit.Env, kept Kept) {
	namespace := env.Namespace(t)
	stop := Serve(t, env, kept.Kind)
	obj, app := declare(t, env, kept, namespace, "kept")
	name := fmt.Sprintf("%s %s", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName())
	keep(t, env, kept.Kind, obj, app)
	ofObject := name + " has deletionProtection: set spec.deletionProtection to false first"
	ofApp := fmt.Sprintf("Application %s has deletionProtection, since %s has it: set spec.deletionProtection of that "+
		"to false first", app.Name, name)
	// The API server takes a moment to put a new policy in force.
	testkit.Eventually(t, "the refusal",
		func(ctx context.Context) error { return refused(ctx, env.Client, obj, ofObject) })
	testkit.Eventually(t, "the refusal for the Application",
		func(ctx context.Context) error { return refused(ctx, env.Client, app, ofApp) })

	// What somebody protects by hand stays protected.
	theirs, byHand := declare(t, env, kept, namespace, "by-hand")
	set(t, env.Client, byHand, `{"spec":{"deletionProtection":true}}`)
	stop()
	for _, o := range []client.Object{obj, theirs} {
		set(t, env.Client, o, `{"spec":{"deletionProtection":false}}`)
		if err := env.Client.Delete(t.Context(), o); err != nil {
			t.Errorf("deleting what is no longer protected gives %v", err)
		}
		testkit.WaitGone(t, env.Client, o)
	}
	if err := refused(t.Context(), env.Client, app, ofApp); err != nil {
		t.Error(err)
	}
	garbage := as(t, env, collector)
	if err := refused(t.Context(), garbage, byHand, byHand.Name+
		" has deletionProtection: set spec.deletionProtection to false first"); err != nil {
		t.Error(err)
	}
	if err := garbage.Delete(t.Context(), app); err != nil {
		t.Errorf("removing the Application with its object gives %v", err)
	}
	testkit.WaitGone(t, env.Client, app)
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// keep has an object be protected and take over volumes, and waits until its Application and what is inside say so.
// Where there are no volumes, to take over some is refused.
func keep(t *testing.T, env *testkit.Env, kind typed.Registration, obj client.Object, app *platformv1.Application) {
	t.Helper()
	out, err := kind.Compile(obj, "tested")
	if err != nil {
		t.Fatal(err)
	}
	want, fields := platformv1.DataProtection{DeletionProtection: true, AdoptVolumes: earlier},
		fmt.Sprintf(`"adoptVolumes":%q`, earlier)
	if out.Application.Spec.Components[0].Storage == nil {
		adopts := client.RawPatch(types.MergePatchType, []byte(`{"spec":{`+fields+`}}`))
		if err := env.Client.Patch(t.Context(), obj, adopts, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("there are no volumes, and to take over some gives %v", err)
		}
		want.AdoptVolumes, fields = "", `"adoptVolumes":null`
	}
	set(t, env.Client, obj, `{"spec":{"deletionProtection":true,`+fields+`}}`)
	testkit.WaitFor(t, env.Client, app, "has what is asked", func() error {
		if app.Spec.DataProtection != want {
			return fmt.Errorf("it has %+v", app.Spec.DataProtection)
		}
		return nil
	})
	if len(out.Entities) == 0 {
		return
	}
	testkit.Eventually(t, "what is inside is taken over", func(ctx context.Context) error {
		inside := &platformv1.EntityList{}
		if err := env.Client.List(ctx, inside, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		if len(inside.Items) == 0 || slices.ContainsFunc(inside.Items,
			func(e platformv1.Entity) bool { return !e.Spec.Adopt }) {
			return fmt.Errorf("there are %d Entities, and one of them is not to adopt", len(inside.Items))
		}
		return nil
	})
}

// declare makes an object and waits for its Application.
func declare(t *testing.T, env *testkit.Env, kept Kept, namespace, name string) (client.Object,
	*platformv1.Application) {
	t.Helper()
	obj := kept.Kind.Object()
	if err := json.Unmarshal([]byte(`{"spec":`+kept.Spec+`}`), obj); err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace(namespace)
	obj.SetName(name)
	gvk, err := apiutil.GVKForObject(obj, env.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range kept.Named {
		named = named.DeepCopyObject().(client.Object)
		named.SetNamespace(namespace)
		if err := env.Client.Create(t.Context(), named); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	app := &platformv1.Application{}
	app.Namespace, app.Name = namespace, platformv1.ApplicationNameFor(gvk.Kind, name)
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	return obj, app
}

// set writes fields of an object.
func set(t *testing.T, c client.Client, obj client.Object, fields string) {
	t.Helper()
	gvk := obj.GetObjectKind().GroupVersionKind()
	if err := c.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(fields)),
		client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
}

// refused tries to delete, as a dry run, and returns an error unless that is refused in these words.
func refused(ctx context.Context, c client.Client, obj client.Object, says string) error {
	if err := c.Delete(ctx, obj, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) {
		return fmt.Errorf("deleting gives %v, want %q", err, says)
	}
	return nil
}

// as returns a client of somebody who may do everything that admission lets pass.
func as(t *testing.T, env *testkit.Env, user string) client.Client {
	t.Helper()
	cfg := rest.CopyConfig(env.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(cfg, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Serve runs the frame for kinds, with the rights of the operator, until the test, or stop, ends it.
func Serve(t *testing.T, env *testkit.Env, kinds ...typed.Registration) (stop func()) {
	t.Helper()
	if env.System == nil {
		t.Fatal("the environment has no operator: set System and Roles of testkit.EnvOptions")
	}
	mgr, err := ctrl.NewManager(env.System.Config,
		ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := typed.Setup(mgr, typed.Settings{Domain: "tested"}, kinds...); err != nil {
		t.Fatal(err)
	}
	return testkit.Run(t, mgr)
}
