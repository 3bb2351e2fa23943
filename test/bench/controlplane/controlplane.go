// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real control plane over simulated nodes: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler as they are released, and
// KWOK in the place of kubelets.
package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/test/bench/program"
)

// Users of the API server that the bench knows by name.
const (
	ControllerManager = "system:kube-controller-manager"
	Scheduler         = "system:kube-scheduler"
	KWOK              = "bench:kwok"
	// Driver makes and watches what is measured.
	Driver = "bench:driver"
	// Kubelet reads what a kubelet would bring to the agents of a pod.
	Kubelet = "bench:kubelet"
	// Agents write what the agents of a pod would write.
	Agents = "bench:agents"
)

// serviceRange has room for some thousands of Services.
const serviceRange = "172.20.0.0/16"

// Addresses in the network of the pods that are no pod's: of the API server, and of all nodes.
const (
	serverAddress = "10.255.255.1"
	nodeAddress   = "10.255.255.2"
)

// patience is how long one part may take to start.
const patience = 2 * time.Minute

// Limits of the clients of controller manager and scheduler, above what they reach here.
const (
	clientQPS   = "500"
	clientBurst = "1000"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

//go:embed stages.yaml
var stages []byte

// Options say where the programs are and where they work.
type Options struct {
	// Assets is the folder with the programs of Kubernetes, as "devcluster bin" prints it.
	Assets string
	// KWOK is the path of the program.
	KWOK string
	// Folder for logs and configuration.
	Folder string
	// Nodes is how many are simulated.
	Nodes int
}

// Plane is a running control plane.
type Plane struct {
	// Kit is the API server as the administrator sees it.
	Kit *testkit.Env
	// AuditLog of the API server.
	AuditLog string

	folder      string
	environment *envtest.Environment
	programs    []*program.Program
	// log of the API server.
	log *os.File
}

// Start starts a control plane and waits until its nodes are ready. The caller stops it, also after an error.
func Start(ctx context.Context, o Options) (*Plane, error) {
	p := &Plane{folder: o.Folder, AuditLog: filepath.Join(o.Folder, "audit.log")}
	if err := p.startServer(o); err != nil {
		return p, err
	}
	if err := p.startControllers(o); err != nil {
		return p, err
	}
	return p, p.makeNodes(ctx, o.Nodes)
}

// startServer starts etcd and the API server, with the admission that a cluster has by default.
func (p *Plane) startServer(o Options) error {
	policy := filepath.Join(o.Folder, "audit-policy.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return fmt.Errorf("cannot write the audit policy: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, platformv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("cannot register types: %w", err)
		}
	}
	p.environment = &envtest.Environment{
		BinaryAssetsDirectory:    o.Assets,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	log, err := os.OpenFile(filepath.Join(o.Folder, "kube-apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot keep the log of the API server: %w", err)
	}
	p.log = log
	p.environment.ControlPlane.GetAPIServer().Err = log
	p.environment.ControlPlane.GetAPIServer().Configure().
		Set("service-cluster-ip-range", serviceRange).
		// The network of the bench has no way out, by which the server would find its own address.
		Set("advertise-address", serverAddress).
		Disable("disable-admission-plugins").
		Set("audit-policy-file", policy).
		Set("audit-log-path", p.AuditLog).
		// One file holds all: its parts would be deleted or missed.
		Set("audit-log-maxsize", "100000")
	cfg, err := p.environment.Start()
	if err != nil {
		return fmt.Errorf("cannot start an API server from %q: %w", o.Assets, err)
	}
	cfg.QPS = -1
	admin, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	p.Kit = &testkit.Env{Config: cfg, Client: admin, Scheme: scheme}
	return nil
}

func (p *Plane) startControllers(o Options) error {
	authority := filepath.Join(o.Folder, "ca.crt")
	config := filepath.Join(o.Folder, "kwok.yaml")
	for path, data := range map[string][]byte{authority: p.Kit.Config.CAData, config: stages} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("cannot write configuration: %w", err)
		}
	}
	serverDir := p.environment.ControlPlane.GetAPIServer().CertDir
	for _, part := range []struct {
		name, path, user, group string
		arguments               []string
	}{
		{"kube-controller-manager", filepath.Join(o.Assets, "kube-controller-manager"), ControllerManager, "", []string{
			"--use-service-account-credentials", "--allocate-node-cidrs=false", "--leader-elect=false",
			"--bind-address=127.0.0.1",
			"--service-account-private-key-file=" + filepath.Join(serverDir, "sa-signer.key"), "--root-ca-file=" + authority,
			"--kube-api-qps=" + clientQPS, "--kube-api-burst=" + clientBurst,
		}},
		{"kube-scheduler", filepath.Join(o.Assets, "kube-scheduler"), Scheduler, "", []string{
			"--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=" + clientQPS, "--kube-api-burst=" + clientBurst,
		}},
		{"kwok", o.KWOK, KWOK, "system:masters", []string{
			"--manage-all-nodes", "--node-lease-duration-seconds=40", "--node-ip=" + nodeAddress, "--config=" + config,
		}},
	} {
		path, err := p.kubeconfig(part.name, part.user, part.group)
		if err != nil {
			return err
		}
		started, err := program.Start(part.name, o.Folder, part.path, append(part.arguments, "--kubeconfig="+path)...)
		if err != nil {
			return err
		}
		p.programs = append(p.programs, started)
	}
	return nil
}

// kubeconfig writes a file with the credentials of a user.
func (p *Plane) kubeconfig(name, user, group string) (string, error) {
	account := envtest.User{Name: user}
	if group != "" {
		account.Groups = []string{group}
	}
	added, err := p.environment.AddUser(account, &rest.Config{})
	if err != nil {
		return "", fmt.Errorf("cannot make user %q: %w", user, err)
	}
	data, err := added.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("cannot make a kubeconfig of user %q: %w", user, err)
	}
	path := filepath.Join(p.folder, name+".kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("cannot write a kubeconfig: %w", err)
	}
	return path, nil
}

// As returns how to reach the API server under a name of the bench's own, with all rights and no limits.
func (p *Plane) As(user string) (*rest.Config, error) {
	added, err := p.environment.AddUser(envtest.User{Name: user, Groups: []string{"system:masters"}},
		&rest.Config{QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("cannot make user %q: %w", user, err)
	}
	cfg := rest.CopyConfig(added.Config())
	cfg.QPS = -1
	return cfg, nil
}

// Failure says which program has ended that should run.
func (p *Plane) Failure() error {
	var failures []error
	for _, part := range p.programs {
		failures = append(failures, part.Failure())
	}
	return errors.Join(failures...)
}

// Stop ends all programs. Logs stay.
func (p *Plane) Stop() error {
	var failures []error
	for i := len(p.programs) - 1; i >= 0; i-- {
		failures = append(failures, p.programs[i].Stop(context.Background()))
	}
	if p.environment != nil {
		failures = append(failures, p.environment.Stop())
	}
	if p.log != nil {
		failures = append(failures, p.log.Close())
	}
	return errors.Join(failures...)
}
