// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// assetsVariable names the folder with kube-apiserver, etcd and kubectl.
	assetsVariable = "KUBEBUILDER_ASSETS"
	// startPatience is how long one part of the control plane may take to start on a busy machine.
	startPatience = 2 * time.Minute
)

// EnvOptions say what an Env holds beside the types of Kubernetes and of the core API.
type EnvOptions struct {
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

// Env is a real API server with its own etcd.
type Env struct {
	// Config reaches the API server as an administrator, without limits of its own.
	Config *rest.Config
	// Client reads live objects.
	Client client.Client
	// Scheme knows the types of Kubernetes, of the core API and of the options.
	Scheme *runtime.Scheme
	// System is the account of the operator whose controllers the tests run; nil unless the options name its namespace.
	System *Operator

	environment *envtest.Environment
	// auditDir holds the audit log of the API server.
	auditDir  string
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

// Start starts an API server and etcd from the binaries in KUBEBUILDER_ASSETS,
// else from where "devcluster bin" says they are. The caller stops it.
func Start(o EnvOptions) (*Env, error) {
	assets, err := findAssets()
	if err != nil {
		return nil, fmt.Errorf("cannot start an API server: %w", err)
	}
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
	environment := &envtest.Environment{
		Scheme:                   scheme,
		CRDs:                     definitions,
		BinaryAssetsDirectory:    assets,
		ControlPlaneStartTimeout: startPatience,
		ControlPlaneStopTimeout:  startPatience,
	}
	// The range of envtest holds 254 Services, which is fewer than some tests make.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	auditDir, err := audit(environment)
	if err != nil {
		return nil, fmt.Errorf("cannot have an audit log: %w", err)
	}
	cfg, err := environment.Start()
	if err != nil {
		_ = os.RemoveAll(auditDir)
		return nil, fmt.Errorf("cannot start an API server from %q: %w", assets, errors.Join(err, environment.Stop()))
	}
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", errors.Join(err, environment.Stop()))
	}
	started := &Env{Config: cfg, Client: c, Scheme: scheme, environment: environment, auditDir: auditDir}
	if o.System == "" {
		return started, nil
	}
	if err := started.makeSystem(o); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return started, nil
}

// makeSystem makes the namespace of the operator and its account.
func (e *Env) makeSystem(o EnvOptions) error {
	ctx := context.Background()
	err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.System}})
	if err != nil {
		return fmt.Errorf("cannot make the namespace of the operator: %w", err)
	}
	e.System, err = e.Operator(ctx, o.System, o.Roles...)
	return err
}

// check returns what is wrong once all tests have run: the operator was denied something, or what after finds.
func (e *Env) check(after func(*Env) error) error {
	var denied, found error
	if e.System != nil {
		denied = e.Denied(e.System.User)
	}
	if after != nil {
		found = after(e)
	}
	return errors.Join(denied, found)
}

// Stop ends the API server and etcd.
func (e *Env) Stop() error { return errors.Join(e.environment.Stop(), os.RemoveAll(e.auditDir)) }

// Kubeconfig writes a file with the address and credentials of the API server and returns its path.
func (e *Env) Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, e.environment.KubeConfig, 0o600); err != nil {
		t.Fatalf("cannot write a kubeconfig: %v", err)
	}
	return path
}

// KubeconfigOf writes a file with the address of the API server and the credentials of an account, and returns its path.
func (e *Env) KubeconfigOf(t testing.TB, account *Operator) string {
	t.Helper()
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: account.Config.Host, CertificateAuthorityData: account.Config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: account.Config.BearerToken}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatalf("cannot write a kubeconfig: %v", err)
	}
	return path
}

// findAssets returns the folder with the binaries of Kubernetes.
func findAssets() (string, error) {
	folder := os.Getenv(assetsVariable)
	if folder == "" {
		tool, err := exec.LookPath("devcluster")
		if err != nil {
			return "", fmt.Errorf("no binaries of Kubernetes: set %s, or have devcluster (hack/devcluster) in PATH", assetsVariable)
		}
		output, err := exec.Command(tool, "bin").Output()
		if err != nil {
			return "", fmt.Errorf("cannot ask %q for the binaries of Kubernetes: %w", tool, err)
		}
		folder = strings.TrimSpace(string(output))
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("no %s in %q: %w", name, folder, err)
		}
	}
	return folder, nil
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
