// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// postgresql is an object of the typed kind whose spec has what the YAML says.
func postgresql(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "database.zeroinfra.github.com/v1", "kind": "PostgreSQL",
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": content,
	}}
}

// TestPostgreSQL proves that with the rights of the chart a PostgreSQL becomes all that it is made of, short of pods
// that run, that Operations are written back to it, and that what is wrong inside of it is said in the answer.
func TestPostgreSQL(t *testing.T) {
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none"}
	if err := env.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), class) }) // The API server goes too.
	u := newUser(t)
	spec := `version: "17"
replicas: 1
roles: [{name: app, passwordFrom: {name: users, key: app}, grants: [{database: shop, privileges: [CONNECT]}]}]
databases: [{name: shop, owner: app, extensions: [{name: pgcrypto}]}]
storage: {storageClassName: ` + class.Name + "}"

	u.refusedPostgreSQL(t, namespace, spec)
	users := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "users"},
		StringData: map[string]string{"app": "secret"}}
	if err := env.Client.Create(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	db := postgresql(t, namespace, "db", spec)
	if err := u.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "postgresql-db-postgresql-main"}}
	testkit.WaitFor(t, env.Client, set, "is made", func() error {
		if set.Spec.Failover == nil || set.Spec.Replicas != 2 {
			return fmt.Errorf("it is %+v", set.Spec)
		}
		return nil
	})
	r.declares(namespace, "database/shop", "extension/shop/pgcrypto", "grant/app/shop", "role/app")
	refused(t, merge(t, u, db, `{"spec":{"databases":[{"name":"shop","extensions":[{"name":"plpython3u"}]}]}}`),
		"plpython3u")

	r.says(db, "postgresql-db", "status", "application")
	r.says(db, "postgresql-db."+namespace+".svc:5432", "status", "endpoint")
	r.says(db, "postgresql-db-binding", "status", "bindingName")

	// What is declared no more goes; nothing was made yet, so that nothing is waited for.
	if err := merge(t, u, db, `{"spec":{"databases":null}}`); err != nil {
		t.Error(err)
	}
	r.declares(namespace, "grant/app/shop", "role/app")

	// An Operation counts pods, and the object its replicas. It comes before edits that nobody carries out here: it would
	// wait for these.
	scale := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "more"},
		Spec: platformv1.OperationSpec{
			TemplateRef: "HorizontalScale", Parameters: platformv1.Parameters{"replicas": "3"},
			TargetRef: platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "PostgreSQL",
				Name: "db"},
		}}
	if err := u.Create(t.Context(), scale); err != nil {
		t.Fatal(err)
	}
	r.says(db, int64(2), "spec", "replicas")

	r.pools(u, db)
	refused(t, merge(t, u, db, `{"spec":{"tls":{"enabled":true}}}`), "set running to false first")

	if err := merge(t, u, db, `{"spec":{"suspend":true}}`); err != nil {
		t.Error(err)
	}
	r.says(db, "Suspended", "status", "phase")
	r.nothingDenied()
}

// pools proves that a pooler comes and goes by itself.
func (r *release) pools(u *user, db *unstructured.Unstructured) {
	t, namespace := r.T, db.GetNamespace()
	poolers := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "postgresql-db-pooler"}}
	refused(t, merge(t, u, db, `{"spec":{"pooler":{"parameters":{"default_pool_sise":"5"}}}}`),
		`did you mean "default_pool_size"`)
	if err := merge(t, u, db, `{"spec":{"pooler":{}}}`); err != nil {
		t.Error(err)
	}
	testkit.WaitFor(t, env.Client, poolers, "is made", nil)
	r.says(db, "postgresql-db-pooler."+namespace+".svc:6432", "status", "poolerEndpoint")
	if err := merge(t, u, db, `{"spec":{"pooler":null}}`); err != nil {
		t.Error(err)
	}
	testkit.WaitGone(t, env.Client, poolers)
}

// refusedPostgreSQL proves that what is wrong with a spec, or inside of it, is said in the answer.
func (u *user) refusedPostgreSQL(t *testing.T, namespace, spec string) {
	t.Helper()
	for text, edit := range map[string][2]string{
		`extension "shop/plpython3u": name`: {"pgcrypto", "plpython3u"},
		`parameter "shared_bufers"`:         {"replicas: 1", "replicas: 1\nparameters: {shared_bufers: 1GB}"},
		`does not support version "16"`:     {`"17"`, `"16"`},
		`write 10.0.0.0/8, or /32 for this address alone`: {"replicas: 1",
			"replicas: 1\nhba: [{address: 10.0.0.1/8, method: reject}]"},
		`must be all, or an address and the length`: {"replicas: 1",
			"replicas: 1\nhba: [{address: '1::2::3/64', method: reject}]"},
		`synchronous_commit cannot be off or local where`: {"replicas: 1",
			"replicas: 2\nparameters: {synchronous_commit: 'off'}"},
	} {
		refused(t, u.Create(t.Context(), postgresql(t, namespace, "bad", strings.Replace(spec, edit[0], edit[1], 1))), text)
	}
}

// declares waits until there are just these Entities, by type and name.
func (r *release) declares(namespace string, want ...string) {
	r.Helper()
	testkit.Eventually(r, fmt.Sprintf("the Entities are %v", want), func(ctx context.Context) error {
		var list platformv1.EntityList
		err := env.Client.List(ctx, &list, client.InNamespace(namespace))
		var have []string
		for _, entity := range list.Items {
			have = append(have, entity.Spec.Type+"/"+entity.Spec.Name)
		}
		if slices.Sort(have); !slices.Equal(have, want) {
			err = errors.Join(err, fmt.Errorf("they are %v", have))
		}
		return err
	})
}

// says waits until an object has a value.
func (r *release) says(obj *unstructured.Unstructured, want any, path ...string) {
	r.Helper()
	testkit.Eventually(r, fmt.Sprintf("%s is %v", strings.Join(path, "."), want), func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		if got, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("it is %v", got))
		}
		return nil
	})
}
