// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// EnvOptions say what an Env holds beside the types of Kubernetes and of the core API.
type EnvOptions struct {
	// Own says why these tests need an API server of their own, for example because they install other definitions. When
	// it is empty, they use the server that "testserver" shares between packages, if there is one.
	Own string
	// AddToScheme registers further types.
	AddToScheme []func(*runtime.Scheme) error
	// CRDs are installed before the first test, from their .yaml files. None are by default.
	CRDs []fs.FS
	// System is the namespace of an operator, which is made, with its account: Env.System. There is none by default.
	System string
	// Roles are what that operator may do beside platform-core/config/rbac.
	Roles []fs.FS
	// After looks at what all tests have left behind; its error fails them. Main calls it.
	After func(*Env) error
}

// Env is a real API server with its own etcd, which other packages may use at the same time.
type Env struct {
	// Config reaches the API server as an administrator, without limits of its own, by HTTP/1.1: see administratorOf.
	Config *rest.Config
	// Client reads live objects.
	Client client.Client
	// Scheme knows the types of Kubernetes, of the core API and of the options.
	Scheme *runtime.Scheme
	// System is the account of the operator whose controllers the tests run; nil unless the options name its namespace.
	System *Operator

	server    *server
	leftovers leftovers
}

// Main runs the tests of a package with one Env, which it puts into *env, and ends
// the process. It is the body of TestMain. The tests fail when Env.System was denied anything.
func Main(m *testing.M, env **Env, o EnvOptions) {
	started, err := Start(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	*env = started
	code := m.Run()
	if err := started.check(o.After); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = max(code, 1)
	}
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot stop the API server:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Start connects to the API server that packages share, or starts one with its etcd from the binaries in
// KUBEBUILDER_ASSETS, else from where "devcluster bin" says they are. The caller stops it.
func Start(o EnvOptions) (*Env, error) {
	scheme := runtime.NewScheme()
	add := []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, platformv1.AddToScheme}
	for _, f := range append(add, o.AddToScheme...) {
		if err := f(scheme); err != nil {
			return nil, fmt.Errorf("cannot register types: %w", err)
		}
	}
	definitions, err := readDefinitions(o.CRDs)
	if err != nil {
		return nil, err
	}
	server, err := connect(o.Own, definitions)
	if err != nil {
		return nil, err
	}
	cfg := administratorOf(server)
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", errors.Join(err, server.stop()))
	}
	started := &Env{Config: cfg, Client: c, Scheme: scheme, server: server}
	if o.System == "" {
		return started, nil
	}
	if err := server.exclusively(func() error { return started.makeSystem(o) }); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return started, nil
}

// administratorOf is how tests reach a server. A test does not try again, and of HTTP/2 the server may refuse a request
// as one stream too many of the connection that all clients of a process have in common: client and server do not count
// streams that end in the same way (golang/go#47635). Controllers speak HTTP/2 as elsewhere, and try again.
func administratorOf(server *server) *rest.Config {
	cfg := rest.CopyConfig(server.config)
	cfg.NextProtos = []string{"http/1.1"}
	return cfg
}

// makeSystem makes the namespace of the operator and its account, unless another package has.
func (e *Env) makeSystem(o EnvOptions) error {
	ctx := context.Background()
	err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.System}})
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("cannot make the namespace of the operator: %w", err)
	}
	e.System, err = e.Operator(ctx, o.System, o.Roles...)
	return err
}

// check returns what is wrong once all tests have run: the operator was denied something, or what after finds. Of a
// shared server, testserver looks at what operators were denied, for all packages at once.
func (e *Env) check(after func(*Env) error) error {
	var denied, found error
	if e.System != nil && !e.server.shared {
		denied = e.Denied(e.System.User)
	}
	if after != nil {
		found = after(e)
	}
	return errors.Join(denied, found)
}

// Stop ends the API server and etcd, unless other packages use them too.
func (e *Env) Stop() error { return e.server.stop() }

// Kubeconfig writes a file with the address and credentials of the API server and returns its path.
func (e *Env) Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, e.server.kubeconfig, 0o600); err != nil {
		t.Fatalf("cannot write a kubeconfig: %v", err)
	}
	return path
}

// KubeconfigOf writes a file with the address of the API server and the credentials of an account, and returns its
// path.
func (e *Env) KubeconfigOf(t testing.TB, account *Operator) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfigOf(account.Config), path); err != nil {
		t.Fatalf("cannot write a kubeconfig: %v", err)
	}
	return path
}

func readDefinitions(sources []fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, source := range sources {
		err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			data, err := fs.ReadFile(source, path)
			if err != nil {
				return err
			}
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(data, definition); err != nil {
				return fmt.Errorf("cannot read a CustomResourceDefinition from %q: %w", path, err)
			}
			definitions = append(definitions, definition)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return definitions, nil
}
