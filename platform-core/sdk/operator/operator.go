// SPDX-License-Identifier: Apache-2.0

// Package operator is the bootstrap of every binary: flags, logs, the definitions
// of its kinds, cache, leader election, health, metrics and a graceful end.
//
// A main is one call:
//
//	func main() {
//		operator.Main(operator.Options{
//			Domain:      "database",
//			AddToScheme: []func(*runtime.Scheme) error{databasev1.AddToScheme},
//			Kinds:       kinds.All(),
//			CRDs:        []fs.FS{crd.FS},
//			Version:     version,
//		})
//	}
//
// The operator first brings its CustomResourceDefinitions into the cluster (see
// --install-crds), then starts. /healthz answers while the process lives; /readyz
// once the caches have what they watch, on the leader and on every other replica.
// An operator that loses its leadership exits with an error and is restarted.
//
// The cache holds, of the objects that the engine makes, only those of the
// operator's own domain. A reader that must see more uses the manager's API reader.
package operator

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/typed"
)

// Options say what an operator is made of.
type Options struct {
	// Domain that the operator serves: storage, database, message, model, common or batch.
	Domain string
	// AddToScheme registers the types of the operator's kinds.
	AddToScheme []func(*runtime.Scheme) error
	// Kinds that the operator serves, beside those of the engine.
	Kinds []typed.Registration
	// Controllers that the operator has beside those of the engine and of its typed kinds.
	Controllers []Controller
	// CRDs hold the definitions of the operator's kinds, as .yaml files. Those of the
	// core API are always there.
	CRDs []fs.FS
	// Version of the operator, for --version, logs and metrics.
	Version string
}

// Main runs the operator until it is told to stop, and ends the process: with code
// 0 after SIGINT or SIGTERM, with 1 after an error. A second signal ends it at once.
func Main(o Options) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	if err := Command(o).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Command returns the operator as a command. It runs until its context ends.
func Command(o Options) *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:           o.Domain + "-operator",
		Short:         "Runs the " + o.Domain + " operator of ZeroInfra",
		Version:       o.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			if err := run(command.Context(), o, s); err != nil {
				return fmt.Errorf("cannot run the %s operator: %w", o.Domain, err)
			}
			return nil
		},
	}
	s.bind(command.Flags(), o.Domain)
	command.AddCommand(prepareUninstall(o))
	return command
}
