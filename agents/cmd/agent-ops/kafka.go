// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// kafkaOptions are what all commands for a Kafka take.
type kafkaOptions struct {
	dirs                          planfile.Dirs
	address, username, credential string
	overTLS                       bool
	patience                      time.Duration
}

func (o *kafkaOptions) driver() *kafka.Driver {
	options := kafka.Options{Address: o.address, Username: o.username, Password: func() (string, error) {
		if o.username == "" {
			return "", nil
		}
		return o.dirs.Secret(*password(o.credential))
	}}
	if o.overTLS {
		options.CAFile = filepath.Join(o.dirs.Certificates, plan.CAFile)
		options.CertificateFile = filepath.Join(o.dirs.Certificates, plan.CertificateFile)
		options.KeyFile = filepath.Join(o.dirs.Certificates, plan.KeyFile)
	}
	return kafka.New(options)
}

// kafkaCommand is what is run beside a Kafka. Its own tools start a Java machine each time, which takes seconds.
func kafkaCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "kafka", Short: "Look after a Kafka"}
	cmd.AddCommand(kafkaProbe(), kafkaMembers(), kafkaReload(), kafkaKeystore(), kafkaCertificates(), kafkaStop(),
		zooKeeperProbe(), kafkaCheckCommand(), holdCommand())
	return cmd
}

// kafkaSub is a command that has so long.
func kafkaSub(use, short string, patience time.Duration,
	do func(context.Context, *kafkaOptions, []string) error) *cobra.Command {
	o := &kafkaOptions{}
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(_ *cobra.Command, args []string) error {
		program.Lean(memoryLimit)
		ctx, cancel := context.WithTimeoutCause(context.Background(), o.patience,
			fmt.Errorf("kafka did not answer within %s", o.patience))
		defer cancel()
		return do(ctx, o, args)
	}}
	program.AddDirs(cmd, &o.dirs)
	flags := cmd.Flags()
	flags.StringVar(&o.address, "address", "127.0.0.1:9092", "host and port of a broker's or a controller's listener")
	flags.StringVar(&o.username, "username", "", "user that logs in by SCRAM-SHA-512; no login when empty")
	flags.StringVar(&o.credential, "credential", "admin", "credential with the password")
	flags.BoolVar(&o.overTLS, "tls", false, "whether the listener speaks TLS")
	flags.DurationVar(&o.patience, "patience", patience, "after which it counts as one that does not answer")
	return cmd
}

func kafkaProbe() *cobra.Command {
	var node, jars string
	cmd := kafkaSub("probe", "Say who the active controller is, who votes, and which brokers are alive, as lines "+
		"name:value",
		5*time.Second, func(ctx context.Context, o *kafkaOptions, _ []string) error {
			table, err := o.driver().Query(ctx, driver.Statement{Text: kafka.Status + " " + node,
				Access: driver.ReadOnly})
			if err == nil && node != "" {
				addOwn(&table, node)
			}
			if err == nil && jars != "" {
				addColumn(&table, "version", versionOf(jars))
			}
			return printRows(table, err)
		})
	cmd.Flags().StringVar(&node, "node", "",
		"node.id, for the lines node, serves, votes, leads and directory: this number, whether it is a broker that is "+
			"alive, a voter, and the active controller, and the identifier of the directory that it has the metadata in")
	cmd.Flags().StringVar(&jars, "jars", "", "pattern of the jar whose name ends with the version, for the line version")
	return cmd
}

func addColumn(table *driver.Table, name, value string) {
	table.Columns = append(table.Columns, name)
	table.Rows[0] = append(table.Rows[0], &value)
}

// addOwn says which node asks, and what a status means for it.
func addOwn(table *driver.Table, node string) {
	column := func(name string) []string {
		if i := slices.Index(table.Columns, name); i >= 0 {
			return strings.Fields(*table.Rows[0][i])
		}
		return nil
	}
	addColumn(table, "node", node)
	for _, own := range []struct{ name, among string }{{"serves", "alive"}, {"votes", "voters"}, {"leads", "controller"}} {
		is := "no"
		if slices.Contains(column(own.among), node) {
			is = "yes"
		}
		addColumn(table, own.name, is)
	}
	for _, voter := range column("directories") {
		if own, directory, _ := strings.Cut(voter, ":"); own == node {
			addColumn(table, "directory", directory)
		}
	}
}

// versionOf is what the name of a jar ends with, such as 4.4.0; empty when there is none.
func versionOf(pattern string) string {
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		return ""
	}
	name := strings.TrimSuffix(filepath.Base(found[0]), ".jar")
	return name[strings.LastIndex(name, "-")+1:]
}

