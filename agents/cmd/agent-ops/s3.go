// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/minio"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// keysRefused is the exit code of a check that the storage answers and refuses: another one than where it does not
// answer, so that the pod's report is written anew when the one becomes the other.
const keysRefused = 2

// s3Command is what runs in pods of storages that speak S3.
func s3Command() *cobra.Command {
	cmd := &cobra.Command{Use: "s3", Short: "Look after a storage that speaks S3"}
	cmd.AddCommand(s3CheckCommand(), s3ReadCommand(), holdCommand())
	return cmd
}

func holdCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hold",
		Short: "Do nothing until SIGTERM: the process of a pod whose work is that of its agents",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program.Lean(memoryLimit)
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			<-ctx.Done()
			return nil
		},
	}
}

func s3CheckCommand() *cobra.Command {
	var dirs planfile.Dirs
	var account, key, ca string
	var patience time.Duration
	settings := map[string]*string{plan.SettingEndpoint: new(string), plan.SettingRegion: new(string),
		plan.SettingAddressing: new(string)}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the storage answers, and takes the account",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program.Lean(memoryLimit)
			external := minio.External{Settings: map[string]string{}, Account: password(account), Key: password(key),
				Secret: dirs.Secret}
			for name, value := range maps.All(settings) {
				external.Settings[name] = *value
			}
			if ca != "" {
				external.CA = password(ca)
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), patience,
				fmt.Errorf("%s did not answer within %s", external.Settings[plan.SettingEndpoint], patience))
			defer cancel()
			err := external.Check(ctx)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		},
	}
	program.AddDirs(cmd, &dirs)
	flags := cmd.Flags()
	flags.StringVar(settings[plan.SettingEndpoint], "endpoint", "", "URL of the storage")
	flags.StringVar(settings[plan.SettingRegion], "region", "", "region that requests are signed for")
	flags.StringVar(settings[plan.SettingAddressing], "addressing", "",
		"where the name of a bucket is in an address: path or virtualhost")
	flags.StringVar(&account, "account", "access-key", "credential that has the name of the account")
	flags.StringVar(&key, "key", "secret-key", "credential that has its key")
	flags.StringVar(&ca, "ca", "", "credential that has the authority of the storage's certificate; those of the image "+
		"when empty")
	flags.DurationVar(&patience, "patience", 5*time.Second, "after which the storage counts as one that does not answer")
	return cmd
}

// password is that of a credential.
func password(credential string) *plan.SecretRef {
	return &plan.SecretRef{Credential: credential, Key: "password"}
}
