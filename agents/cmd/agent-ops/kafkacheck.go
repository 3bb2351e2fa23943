// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// kafkaCheckCommand is the probe of a pod whose Kafka is elsewhere.
func kafkaCheckCommand() *cobra.Command {
	var dirs planfile.Dirs
	var account, key, ca, bootstrap, mechanism, security string
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether a Kafka that is not in the pod answers, and takes the account",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program.Lean(memoryLimit)
			external := kafka.External{Account: password(account), Key: password(key), Secret: dirs.Secret,
				Settings: map[string]string{plan.SettingBootstrap: bootstrap, plan.SettingMechanism: mechanism,
					plan.SettingSecurity: security}}
			if ca != "" {
				external.CA = password(ca)
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
				fmt.Errorf("%s did not answer within %s", bootstrap, patience))
			defer cancel()
			err := kafka.NewExternal(external).Check(ctx)
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		},
	}
	program.AddDirs(cmd, &dirs)
	flags := cmd.Flags()
	flags.StringVar(&bootstrap, "bootstrap", "", "hosts and ports of brokers, separated by commas")
	flags.StringVar(&mechanism, "mechanism", "SCRAM-SHA-512",
		"mechanism of the login: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN")
	flags.StringVar(&security, "security", "SASL_SSL", "whether the listener speaks TLS: SASL_SSL or SASL_PLAINTEXT")
	flags.StringVar(&account, "account", "account", "credential that has the name of the account")
	flags.StringVar(&key, "key", "account-password", "credential that has its password")
	flags.StringVar(&ca, "ca", "", "credential that has the authority of the brokers' certificates; those of the image "+
		"when empty")
	flags.DurationVar(&patience, "patience", 5*time.Second, "after which it counts as one that does not answer")
	return cmd
}
