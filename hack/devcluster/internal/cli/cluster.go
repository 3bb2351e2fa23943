// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/zeroinfra/hack/devcluster/internal/addon"
	"github.com/zeroinfra/hack/devcluster/internal/api"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/host"
	"github.com/zeroinfra/hack/devcluster/internal/lifecycle"
)

func (a *app) upCommand() *cobra.Command {
	want := cluster.Defaults()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make the cluster run; what runs already is not touched",
		Long: "up makes the cluster run, whatever state it is in: it installs missing Debian packages, builds\n" +
			"what is not in the cache, starts what does not run, and waits until everything is ready.\n" +
			"Without flags an existing cluster keeps its settings.",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&want.Nodes, "nodes", want.Nodes, "number of nodes; a later up can add nodes, not take them away")
	flags.IntVar(&want.APIPort, "api-port", want.APIPort, "port on 127.0.0.1 that leads to the API server")
	flags.DurationVar(&want.GracePeriod, "node-monitor-grace-period", want.GracePeriod,
		"how long a silent node stays Ready")
	flags.DurationVar(&want.StatusPeriod, "node-status-period", want.StatusPeriod,
		"how often a node reports that it lives, in whole seconds")
	flags.StringSliceVar(&want.Addons, "addon", nil, "optional add-on that the cluster gets and keeps: "+
		strings.Join(addon.Names(), ", "))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := host.Check(a.state); err != nil {
			return err
		}
		m, err := a.buildingManager()
		if err != nil {
			return err
		}
		s, err := m.Settings()
		if err != nil {
			return err
		}
		for name, take := range map[string]func(){
			"nodes":                     func() { s.Nodes = want.Nodes },
			"api-port":                  func() { s.APIPort = want.APIPort },
			"node-monitor-grace-period": func() { s.GracePeriod = want.GracePeriod },
			"addon":                     func() { s.Addons = addon.Join(s.Addons, want.Addons...) },
			"node-status-period":        func() { s.StatusPeriod = want.StatusPeriod.Truncate(time.Second) },
		} {
			if flags.Changed(name) {
				take()
			}
		}
		if err := errors.Join(s.Validate(), checkAddons(s.Addons)); err != nil {
			return err
		}
		if err := a.installDeps(cmd); err != nil {
			return err
		}
		if err := host.RaiseLimits(a.say); err != nil {
			return err
		}
		if err := m.Up(cmd.Context(), s); err != nil {
			return err
		}
		fmt.Printf("export KUBECONFIG=%s\n", m.Cluster.Kubeconfig())
		return nil
	}
	return cmd
}

// checkAddons says which names are none of an add-on.
func checkAddons(names []string) error {
	var errs []error
	for _, name := range names {
		_, err := addon.FindOptional(name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (a *app) addonCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "addon NAME…",
		Short: "Give the running cluster an optional add-on, which it keeps: " + strings.Join(addon.Names(), ", "),
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAddons(args); err != nil {
				return err
			}
			m, err := a.buildingManager()
			if err != nil {
				return err
			}
			return m.Addons(cmd.Context(), args)
		},
	}
}

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the cluster and remove everything of it but the cache of programs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := a.manager()
			if err != nil {
				return err
			}
			return m.Down(cmd.Context())
		},
	}
}

func (a *app) statusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, programs, add-ons and memory; exit code 1 when something is wrong",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if output != "text" && output != "json" {
			return fmt.Errorf("cannot print status as %q: choose text or json with --output", output)
		}
		m, err := a.manager()
		if err != nil {
			return err
		}
		st, err := m.Status(cmd.Context())
		if err != nil {
			return err
		}
		if output == "json" {
			encoder := json.NewEncoder(os.Stdout)
			encoder.SetIndent("", "  ")
			err = encoder.Encode(st)
		} else {
			err = printStatus(st)
		}
		if err != nil {
			return err
		}
		if !st.Healthy {
			return exitError(1)
		}
		return nil
	}
	return cmd
}

func printStatus(st lifecycle.Status) error {
	fmt.Printf("cluster %s: %s, API %s, memory %s\n", st.Name, health[st.Healthy], st.API.URL, mebibytes(st.MemoryBytes))
	fmt.Printf("state %s\nkubeconfig %s\n\n", st.State, st.Kubeconfig)
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "MACHINE\tPOWER\tCABLE\tREADY\tIP\tMEMORY\tPROGRAMS (PID)")
	for _, m := range st.Machines {
		programs := make([]string, len(m.Programs))
		for i, p := range m.Programs {
			programs[i] = p.Name + " " + pid(p)
		}
		ready := readiness(api.State{Ready: m.Ready, Reason: m.Reason})
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, power[m.On], cable[m.Connected],
			ready, m.IP, mebibytes(m.MemoryBytes), strings.Join(programs, ", "))
	}
	fmt.Fprintf(w, "host\t\t\t\t127.0.0.1\t\tforwarder %s\n", pid(st.Forwarder))
	fmt.Fprintln(w, "\nADD-ON\tREADY")
	for _, ad := range st.Addons {
		fmt.Fprintf(w, "%s\t%s\n", ad.Name, readiness(ad.State))
	}
	return w.Flush()
}

// Words for what is or is not so.
var (
	health = map[bool]string{true: "healthy", false: "NOT healthy"}
	power  = map[bool]string{true: "on", false: "off"}
	cable  = map[bool]string{true: "plugged", false: "cut"}
)

// readiness says "yes", or "no" and why.
func readiness(s api.State) string {
	if s.Ready {
		return "yes"
	}
	return strings.TrimSpace("no " + short(s.Reason))
}

// short cuts a reason to the width of a column; JSON holds all of it.
func short(reason string) string {
	const width = 48
	if runes := []rune(reason); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return reason
}

func pid(p lifecycle.ProgramStatus) string {
	if !p.Running {
		return "DEAD"
	}
	return fmt.Sprint(p.PID)
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func (a *app) kubeconfigCommand() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print its content instead")
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := a.existing()
		if err != nil {
			return err
		}
		if !raw {
			fmt.Println(c.Kubeconfig())
			return nil
		}
		data, err := os.ReadFile(c.Kubeconfig())
		if err != nil {
			return fmt.Errorf("cannot read kubeconfig of cluster %q: %w", c.Name, err)
		}
		_, err = os.Stdout.Write(data)
		return err
	}
	return cmd
}

func (a *app) auditLogCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit-log",
		Short: "Print the path of the API server's audit log: one JSON line for every write",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.existing()
			if err != nil {
				return err
			}
			fmt.Println(c.AuditLog())
			return nil
		},
	}
}

// existing returns the cluster, or an error that says how to make it.
func (a *app) existing() (cluster.Cluster, error) {
	c, err := a.cluster()
	if err != nil {
		return cluster.Cluster{}, err
	}
	_, err = c.Load()
	return c, err
}
