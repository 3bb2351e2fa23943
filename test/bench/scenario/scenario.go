// SPDX-License-Identifier: Apache-2.0

// Package scenario is what the bench does: the same for StatefulSets and for
// Applications, and then to the Applications what happens in a cluster's life.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/bench/agents"
	"github.com/zeroinfra/test/bench/audit"
	"github.com/zeroinfra/test/bench/controlplane"
	"github.com/zeroinfra/test/bench/fleet"
	"github.com/zeroinfra/test/bench/program"
	"github.com/zeroinfra/test/bench/result"
)

// Config says what to run, and with what.
type Config struct {
	// Applications to make.
	Applications int
	// Namespaces to spread them over.
	Namespaces int
	// Idle is how long nothing may be written at rest.
	Idle time.Duration
	// Patience with each phase.
	Patience time.Duration
	// Folder for logs and configuration.
	Folder string
	// Assets is the folder with the programs of Kubernetes.
	Assets string
	// KWOK, Operator and Zictl are paths of programs.
	KWOK, Operator, Zictl string
	// OperatorFlags are added to those that the operator needs; it has its defaults else.
	OperatorFlags []string
	// Plugin is the folder of the bench's plugin.
	Plugin string
	// Roles is the folder with the role of the operator's own kinds.
	Roles string
	// Profiles is a folder for profiles of the operator; none are made when it is empty.
	Profiles string
	// Say tells how far it is.
	Say func(format string, arguments ...any)
}

// podsPerNode leaves room on each node.
const podsPerNode = controlplane.PodsPerNode / 2

// fewestNodes is one for each pod of an Application.
const fewestNodes = fleet.Replicas

// bench is one run under way.
type bench struct {
	Config
	plane *controlplane.Plane
	// driver makes and changes the objects.
	driver   client.WithWatch
	operator *operator
	// windows are those of the phases, in the order in which counts are asked for.
	windows []audit.Window
	phases  []*result.Phase
}

// Run runs the scenario once, on a control plane of its own.
func Run(ctx context.Context, c Config) (run result.Run, err error) {
	started := time.Now()
	run = result.Run{
		Applications: c.Applications, Pods: c.Applications * fleet.Replicas, Namespaces: c.Namespaces,
		Nodes: max(fewestNodes, (c.Applications*fleet.Replicas+podsPerNode-1)/podsPerNode),
	}
	b := &bench{Config: c}
	b.Say("starting a control plane with %d simulated nodes", run.Nodes)
	b.plane, err = controlplane.Start(ctx,
		controlplane.Options{Assets: c.Assets, KWOK: c.KWOK, Folder: c.Folder, Nodes: run.Nodes})
	defer func() { err = errors.Join(err, b.plane.Stop()) }()
	if err != nil {
		return run, err
	}
	cfg, err := b.plane.As(controlplane.Driver)
	if err != nil {
		return run, err
	}
	if b.driver, err = client.NewWithWatch(cfg, client.Options{Scheme: b.plane.Kit.Scheme}); err != nil {
		return run, fmt.Errorf("cannot make a client: %w", err)
	}
	if err := b.compared(ctx, &run); err != nil {
		return run, fmt.Errorf("cannot measure StatefulSets: %w", err)
	}
	if err := b.measured(ctx, &run); err != nil {
		return run, fmt.Errorf("cannot measure Applications: %w", err)
	}
	if err := b.count(&run); err != nil {
		return run, err
	}
	run.Seconds = time.Since(started).Seconds()
	return run, nil
}

