// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// removalIn is how long a deleted namespace may take to go: its pods may take their grace period.
const removalIn = 5 * time.Minute

// fieldOwner is the manager under which the tests write, as kubectl has one.
const fieldOwner = "e2e"

// cluster is the API server under several clients.
type cluster struct {
	config *rest.Config
	// client is strict: a field that the API server does not know is an error.
	client client.Client
	kube   kubernetes.Interface
	meta   metadata.Interface
}

func connect(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return rereading{next} })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, platformv1.AddToScheme, databasev1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &cluster{config: config}
	plain, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot reach the cluster of kubeconfig %q: %w", kubeconfig, err)
	}
	c.client = client.WithFieldOwner(client.WithFieldValidation(plain, metav1.FieldValidationStrict), fieldOwner)
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.meta, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	return c, nil
}

// space is a namespace of one test.
type space struct {
	*testing.T
	// name of the namespace.
	name string
	// ctx ends with the test.
	ctx context.Context
	// client is the pod that redis-cli runs in, the same for all subtests.
	client *clientPod
	// failures of the test and its subtests.
	failures *failures
}

// clientPod is made when it is first needed.
type clientPod struct {
	once  sync.Once
	ready bool
}

// removals are the namespaces that tests have deleted and that nobody has seen gone yet.
var removals struct {
	sync.Mutex
	names []string
}

// newSpace makes a namespace that enforces the restricted Pod Security Standard. It is deleted at the end of the test;
// that it went is checked at the end of all tests, since Kubernetes takes its time.
func newSpace(t *testing.T, purpose string) *space {
	t.Helper()
	s := &space{T: t, name: "e2e-" + purpose + "-" + rand.String(5), ctx: t.Context(), client: &clientPod{}, failures: &failures{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	if err := world.client.Create(s.ctx, namespace); err != nil {
		t.Fatalf("cannot create namespace %q: %v", s.name, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			diagnose(t, s.name)
			t.Logf("what failed, once more:\n%s", s.failures)
			if set.keep {
				return
			}
		}
		if err := remove(s.name); err != nil {
			t.Error(err)
		}
	})
	s.lintStatuses()
	return s
}

// in returns the same namespace for a subtest.
func (s *space) in(t *testing.T) *space {
	part := *s
	part.T, part.ctx = t, t.Context()
	return &part
}

// remove deletes a namespace and remembers it for awaitRemovals.
func remove(name string) error {
	removals.Lock()
	defer removals.Unlock()
	removals.names = append(removals.names, name)
	// The test's own context is over when cleanups run.
	err := world.client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete namespace %q: %w", name, err)
	}
	return nil
}

// awaitRemovals waits until every namespace that tests have deleted is gone.
func awaitRemovals(ctx context.Context) error {
	removals.Lock()
	defer removals.Unlock()
	var stuck []error
	for _, name := range removals.names {
		if _, err := poll(ctx, removalIn, fmt.Sprintf("namespace %q goes away", name), func() error { return namespaceGone(ctx, name) }); err != nil {
			stuck = append(stuck, err)
		}
	}
	removals.names = nil
	return errors.Join(stuck...)
}

// namespaceGone says what is left of a namespace.
func namespaceGone(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{}
	err := world.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if err == nil {
		return fmt.Errorf("it is %s: %v", namespace.Status.Phase, namespace.Status.Conditions)
	}
	return gone(err)
}

// create creates an object, in the namespace of the test when it names none.
func (s *space) create(obj client.Object) {
	s.Helper()
	if err := s.tryCreate(obj); err != nil {
		s.Fatalf("cannot create %T %q: %v", obj, obj.GetName(), err)
	}
}

// tryCreate is create for what the API server may refuse.
func (s *space) tryCreate(obj client.Object) error {
	if obj.GetNamespace() == "" {
		obj.SetNamespace(s.name)
	}
	return world.client.Create(s.ctx, obj)
}

// get reads the object of that name in the namespace of the test.
func (s *space) get(name string, obj client.Object) error {
	return world.client.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: name}, obj)
}

// gone turns the error of a get around: nil when there is no such object.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("it is still there")
}

// mustGet is get for what has to be there.
func (s *space) mustGet(name string, obj client.Object) {
	s.Helper()
	if err := s.get(name, obj); err != nil {
		s.Fatalf("cannot get %T %q: %v", obj, name, err)
	}
}

// delete deletes an object.
func (s *space) delete(obj client.Object, options ...client.DeleteOption) {
	s.Helper()
	if obj.GetNamespace() == "" {
		obj.SetNamespace(s.name)
	}
	if err := world.client.Delete(s.ctx, obj, options...); err != nil {
		s.Fatalf("cannot delete %T %q: %v", obj, obj.GetName(), err)
	}
}

// secret makes a Secret with one value.
func (s *space) secret(name, key, value string) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{key: value}}
	s.create(secret)
}
