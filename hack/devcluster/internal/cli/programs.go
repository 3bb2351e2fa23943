// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/zeroinfra/hack/devcluster/internal/addon"
	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/host"
)

func (a *app) buildCommand() *cobra.Command {
	var server string
	var addons []string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the programs that the cache lacks, and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkAddons(addons); err != nil {
				return err
			}
			b, err := a.builder()
			if err != nil {
				return err
			}
			var dir string
			if server == string(build.OwnServer) {
				dir, _, err = b.Ensure(cmd.Context(), addon.Join(addons)...)
			} else {
				dir, err = b.EnsureServer(cmd.Context(), build.APIServer(server))
			}
			if err != nil {
				return err
			}
			fmt.Println(dir)
			return nil
		},
	}
	serverFlag(cmd, &server)
	cmd.Flags().StringSliceVar(&addons, "addon", nil, "optional add-on to build, too: "+strings.Join(addon.Names(), ", "))
	cmd.MarkFlagsMutuallyExclusive("addon", "api-server")
	return cmd
}

// serverFlag has a command speak of another API server than the cluster's own.
func serverFlag(cmd *cobra.Command, server *string) {
	cmd.Flags().StringVar(server, "api-server", "",
		fmt.Sprintf("%s (%s) or %s (%s), with etcd and no other program, for tests that have no nodes",
			build.OldestServer, build.OldestKubernetes, build.NewestServer, build.NewestKubernetes))
}

func (a *app) binCommand() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use:   "bin",
		Short: "Print the folder of kubectl, kube-apiserver, etcd and the others",
		Long: "bin prints the folder of kubectl, kube-apiserver, etcd and the other programs; it also serves\n" +
			"as KUBEBUILDER_ASSETS of controller-runtime's envtest.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.builder()
			if err != nil {
				return err
			}
			dir, err := b.FolderServer(cmd.Context(), build.APIServer(server))
			if err != nil {
				return err
			}
			fmt.Println(dir)
			return nil
		},
	}
	serverFlag(cmd, &server)
	return cmd
}

func (a *app) depsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "deps",
		Short: "Install the Debian packages that a cluster needs and this machine lacks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(host.Missing()) == 0 {
				a.say("all Debian packages are there")
			}
			return a.installDeps(cmd)
		},
	}
}

// installDeps installs what is missing and says so before.
func (a *app) installDeps(cmd *cobra.Command) error {
	missing := host.Missing()
	if len(missing) == 0 {
		return nil
	}
	a.say("installing Debian packages: %s", strings.Join(missing, " "))
	return host.Install(cmd.Context(), missing, os.Stderr)
}
