// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cli is the command line of devcluster.
package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/forward"
	"github.com/zeroinfra/hack/devcluster/internal/host"
	"github.com/zeroinfra/hack/devcluster/internal/lifecycle"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"golang.org/x/sys/unix"
)

// app is what all verbs share.
type app struct {
	name  string
	state string
	start time.Time
}

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	// The two lives that this program leads inside a cluster need none of the
	// command line.
	if len(args) == 2 {
		switch args[0] {
		case machine.BootVerb:
			return code(machine.Boot(args[1]))
		case forward.Verb:
			return code(lifecycle.Forward(args[1]))
		}
	}
	// What the caller has open, such as a lock, would stay open for as long as
	// the cluster runs.
	const first, last = 3, math.MaxInt32
	if err := unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return code(fmt.Errorf("cannot keep open files from the cluster: %w", err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	return code(root.ExecuteContext(ctx))
}

// exitError makes the program end with a code and say nothing more.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func code(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
	return 1
}

func newRoot() *cobra.Command {
	a := &app{start: time.Now()}
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A real Kubernetes of several nodes on one Linux machine, without Docker",
		Long: "devcluster makes a real Kubernetes " + build.KubernetesVersion +
			" of several nodes on one Linux machine with root and\n" +
			"without Docker. Everything runs in network namespaces of its own; the host reaches the API\n" +
			"at a port on its loopback.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&a.name, "name", cluster.DefaultName, "name of the cluster")
	root.PersistentFlags().StringVar(&a.state, "state", cluster.DefaultBase, "folder that keeps the state of clusters")
	root.AddCommand(
		a.upCommand(), a.downCommand(), a.statusCommand(), a.kubeconfigCommand(), a.loadCommand(), a.nodeCommand(),
		a.addonCommand(),
		a.logsCommand(), a.execCommand(), a.buildCommand(), a.binCommand(), a.depsCommand(), a.auditLogCommand(),
	)
	return root
}

// say prints a line of progress with the time since the start.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%5.1fs] %s\n", time.Since(a.start).Seconds(), fmt.Sprintf(format, args...))
}

func (a *app) cluster() (cluster.Cluster, error) { return cluster.New(a.state, a.name) }

func (a *app) builder() (*build.Builder, error) {
	sources, err := build.FindSources()
	if err != nil {
		return nil, err
	}
	cache, err := build.DefaultCache()
	if err != nil {
		return nil, err
	}
	return &build.Builder{Sources: sources, Cache: cache, Progress: a.say}, nil
}

// manager returns the manager of the cluster, for verbs that need no programs
// to be built.
func (a *app) manager() (*lifecycle.Manager, error) {
	if err := host.CheckRoot(); err != nil {
		return nil, err
	}
	c, err := a.cluster()
	if err != nil {
		return nil, err
	}
	return lifecycle.New(c, nil, a.say)
}

// buildingManager returns the manager of the cluster, for verbs that start
// programs.
func (a *app) buildingManager() (*lifecycle.Manager, error) {
	m, err := a.manager()
	if err != nil {
		return nil, err
	}
	m.Builder, err = a.builder()
	return m, err
}
