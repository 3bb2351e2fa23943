// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// kafkaCommand is what is run beside a Kafka. Its own tools start a Java machine each time, which takes seconds.
func kafkaCommand() *cobra.Command {
	var dirs planfile.Dirs
	var address, username, credential string
	var overTLS bool
	var patience time.Duration
	probe := &cobra.Command{
		Use:   "probe",
		Short: "Say who the active controller is, and which brokers are alive, as lines name:value",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program.Lean(memoryLimit)
			options := kafka.Options{Address: address, Username: username, Password: func() (string, error) {
				if username == "" {
					return "", nil
				}
				return dirs.Secret(*password(credential))
			}}
			if overTLS {
				options.CAFile = filepath.Join(dirs.Certificates, plan.CAFile)
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
				fmt.Errorf("kafka did not answer within %s", patience))
			defer cancel()
			return probeKafka(ctx, kafka.New(options))
		},
	}
	program.AddDirs(probe, &dirs)
	flags := probe.Flags()
	flags.StringVar(&address, "address", "127.0.0.1:9092", "host and port of a broker's or a controller's listener")
	flags.StringVar(&username, "username", "", "who logs in by SCRAM-SHA-512; nobody when empty")
	flags.StringVar(&credential, "credential", "admin", "credential with the password")
	flags.BoolVar(&overTLS, "tls", false, "whether the listener speaks TLS")
	flags.DurationVar(&patience, "patience", 5*time.Second, "after which it counts as one that does not answer")
	cmd := &cobra.Command{Use: "kafka", Short: "Look after a Kafka"}
	cmd.AddCommand(probe)
	return cmd
}

func probeKafka(ctx context.Context, asked driver.Querier) error {
	table, err := asked.Query(ctx, driver.Statement{Text: kafka.Status, Access: driver.ReadOnly})
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
