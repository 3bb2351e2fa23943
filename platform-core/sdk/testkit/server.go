// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// assetsVariable names the folder with kube-apiserver, etcd and kubectl.
	assetsVariable = "KUBEBUILDER_ASSETS"
	// ServerVariable names the folder of a server that packages share, see Share.
	ServerVariable = "TESTKIT_SERVER"
	// startPatience is how long one part of the control plane may take to start on a busy machine.
	startPatience = 2 * time.Minute

	// Files in the folder of a shared server.
	kubeconfigFile  = "kubeconfig"
	auditFile       = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
	tokensFile      = "tokens.csv"
	lockFile        = "lock"
)

// server is an API server and the way to it.
type server struct {
	// config reaches it as an administrator, without limits of its own; kubeconfig is the same as a file.
	config     *rest.Config
	kubeconfig []byte
	// assets is the folder of the programs of Kubernetes, and folder that of the audit log.
	assets, folder string
	// shared is true when other packages use the server too.
	shared bool
	stop   func() error
}

// connect returns the server that packages share, if there is one and own does not say why another is needed, else one
// of its own.
func connect(own string, definitions []*apiextensionsv1.CustomResourceDefinition) (*server, error) {
	if folder := os.Getenv(ServerVariable); folder != "" && own == "" {
		return join(folder, definitions)
	}
	folder, err := os.MkdirTemp("", "testkit-")
	if err != nil {
		return nil, err
	}
	s, err := launch(folder, definitions)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	stop := s.stop
	s.stop = func() error { return errors.Join(stop(), keepAudit(folder), os.RemoveAll(folder)) }
	return s, nil
}

// Share starts an API server with etcd whose kubeconfig and audit log are in folder. Packages whose tests are run with
// ServerVariable set to that folder use it together. The caller ends it by stop.
func Share(folder string) (stop func() error, err error) {
	s, err := launch(folder, nil)
	if err != nil {
		return nil, err
	}
	return s.stop, nil
}

// launch starts an API server with etcd and has it write its audit log into folder, which also gets a kubeconfig.
func launch(folder string, definitions []*apiextensionsv1.CustomResourceDefinition) (*server, error) {
	assets, err := findAssets()
	if err != nil {
		return nil, fmt.Errorf("cannot start an API server: %w", err)
	}
	environment := &envtest.Environment{
		CRDInstallOptions:        envtest.CRDInstallOptions{CRDs: definitions, MaxTime: startPatience},
		BinaryAssetsDirectory:    assets,
		ControlPlaneStartTimeout: startPatience,
		ControlPlaneStopTimeout:  startPatience,
	}
	// The range of envtest holds 254 Services, which is fewer than some tests make.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	// A commit of the store each 100 ms, as is the default, is most of what an etcd costs that holds little.
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Set("backend-batch-interval", "2s")
	if err := audit(environment, folder); err != nil {
		return nil, fmt.Errorf("cannot have an audit log: %w", err)
	}
	token, err := administrator(environment, folder)
	if err != nil {
		return nil, fmt.Errorf("cannot make a token for the administrator: %w", err)
	}
	started, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("cannot start an API server from %q: %w", assets, errors.Join(err, environment.Stop()))
	}
	cfg := rest.AnonymousClientConfig(started)
	cfg.BearerToken, cfg.QPS = token, -1
	kubeconfig, err := clientcmd.Write(*kubeconfigOf(cfg))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, kubeconfigFile), kubeconfig, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, environment.Stop())
	}
	return &server{config: cfg, kubeconfig: kubeconfig, assets: assets, folder: folder, stop: environment.Stop}, nil
}

// administrator has the API server know an administrator by a token, and returns it. The certificate that envtest makes
// for one would be verified again with each request, which is a twentieth of what tests cost.
func administrator(environment *envtest.Environment, folder string) (token string, err error) {
	token = rand.Text()
	path := filepath.Join(folder, tokensFile)
	line := token + ",admin,admin,system:masters\n"
	environment.ControlPlane.GetAPIServer().Configure().Set("token-auth-file", path)
	return token, os.WriteFile(path, []byte(line), 0o600)
}

// kubeconfigOf is a file with the address of an API server and the token that cfg holds.
func kubeconfigOf(cfg *rest.Config) *clientcmdapi.Config {
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return file
}

// join reaches the shared server of a folder and installs definitions that it does not have yet.
func join(folder string, definitions []*apiextensionsv1.CustomResourceDefinition) (*server, error) {
	assets, err := findAssets()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := os.ReadFile(filepath.Join(folder, kubeconfigFile))
	if err != nil {
		return nil, fmt.Errorf("cannot reach the API server that packages share: %w", err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the API server that packages share: %w", err)
	}
	cfg.QPS = -1
	s := &server{config: cfg, kubeconfig: kubeconfig, assets: assets, folder: folder, shared: true,
		stop: func() error { return nil }}
	err = s.exclusively(func() error {
		_, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: definitions, MaxTime: startPatience})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot install definitions: %w", err)
	}
	return s, nil
}

// exclusively does something while no other package does so on the same server.
func (s *server) exclusively(do func() error) error {
	lock, err := os.OpenFile(filepath.Join(s.folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock %q: %w", lock.Name(), err)
	}
	return do()
}

// keepAudit leaves the audit log of a server that a package had for itself with the shared one, which is asked who uses
// which right.
func keepAudit(folder string) error {
	shared := os.Getenv(ServerVariable)
	if shared == "" {
		return nil
	}
	return os.Rename(filepath.Join(folder, auditFile), filepath.Join(shared, filepath.Base(folder)+".log"))
}

// findAssets returns the folder with the binaries of Kubernetes.
func findAssets() (string, error) {
	folder := os.Getenv(assetsVariable)
	if folder == "" {
		tool, err := exec.LookPath("devcluster")
		if err != nil {
			return "", fmt.Errorf("no binaries of Kubernetes: set %s, or have devcluster (hack/devcluster) in PATH",
				assetsVariable)
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
