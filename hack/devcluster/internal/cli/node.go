// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/zeroinfra/hack/devcluster/internal/lifecycle"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Cut, heal, stop or start a node, or restart its kubelet",
	}
	cmd.AddCommand(
		a.nodeVerb("cut", "Pull the node's network cable; its pods keep running, alone", a.manager,
			func(_ context.Context, m *lifecycle.Manager, name string) error { return m.Cut(name) }),
		a.nodeVerb("heal", "Put the node's network cable back", a.manager,
			func(_ context.Context, m *lifecycle.Manager, name string) error { return m.Heal(name) }),
		a.nodeVerb("stop", "Switch the node off at once, as a power cut does; its disk stays", a.manager,
			func(ctx context.Context, m *lifecycle.Manager, name string) error { return m.Stop(ctx, name) }),
		a.nodeVerb("start", "Switch the node on and wait until it is ready", a.buildingManager,
			func(ctx context.Context, m *lifecycle.Manager, name string) error { return m.Start(ctx, name) }),
		a.nodeVerb("restart-kubelet", "Restart the node's kubelet and wait until the node is ready; its pods keep running",
			a.buildingManager,
			func(ctx context.Context, m *lifecycle.Manager, name string) error { return m.RestartKubelet(ctx, name) }),
	)
	return cmd
}

func (a *app) nodeVerb(
	verb, short string, manager func() (*lifecycle.Manager, error),
	do func(context.Context, *lifecycle.Manager, string) error,
) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := manager()
			if err != nil {
				return err
			}
			return do(cmd.Context(), m, args[0])
		},
	}
}

func (a *app) loadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE.tar…",
		Short: "Bring image archives (Docker or OCI) to all nodes that are switched on",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.manager()
			if err != nil {
				return err
			}
			return m.Load(cmd.Context(), args)
		},
	}
}

func (a *app) logsCommand() *cobra.Command {
	var o lifecycle.LogOptions
	cmd := &cobra.Command{
		Use:   "logs [COMPONENT|NODE/COMPONENT]",
		Short: "Print a program's log, or the list of logs",
		Example: "  devcluster logs kube-apiserver\n" +
			"  devcluster logs n1/kubelet -f",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "keep printing what is added")
	cmd.Flags().IntVar(&o.Lines, "tail", 200, "number of lines to begin with, -1 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := a.manager()
		if err != nil {
			return err
		}
		if len(args) == 0 {
			names, err := m.Logs()
			for _, name := range names {
				fmt.Println(name)
			}
			return err
		}
		return m.Log(cmd.Context(), args[0], o)
	}
	return cmd
}

func (a *app) execCommand() *cobra.Command {
	var on string
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command of the host inside the cluster's network",
		Long: "exec runs a command of the host inside the cluster's network: pod addresses, Services, node ports\n" +
			"and the cluster's DNS names work there. KUBECONFIG and PATH are set for kubectl.",
		Example: "  devcluster exec -- redis-cli -h redis.default ping",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&on, "on", "cp", "machine whose network to use: cp or a node")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		m, err := a.manager()
		if err != nil {
			return err
		}
		var bin string
		if b, err := a.builder(); err == nil {
			bin, _ = b.Folder(context.Background())
		}
		return m.Exec(on, bin, args)
	}
	return cmd
}
