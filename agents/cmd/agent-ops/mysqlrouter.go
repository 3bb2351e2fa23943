// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/mysql/router"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// mysqlRouterCommand is what a MySQL Router is started by.
func mysqlRouterCommand() *cobra.Command {
	r := &router.Router{}
	start := &cobra.Command{Use: "start", Short: "Write what a MySQL Router reads, and become it", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for i, host := range r.Members {
				r.Members[i] = net.JoinHostPort(host, "3306")
			}
			return until(r.Start)
		}}
	flags := start.Flags()
	flags.StringVar(&r.Program, "program", "mysqlrouter", "the Router")
	flags.StringVar(&r.KeyringProgram, "keyring-program", "mysqlrouter_keyring", "the program that writes its passwords")
	flags.StringVar(&r.PasswordProgram, "password-program", "mysqlrouter_passwd",
		"the program that writes passwords of its REST API")
	flags.StringVar(&r.Parameters, "parameters", filepath.Join(plan.ConfigDir, "router.json"),
		"its parameters, beside which its files are written")
	flags.StringVar(&r.Run, "run", plan.RunDir, "folder that the containers of the pod share")
	flags.StringVar(&r.Secrets, "secrets", plan.SecretsDir, "folder with a folder for each credential")
	flags.StringVar(&r.Certificates, "certificates", plan.CertificatesDir,
		"folder with its certificate, where there is TLS")
	flags.StringVar(&r.CAFile, "ca", "", "file that the certificates of the members lead to; empty without TLS")
	flags.StringSliceVar(&r.Members, "members", nil, "hosts of all members that there may be")
	cmd := &cobra.Command{Use: "mysqlrouter", Short: "Start a MySQL Router"}
	cmd.AddCommand(start)
	return cmd
}
