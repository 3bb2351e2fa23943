// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/test/bench/fleet"
	"github.com/zeroinfra/test/bench/metrics"
	"github.com/zeroinfra/test/bench/program"
)

const (
	// system is the operator's namespace.
	system = "zeroinfra-system"
	// Where the operator serves. The bench has a network of its own, so that nobody else is there.
	metricsAddress = "127.0.0.1:18080"
	probesAddress  = "127.0.0.1:18081"
	// calm is how long nothing may be done until it is quiet.
	calm = 5 * time.Second
	// every so often the operator is asked how busy it is.
	every = 200 * time.Millisecond
)

// operator is the process that is measured.
type operator struct {
	path, folder string
	kubeconfig   string
	flags        []string
	running      *program.Program
	// starts counts them, for the names of logs.
	starts int
}

// render has zictl print the objects of one Application.
func (b *bench) render(ctx context.Context) ([]byte, error) {
	app, err := yaml.Marshal(fleet.Application(fleet.Sample))
	if err != nil {
		return nil, err
	}
	path := b.path("application.yaml")
	if err := os.WriteFile(path, app, 0o600); err != nil {
		return nil, err
	}
	return b.zictl(ctx, "plugin", "render", b.Plugin, "--file", path)
}

func (b *bench) zictl(ctx context.Context, arguments ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, b.Zictl, arguments...).Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, ended.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot run zictl %v: %w", arguments, err)
	}
	return out, nil
}

// install starts the operator, with the rights that its chart gives it, and waits until it serves the bench's plugin.
func (b *bench) install(ctx context.Context) (*operator, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}
	if err := b.plane.Kit.Client.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("cannot make the operator's namespace: %w", err)
	}
	account, err := b.plane.Kit.Operator(ctx, system, os.DirFS(b.Roles))
	if err != nil {
		return nil, err
	}
	o := &operator{path: b.Operator, folder: b.Folder, kubeconfig: b.path("operator.kubeconfig"), flags: b.OperatorFlags}
	if b.Profiles != "" {
		o.flags = append(slices.Clone(o.flags), "--pprof-bind-address="+profilesAddress)
	}
	if err := writeKubeconfig(o.kubeconfig, account); err != nil {
		return nil, err
	}
	if err := o.start(); err != nil {
		return nil, err
	}
	if err := b.load(ctx, o); err != nil {
		return nil, errors.Join(err, o.stop())
	}
	return o, nil
}

// load applies the plugin and waits until the operator takes it.
func (b *bench) load(ctx context.Context, o *operator) error {
	packed, err := b.zictl(ctx, "plugin", "package", b.Plugin, "--namespace", system)
	if err != nil {
		return err
	}
	if err := createAll(ctx, b.plane.Kit.Client, packed); err != nil {
		return fmt.Errorf("cannot apply the plugin: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	key := client.ObjectKey{Name: fleet.Plugin + "-" + fleet.PluginVersion}
	err = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		plugin := &platformv1.Plugin{}
		err := b.plane.Kit.Client.Get(ctx, key, plugin)
		if err != nil {
			// The definitions of its kinds may not be there yet.
			return false, o.failure()
		}
		return meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition), o.failure()
	})
	if err != nil {
		return fmt.Errorf("the operator does not accept plugin %q: %w", key.Name, err)
	}
	_, err = o.quiet(ctx, 1)
	return err
}

func writeKubeconfig(path string, account *testkit.Operator) error {
	const name = "bench"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: account.Config.Host,
		CertificateAuthorityData: account.Config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: account.Config.BearerToken}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("cannot write a kubeconfig: %w", err)
	}
	return nil
}

// start starts the operator with the settings that it has by itself, but for those that the bench was given.
func (o *operator) start() error {
	o.starts++
	running, err := program.Start(fmt.Sprintf("operator-%d", o.starts), o.folder, o.path, append([]string{
		"--kubeconfig=" + o.kubeconfig, "--namespace=" + system, "--agent-image=bench/agent:1.0",
		"--metrics-bind-address=" + metricsAddress, "--health-probe-bind-address=" + probesAddress,
	}, o.flags...)...)
	if err != nil {
		return err
	}
	o.running = running
	return nil
}

func (o *operator) stop() error { return o.running.Stop(context.Background()) }

func (o *operator) failure() error { return o.running.Failure() }

func (o *operator) usage() (program.Usage, error) { return o.running.Usage() }

// quiet waits until the operator, having reconciled so many times since it was started, has done nothing for a
// while, and returns when it last did something.
func (o *operator) quiet(ctx context.Context, atLeast int) (last time.Time, err error) {
	last = time.Now()
	var before metrics.Work
	err = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		if err := o.failure(); err != nil {
			return false, err
		}
		work, err := metrics.Read(ctx, metricsAddress)
		if err != nil || !work.Idle() || work.Reconciled != before.Reconciled || work.Reconciled < atLeast {
			// One that does not answer has just been started.
			last, before = time.Now(), work
			return false, nil
		}
		return time.Since(last) >= calm, nil
	})
	if err != nil {
		return last, fmt.Errorf("the operator does not come to rest (%d queued, %d active, %d reconciled): %w", before.Queued,
			before.Active, before.Reconciled, err)
	}
	return last, nil
}
