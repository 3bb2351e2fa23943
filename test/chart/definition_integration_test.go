// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// collector is who deletes what has lost its owner in a cluster. Here the controllers of Kubernetes have another
// account.
const collector = "system:serviceaccount:kube-system:generic-garbage-collector"

// TestADefinitionDeletedByMistakeLeavesVolumes deletes the definition of a kind, which deletes its objects past their
// protection: everything of a protected instance goes, but its volumes. With the definition and the object put back,
// the data is found, named, and taken over by adoptVolumes.
func TestADefinitionDeletedByMistakeLeavesVolumes(t *testing.T) {
	env.Controllers(t, testkit.GarbageCollector)
	r := install(t)
	r.start()
	namespace := env.Namespace(t)
	r.judges(namespace)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/none"}
	if err := env.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), class) }) // The API server goes too.
	object := func() *unstructured.Unstructured {
		cache := redis(namespace, "cache")
		spec := cache.Object["spec"].(map[string]any)
		spec["deletionProtection"], spec["deletionPolicy"] = true, "Delete"
		spec["storage"] = map[string]any{"size": "1Gi", "storageClassName": class.Name}
		return cache
	}
	if err := env.Client.Create(t.Context(), object()); err != nil {
		t.Fatal(err)
	}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-cache"}}
	before := r.mounted(app)
	former := app.UID

	again := r.losesDefinition("redis.database.zeroinfra.github.com")
	r.collects(app)
	testkit.Eventually(t, "all but the volumes is gone", func(ctx context.Context) error {
		var pods corev1.PodList
		err := env.Client.List(ctx, &pods, client.InNamespace(namespace))
		if left := env.Client.Get(ctx, client.ObjectKeyFromObject(app), app); !apierrors.IsNotFound(left) {
			return errors.Join(err, fmt.Errorf("the Application: %v", left))
		}
		if len(pods.Items) > 0 {
			return errors.Join(err, fmt.Errorf("there are %d pods", len(pods.Items)))
		}
		return err
	})
	if left := claims(t, namespace); !maps.Equal(left, before) {
		t.Fatalf("the claims were %v and are %v", before, left)
	}

	again()
	cache := object()
	testkit.Eventually(t, "the object is put back", func(ctx context.Context) error {
		cache = object()
		return env.Client.Create(ctx, cache)
	})
	testkit.WaitFor(t, env.Client, app, "names the volumes", func() error {
		for _, condition := range app.Status.Conditions {
			if condition.Reason == platformv1.ReasonRetainedVolumesExist {
				return nil
			}
		}
		return fmt.Errorf("it has %v", app.Status.Conditions)
	})
	if err := merge(t, env.Client, cache, `{"spec": {"adoptVolumes": "`+string(former)+`"}}`); err != nil {
		t.Fatal(err)
	}
	if after := r.mounted(app); app.UID == former || !maps.Equal(after, before) {
		t.Errorf("the claims of %s were %v; those of %s are %v", former, before, app.UID, after)
	}
}

// collects deletes an Application whose owner is gone.
func (r *release) collects(app *platformv1.Application) {
	r.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: collector, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		r.Fatal(err)
	}
	if err := c.Delete(r.Context(), app.DeepCopy(),
		client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		r.Fatal(err)
	}
}

// claims are the UIDs of the claims that nobody deletes, by name.
func claims(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			uids[list.Items[i].Name] = list.Items[i].UID
		}
	}
	return uids
}

// mounted waits until an Application has pods with volumes of its own, and returns the claims.
func (r *release) mounted(app *platformv1.Application) map[string]types.UID {
	r.Helper()
	testkit.Eventually(r, "the pods have volumes", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		var list corev1.PersistentVolumeClaimList
		var pods corev1.PodList
		err := errors.Join(env.Client.List(ctx, &list, client.InNamespace(app.Namespace),
			client.MatchingLabels{platformv1.ApplicationUIDLabel: string(app.UID)}),
			env.Client.List(ctx, &pods, client.InNamespace(app.Namespace)))
		if len(list.Items) == 0 || len(pods.Items) == 0 {
			return errors.Join(err, fmt.Errorf("there are %d claims and %d pods; the Application has %v",
				len(list.Items), len(pods.Items), app.Status.Conditions))
		}
		return err
	})
	return claims(r.T, app.Namespace)
}

// losesDefinition deletes a definition, and waits until it is gone with all its objects. The function that it returns
// puts it back.
func (r *release) losesDefinition(name string) (again func()) {
	r.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: name}
	if err := env.Client.Get(r.Context(), key, definition); err != nil {
		r.Fatal(err)
	}
	if err := env.Client.Delete(r.Context(), definition.DeepCopy()); err != nil {
		r.Fatal(err)
	}
	testkit.Eventually(r, "the definition is gone", func(ctx context.Context) error {
		left := &apiextensionsv1.CustomResourceDefinition{}
		if err := env.Client.Get(ctx, key, left); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%v: %v", err, left.Status.Conditions)
		}
		return nil
	})
	return func() {
		r.Helper()
		fresh := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: definition.Annotations, Labels: definition.Labels},
			Spec:       definition.Spec,
		}
		if err := env.Client.Create(r.Context(), fresh); err != nil {
			r.Fatal(err)
		}
	}
}
