// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/cgroup"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/processlog"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/server"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// flushTimeout bounds the wait for the reader of the container's log at the end.
const flushTimeout = 200 * time.Millisecond

// memoryLimit is where the collector works harder, well below what a pod's agents are given.
const memoryLimit = 14 << 20

// runOptions are the flags of run.
type runOptions struct {
	dirs       planfile.Dirs
	tlsDir     string
	socket     string
	listen     string
	cgroup     string
	reflection bool
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the plan's process as PID 1 of the middleware's container",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return program.Logged(os.Stderr, func(log *slog.Logger) error { return run(o, log) })
		},
	}
	program.AddDirs(cmd, &o.dirs)
	flags := cmd.Flags()
	flags.StringVar(&o.tlsDir, "tls-dir", plan.TLSDir, "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&o.socket, "socket", plan.SocketPath, "unix socket for the status agent")
	flags.StringVar(&o.listen, "listen", program.AnyAddress(plan.ProcessPort), "address of the gRPC server for operators")
	flags.StringVar(&o.cgroup, "cgroup-dir", cgroup.Mount, "where the container's control group is mounted")
	flags.BoolVar(&o.reflection, "reflection", false, "have the gRPC server describe itself")
	return cmd
}

// run supervises the process until SIGTERM or SIGINT.
func run(o runOptions, log *slog.Logger) error {
	program.Lean(memoryLimit)
	// A thread that starts a process waits in the kernel until the child has become its program, and Go does not take its
	// place away meanwhile: with a single one no signal would be passed on, and no permission looked after.
	runtime.GOMAXPROCS(2)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	reap, err := reaper.New(log)
	if err != nil {
		return err
	}
	store, err := callrecord.Open(o.dirs.Run)
	if err != nil {
		return err
	}
	output, err := processlog.New(os.Stdout, os.Stderr, log)
	if err != nil {
		return err
	}
	defer output.Close(flushTimeout)
	certificates := mutualtls.New(o.tlsDir, log)
	sup := supervisor.New(o.dirs, supervisor.System{Reaper: reap, Output: output}, store,
		o.member(certificates, reap, log), log)
	// Before the process is started, which would inherit that a signal is ignored here, as it is under nohup.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGWINCH)
	go forward(sup, signals)

	reflection := server.NoReflection
	if o.reflection {
		reflection = server.WithReflection
	}
	// The server outlives the stop of the process, so that it can be watched.
	serving, endServer := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Config{Address: o.listen, Certificates: certificates, SocketPath: o.socket, Reflection: reflection,
			Process: sup, Tail: output.Tail, Parse: o.dirs.Parse, Log: log, Version: version,
			Memory: func() int64 { return cgroup.MemoryInUse(o.cgroup) }}.Run(serving)
	}()
	code := sup.Run(ctx)
	endServer()
	<-served
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// member opens the pod's part in who may write.
func (o runOptions) member(certificates *mutualtls.Certificates, reap *reaper.Reaper,
	log *slog.Logger) supervisor.OpenMember {
	var start writing.StartSentinel
	// Another program than PID 1 of a container has others beside it that are not its own.
	if os.Getpid() == 1 {
		start = sentinelStarter(reap)
	}
	return func(p *plan.Plan) (*writing.Member, error) {
		peers := writing.NewAgents(certificates, p.Domain, o.dirs.Run, log)
		return writing.Open(writing.Config{Pod: o.dirs.PodName, Set: p.Writing.Set, Dir: p.Process.Dir, Peers: peers,
			StartSentinel: start, Log: log})
	}
}

// forward passes on the signals that a plan may allow.
func forward(sup *supervisor.Supervisor, signals <-chan os.Signal) {
	for sig := range signals {
		sup.Forward(sig.(syscall.Signal))
	}
}