// compared makes the StatefulSets and removes them again.
func (b *bench) compared(ctx context.Context, run *result.Run) error {
	rendered, err := b.render(ctx)
	if err != nil {
		return err
	}
	baseline, err := fleet.NewBaseline(rendered)
	if err != nil {
		return err
	}
	f := fleet.Fleet{Size: b.Applications, Namespaces: b.Namespaces, Prefix: "sets", Client: b.driver}
	if err := f.MakeNamespaces(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	b.Say("making %d StatefulSets", b.Applications)
	used, err := program.CPUByName()
	if err != nil {
		return err
	}
	progress, err := f.Await(ctx, &appsv1.StatefulSetList{}, fleet.StatefulSetReady, f.MakeStatefulSets(baseline),
		b.plane.Failure)
	if err != nil {
		return err
	}
	if run.StatefulSets.Programs, err = usedSince(used); err != nil {
		return err
	}
	b.note(&run.StatefulSets, progress, time.Now())
	b.Say("all ready after %.1f s; removing them", progress.Total().Seconds())
	return f.RemoveStatefulSets(ctx)
}

// note fills in a phase in which objects became ready.
func (b *bench) note(phase *result.Phase, progress fleet.Progress, end time.Time) {
	phase.Seconds = progress.Total().Seconds()
	phase.Ready = result.Percentiles(progress.Ready)
	b.window(phase, progress.Start, end)
}

// window has the requests of a time be counted for a phase.
func (b *bench) window(phase *result.Phase, from, to time.Time) {
	b.windows = append(b.windows, audit.Window{From: from, To: to})
	b.phases = append(b.phases, phase)
}

// measured starts the operator and the agents, and goes through the phases.
func (b *bench) measured(ctx context.Context, run *result.Run) (err error) {
	f := fleet.Fleet{Size: b.Applications, Namespaces: b.Namespaces, Prefix: "apps", Client: b.driver}
	if err := f.MakeNamespaces(ctx); err != nil {
		return err
	}
	if b.operator, err = b.install(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.operator.stop()) }()
	stop, err := b.simulate(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	usage, err := b.operator.usage()
	if err != nil {
		return err
	}
	run.Memory.Empty = usage.ResidentMiB
	if err := b.create(ctx, f, run); err != nil {
		return err
	}
	if err := b.idle(ctx, run); err != nil {
		return err
	}
	if err := b.change(ctx, f, run); err != nil {
		return err
	}
	if err := b.annotate(ctx, f, run); err != nil {
		return err
	}
	if err := b.restart(ctx, f, run); err != nil {
		return err
	}
	return b.poisoned(ctx, run)
}

// simulate starts the agents of all pods.
func (b *bench) simulate(ctx context.Context) (stop func() error, err error) {
	var accounts [2]*rest.Config
	for i, user := range []string{controlplane.Kubelet, controlplane.Agents} {
		if accounts[i], err = b.plane.As(user); err != nil {
			return nil, err
		}
	}
	simulator, err := agents.New(agents.Options{Kubelet: accounts[0], Agents: accounts[1], Scheme: b.plane.Kit.Scheme})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- simulator.Run(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// count reads the audit log and fills in the requests of all phases.
func (b *bench) count(run *result.Run) error {
	file, err := os.Open(b.plane.AuditLog)
	if err != nil {
		return fmt.Errorf("cannot read the audit log: %w", err)
	}
	defer file.Close()
	counts, err := audit.Count(file, b.windows, actor)
	if err != nil {
		return err
	}
	for i, phase := range b.phases {
		phase.Requests = counts[i]
	}
	if run.Create.Requests[result.Operator] == nil || run.Create.Requests[result.Agents] == nil {
		return errors.New("the audit log shows no requests of the operator or none of the agents: the counts mean nothing")
	}
	// It has caught up when it asks for nothing more, also when no reconcile is to be seen.
	window := b.windows[len(b.windows)-1]
	if tally := run.Restart.Requests[result.Operator]; tally != nil {
		run.Restart.Seconds = max(run.Restart.Seconds, tally.Last.Sub(window.From).Seconds())
	}
	return nil
}

// actor says to whom a user of the API server belongs.
func actor(user string) string {
	switch {
	case strings.HasPrefix(user, "system:serviceaccount:"+system+":"):
		return result.Operator
	case user == controlplane.Agents:
		return result.Agents
	case user == controlplane.ControllerManager, strings.HasPrefix(user, "system:serviceaccount:kube-system:"):
		return result.Controllers
	case user == controlplane.Scheduler:
		return result.Scheduler
	case user == controlplane.KWOK, user == controlplane.Kubelet:
		return result.Nodes
	case user == controlplane.Driver, user == "admin", user == "default":
		return result.Bench
	}
	return result.Others
}

// pods returns UID and version of all pods of the fleet.
func pods(ctx context.Context, f fleet.Fleet) (map[string]string, error) {
	return f.Objects(ctx, corev1.SchemeGroupVersion.WithKind("PodList"))
}

// alive says whether all that is measured still runs.
func (b *bench) alive() error { return errors.Join(b.plane.Failure(), b.operator.failure()) }

// applications is what to watch.
func applications() client.ObjectList { return &platformv1.ApplicationList{} }

// path returns a file in the folder of the run.
func (b *bench) path(name string) string { return filepath.Join(b.Folder, name) }
