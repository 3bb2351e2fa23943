// SPDX-License-Identifier: Apache-2.0

// Package program is what the binaries of this module have in common as programs: their command line, their log and how
// little of the machine they take.
package program

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/jsonlog"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	// flushTimeout bounds the wait for the log's reader at the end.
	flushTimeout = 200 * time.Millisecond
	// startTime is when a program that stays has started for certain.
	startTime = 30 * time.Second
)

// Root returns the command of a binary, with these commands and one that prints its version.
func Root(name, short, version string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: name, Short: short, SilenceUsage: true, SilenceErrors: true}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(commands...)
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	})
	return root
}

// Logged runs a program with a log, and keeps a broken log pipe from ending it. The log of a container is on standard
// output. On standard error is that of a command, whose output is its answer, and that of whoever passes on the output
// of another process.
func Logged(to io.Writer, run func(log *slog.Logger) error) error {
	// Notify and not Ignore: what is ignored here would be ignored in every process started here.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log := jsonlog.New(to, slog.LevelInfo)
	defer log.Flush(flushTimeout)
	return run(log.Logger)
}

// Lean trades speed that nobody needs here for memory. Beyond memoryLimit, in bytes, the collector works harder.
func Lean(memoryLimit int64) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memoryLimit)
	// What the start took, and nothing takes again.
	time.AfterFunc(startTime, debug.FreeOSMemory)
}

// AddDirs adds the flags for the folders that all programs of a pod share.
func AddDirs(cmd *cobra.Command, dirs *planfile.Dirs) {
	flags := cmd.Flags()
	flags.StringVar(&dirs.Plan, "plan-dir", plan.PlanDir, "folder where the plan is mounted")
	flags.StringVar(&dirs.Run, "run-dir", plan.RunDir, "folder that lives as long as the pod")
	flags.StringVar(&dirs.Config, "config-dir", plan.ConfigDir, "folder below which configuration files are written")
	flags.StringVar(&dirs.PodName, "pod-name", os.Getenv("POD_NAME"),
		"name of the pod, for plans that ask for it (default: environment variable POD_NAME)")
	flags.StringVar(&dirs.HostIP, "host-ip", os.Getenv(plan.HostIPVariable),
		"address of the pod's node, for plans that ask for it (default: environment variable "+plan.HostIPVariable+")")
	flags.StringVar(&dirs.Pod, "pod-dir", plan.PodDir,
		"folder with what is true of the pod's node, for plans that ask for it")
	flags.StringVar(&dirs.Secrets, "secrets-dir", plan.SecretsDir, "folder with one folder per credential")
	flags.StringVar(&dirs.Certificates, "certificates-dir", plan.CertificatesDir,
		"folder with the middleware's tls.crt, tls.key and ca.crt")
}

// AnyAddress is where a server listens on all addresses of the pod.
func AnyAddress(port int) string { return fmt.Sprintf(":%d", port) }