// printRows as lines name:value.
func printRows(table driver.Table, err error) error {
	if err != nil {
		return err
	}
	for _, row := range table.Rows {
		for i, value := range row {
			if _, err := fmt.Fprintf(os.Stdout, "%s:%s\n", table.Columns[i], *value); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// kafkaBegin is made for the node that is to form the cluster, and kafka-node looks for it.
	kafkaBegin = "kafka-begin"
	// kafkaBegun is what kafka-node has made of it: the node does not form another one, also not without its disk.
	kafkaBegun = kafkaBegin + ".done"
)

func kafkaMembers() *cobra.Command {
	var formed, begins string
	cmd := kafkaSub("members look|step SHAPE",
		"Say how far the nodes are members of the cluster, or take one step there, "+
			"as lines phase:… and reason:…", 30*time.Second, func(ctx context.Context, o *kafkaOptions, args []string) error {
			text, access := kafka.MembersPlan, driver.ReadOnly
			if args[0] == "step" {
				text, access = kafka.MembersStep, driver.ReadWrite
			}
			table, err := o.driver().Query(ctx, driver.Statement{Text: text, Arguments: args[1:], Access: access})
			if err == nil || formed == "true" || begins == "" {
				return printRows(table, err)
			}
			return begin(o.dirs, begins, access)
		})
	cmd.Args = cobra.MatchAll(cobra.ExactArgs(2), func(_ *cobra.Command, args []string) error {
		if args[0] != "look" && args[0] != "step" {
			return fmt.Errorf("%q is neither look nor step", args[0])
		}
		return nil
	})
	cmd.Flags().StringVar(&formed, "formed", "true", "whether there is a cluster already: then none is begun")
	cmd.Flags().StringVar(&begins, "begins", "", "the pod whose node forms the cluster where there is none")
	return cmd
}

// begin has the node of a pod form the cluster.
func begin(dirs planfile.Dirs, pod string, access driver.Access) error {
	phase, reason := "Working", pod+" forms the cluster"
	marked, err := hasFile(dirs.Run, kafkaBegin, kafkaBegun)
	switch {
	case dirs.PodName != pod:
		phase, reason = "Waiting", pod+" has yet to form the cluster"
	case err != nil:
		return err
	case marked:
		phase = "Waiting"
	case access == driver.ReadWrite:
		if err := os.WriteFile(filepath.Join(dirs.Run, kafkaBegin), nil, 0o600); err != nil {
			return err
		}
	}
	_, err = fmt.Printf("phase:%s\nreason:%s\n", phase, reason)
	return err
}

// hasFile says whether a folder has one of these files.
func hasFile(folder string, names ...string) (bool, error) {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, os.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

func kafkaReload() *cobra.Command {
	var file, user, itsCredential string
	cmd := kafkaSub("reload", "Have the brokers take over the settings of a file, and the password of a user",
		5*time.Minute,
		func(ctx context.Context, o *kafkaOptions, _ []string) error {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			secret, err := o.dirs.Secret(*password(itsCredential))
			if err != nil {
				return err
			}
			d := o.driver()
			if err := untilServed(ctx, d); err != nil {
				return err
			}
			if err := d.SetPassword(ctx, user, secret); err != nil {
				return err
			}
			return d.SetDynamic(ctx, kafka.Settings(string(text)))
		})
	cmd.Flags().StringVar(&file, "file", "", "file with lines name=value: the settings that all brokers have dynamically")
	cmd.Flags().StringVar(&user, "user", "admin", "user who gets a password")
	cmd.Flags().StringVar(&itsCredential, "user-credential", "admin", "credential with that password")
	return cmd
}

// untilServed waits for a broker that has just been started, and for the controllers, which take the settings.
func untilServed(ctx context.Context, d *kafka.Driver) error {
	for {
		_, err := d.Query(ctx, driver.Statement{Text: kafka.Quorum, Access: driver.ReadOnly})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func kafkaKeystore() *cobra.Command {
	var keystore string
	cmd := kafkaSub("keystore", "Write the keystore that the listeners have, where the pod has a certificate", time.Minute,
		func(_ context.Context, o *kafkaOptions, _ []string) error {
			if _, err := os.Stat(filepath.Join(o.dirs.Certificates, plan.KeyFile)); errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return writeKeystore(keystore, o.dirs.Certificates)
		})
	cmd.Flags().StringVar(&keystore, "keystore", "", "PEM file with key and certificate")
	return cmd
}

func kafkaCertificates() *cobra.Command {
	var node, keystore string
	var listeners []string
	cmd := kafkaSub("certificates", "Have the broker read the keystore of its listeners anew", 10*time.Second,
		func(ctx context.Context, o *kafkaOptions, _ []string) error {
			if err := writeKeystore(keystore, o.dirs.Certificates); err != nil {
				return err
			}
			settings := map[string]string{}
			for _, listener := range listeners {
				settings["listener.name."+listener+".ssl.keystore.location"] = keystore
			}
			return o.driver().SetOwn(ctx, node, settings)
		})
	cmd.Flags().StringVar(&node, "node", "", "node.id of the broker")
	cmd.Flags().StringVar(&keystore, "keystore", "", "PEM file with key and certificate, which is written anew")
	cmd.Flags().StringSliceVar(&listeners, "listeners", nil, "listeners in small letters")
	return cmd
}

func kafkaStop() *cobra.Command {
	var node string
	var away time.Duration
	cmd := kafkaSub("await-stop",
		"Wait until no partition would be left with too few replicas in sync without this broker, and the others "+
			"take records",
		30*time.Minute, func(ctx context.Context, o *kafkaOptions, _ []string) error {
			return o.driver().AwaitRestart(ctx, node, away)
		})
	cmd.Flags().StringVar(&node, "node", "", "node.id of the broker")
	cmd.Flags().DurationVar(&away, "away", 2*time.Minute,
		"how long it waits where more is missing than that replicas catch up, such as while another broker is down")
	return cmd
}
