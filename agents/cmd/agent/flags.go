// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// addDirs adds the flags for the folders that run and status share.
func addDirs(cmd *cobra.Command, dirs *planfile.Dirs) {
	flags := cmd.Flags()
	flags.StringVar(&dirs.Plan, "plan-dir", plan.PlanDir, "folder where the plan is mounted")
	flags.StringVar(&dirs.Run, "run-dir", plan.RunDir, "folder that lives as long as the pod")
	flags.StringVar(&dirs.Config, "config-dir", plan.ConfigDir, "folder below which configuration files are written")
	flags.StringVar(&dirs.PodName, "pod-name", os.Getenv("POD_NAME"), "name of the pod, for plans that ask for it (default: environment variable POD_NAME)")
	flags.StringVar(&dirs.Secrets, "secrets-dir", plan.SecretsDir, "folder with one folder per credential")
	flags.StringVar(&dirs.Certificates, "certificates-dir", plan.CertificatesDir, "folder with the middleware's tls.crt, tls.key and ca.crt")
}

func defaultAddress(port int) string { return fmt.Sprintf(":%d", port) }
