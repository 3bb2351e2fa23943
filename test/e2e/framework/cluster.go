// SPDX-License-Identifier: Apache-2.0

package framework

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

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// RemovalTimeout is how long a deleted namespace may take to go: its pods may take their grace period.
const RemovalTimeout = 5 * time.Minute

// fieldOwner is the manager under which the tests write, as kubectl has one.
const fieldOwner = "e2e"

// Clients is the API server under several clients.
type Clients struct {
	Config *rest.Config
	// Client is strict: a field that the API server does not know is an error.
	Client client.Client
	Kube   kubernetes.Interface
	Meta   metadata.Interface
}

func connect(kubeconfig string) (*Clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return rereading{next} })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, platformv1.AddToScheme, databasev1.AddToScheme,
		messagev1.AddToScheme, storagev1.AddToScheme, batchv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &Clients{Config: config}
	plain, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot reach the cluster of kubeconfig %q: %w", kubeconfig, err)
	}
	c.Client = client.WithFieldOwner(client.WithFieldValidation(plain, metav1.FieldValidationStrict), fieldOwner)
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.Meta, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	return c, nil
}

// Namespace is a namespace of one test.
type Namespace struct {
	*testing.T
	// Name of the namespace.
	Name string
	// Ctx ends with the test.
	Ctx context.Context
	// Client is the pod that redis-cli runs in, the same for all subtests.
	Client *ClientPod
	// Failures of the test and its subtests.
	Failures *Failures
}

// ClientPod is made when it is first needed.
type ClientPod struct {
	once  sync.Once
	ready bool
}

// removals are the namespaces that tests have deleted and that nobody has seen gone yet.
var removals struct {
	sync.Mutex
	names []string
}

// NewNamespace makes a namespace that enforces the restricted Pod Security Standard, on a cluster with the database
// operator. It is deleted at the end of the test; that it went is checked at the end of all tests, since Kubernetes
// takes its time.
func NewNamespace(t *testing.T, purpose string) *Namespace {
	t.Helper()
	if err := installShared(); err != nil {
		t.Fatal(err)
	}
	return newNamespace(t, purpose)
}

// newNamespace is NewNamespace on a cluster with whatever operators there are.
func newNamespace(t *testing.T, purpose string) *Namespace {
	t.Helper()
	s := &Namespace{T: t, Name: "e2e-" + purpose + "-" + rand.String(5), Ctx: t.Context(), Client: &ClientPod{},
		Failures: &Failures{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	if err := Cluster.Client.Create(s.Ctx, namespace); err != nil {
		t.Fatalf("cannot create namespace %q: %v", s.Name, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			diagnose(t, s.Name)
			t.Logf("what failed, once more:\n%s", s.Failures)
			if Config.KeepNamespaces {
				return
			}
		}
		if err := DeleteNamespace(s.Name); err != nil {
			t.Error(err)
		}
	})
	s.lintStatuses()
	return s
}

// In returns the same namespace for a subtest.
func (s *Namespace) In(t *testing.T) *Namespace {
	part := *s
	part.T, part.Ctx = t, t.Context()
	return &part
}

// DeleteNamespace deletes a namespace and remembers it for AwaitRemovals.
func DeleteNamespace(name string) error {
	removals.Lock()
	defer removals.Unlock()
	removals.names = append(removals.names, name)
	// The test's own context is over when cleanups run.
	err := Cluster.Client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete namespace %q: %w", name, err)
	}
	return nil
}

// AwaitRemovals waits until every namespace that tests have deleted is gone.
func AwaitRemovals(ctx context.Context) error {
	removals.Lock()
	defer removals.Unlock()
	var stuck []error
	for _, name := range removals.names {
		if _, err := Poll(ctx, RemovalTimeout, fmt.Sprintf("namespace %q goes away", name),
			func() error { return NamespaceGone(ctx, name) }); err != nil {
			stuck = append(stuck, err)
		}
	}
	removals.names = nil
	return errors.Join(stuck...)
}

// NamespaceGone says what is left of a namespace.
func NamespaceGone(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{}
	err := Cluster.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if err == nil {
		return fmt.Errorf("it is %s: %v", namespace.Status.Phase, namespace.Status.Conditions)
	}
	return ErrUnlessNotFound(err)
}

// Create creates an object, in the namespace of the test when it names none.
func (s *Namespace) Create(obj client.Object) {
	s.Helper()
	if err := s.TryCreate(obj); err != nil {
		s.Fatalf("cannot create %T %q: %v", obj, obj.GetName(), err)
	}
}

// TryCreate is Create for what the API server may refuse.
func (s *Namespace) TryCreate(obj client.Object) error {
	if obj.GetNamespace() == "" {
		obj.SetNamespace(s.Name)
	}
	return Cluster.Client.Create(s.Ctx, obj)
}

// Get reads the object of that name in the namespace of the test.
func (s *Namespace) Get(name string, obj client.Object) error {
	return Cluster.Client.Get(s.Ctx, client.ObjectKey{Namespace: s.Name, Name: name}, obj)
}

// ErrUnlessNotFound turns the error of a get around: nil when there is no such object.
func ErrUnlessNotFound(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("it is still there")
}

// MustGet is Get for what has to be there.
func (s *Namespace) MustGet(name string, obj client.Object) {
	s.Helper()
	if err := s.Get(name, obj); err != nil {
		s.Fatalf("cannot get %T %q: %v", obj, name, err)
	}
}

// Delete deletes an object.
func (s *Namespace) Delete(obj client.Object, options ...client.DeleteOption) {
	s.Helper()
	if obj.GetNamespace() == "" {
		obj.SetNamespace(s.Name)
	}
	if err := Cluster.Client.Delete(s.Ctx, obj, options...); err != nil {
		s.Fatalf("cannot delete %T %q: %v", obj, obj.GetName(), err)
	}
}

// CreateSecret makes a Secret with one value.
func (s *Namespace) CreateSecret(name, key, value string) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{key: value}}
	s.Create(secret)
}

// BindingData returns the data of a binding Secret.
func (s *Namespace) BindingData(secret string) map[string]string {
	s.Helper()
	binding := &corev1.Secret{}
	s.MustGet(secret, binding)
	values := map[string]string{}
	for key, value := range binding.Data {
		values[key] = string(value)
	}
	return values
}
