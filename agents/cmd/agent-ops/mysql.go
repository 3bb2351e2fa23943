// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// mysqlCommand is what is run beside a MySQL.
func mysqlCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "mysql",
		Short: "Start a MySQL, have it take over settings and passwords, and carry what is in it elsewhere"}
	cmd.AddCommand(mysqlStart(), mysqlBeside(), mysqlReload(), mysqlCheck(), mysqlDump(), mysqlLoad(), mysqlMembers(),
		mysqlHandOver(), mysqlForceQuorum())
	return cmd
}

// until is a context that a signal ends.
func until(do func(context.Context) error) error {
	program.Lean(memoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return do(ctx)
}

// mysqlServer adds a command for the server of the pod.
func mysqlServer(use, short string, do func(context.Context, *server.Server) error) *cobra.Command {
	s := &server.Server{}
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return until(func(ctx context.Context) error { return do(ctx, s) })
	}}
	flags := cmd.Flags()
	flags.StringVar(&s.Program, "program", "mysqld", "the server")
	flags.StringVar(&s.Config, "config", filepath.Join(plan.ConfigDir, "my.cnf"), "its option file")
	flags.StringVar(&s.Dir, "dir", "/data", "folder of the volume")
	flags.StringVar(&s.Run, "run", plan.RunDir, "folder of the socket")
	flags.StringVar(&s.Secrets, "secrets", plan.SecretsDir, "folder with a folder for each credential")
	return cmd
}

func mysqlStart() *cobra.Command {
	slow, g := "", server.Group{}
	host, ca, archive := "", "", ""
	cmd := mysqlServer("start", "Make the data where there is none, and become the server",
		func(ctx context.Context, s *server.Server) error {
			s.SlowLog, s.Archive = slow, archive
			if g.Name != "" {
				g.Address, g.Own, g.CAFile = net.JoinHostPort(host, "3306"), net.JoinHostPort(host, groupPort), ca
				for i := range g.Peers {
					g.Peers[i] = net.JoinHostPort(g.Peers[i], groupPort)
				}
				s.Group = &g
			}
			return s.Start(ctx)
		})
	cmd.Flags().StringVar(&g.Name, "group", "", "name of the group that it is to be a member of; empty for a server alone")
	cmd.Flags().StringVar(&host, "host", "", "name by which other members find it")
	cmd.Flags().StringSliceVar(&g.Peers, "peers", nil, "names of all pods that there may be")
	cmd.Flags().StringVar(&ca, "ca", "", "file that the certificates of the members lead to; empty without TLS")
	cmd.Flags().StringVar(&archive, "archive", "", "file that says where its binary logs are archived; empty for nowhere")
	cmd.Flags().StringVar(&slow, "slow-log", "/tmp/slow.log",
		"file of the slow query log, which is forwarded to standard output; empty for none")
	return cmd
}

// groupPort is that of the protocol of Group Replication.
const groupPort = "33061"

// mysqlBeside is what is done beside a server for as long as the process lives that started this one.
func mysqlBeside() *cobra.Command {
	slow, archive := "", ""
	cmd := mysqlServer("beside", "Forward the slow query log of a server, and look at its tables, until the process "+
		"ends that started this one",
		func(ctx context.Context, s *server.Server) error {
			ctx, cancel := server.WithParent(ctx)
			defer cancel()
			var all sync.WaitGroup
			var forwarded, watched, settled, kept error
			all.Go(func() { settled = s.Settle(ctx) })
			if slow != "" {
				all.Go(func() { forwarded = server.Forward(ctx, slow, os.Stdout) })
			}
			all.Go(func() { watched = s.Watch(ctx) })
			if archive != "" {
				all.Go(func() { kept = keepLogs(ctx, s, archive) })
			}
			all.Wait()
			return errors.Join(forwarded, watched, settled, kept)
		})
	cmd.Flags().StringVar(&slow, "slow-log", "",
		"file of the slow query log, which is written to standard output; empty for none")
	cmd.Flags().StringVar(&archive, "archive", "", "file that says where its binary logs are archived; empty for nowhere")
	return cmd
}

func mysqlReload() *cobra.Command {
	var patience time.Duration
	cmd := mysqlServer("reload", "Have the server take over its option file and passwords",
		func(ctx context.Context, s *server.Server) error {
			ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took more than %s", patience))
			defer cancel()
			return s.Reload(ctx)
		})
	cmd.Flags().DurationVar(&patience, "patience", 25*time.Second, "after which it gives up")
	return cmd
}

// exitDamaged is the exit code of a check that found the data to be bad.
const exitDamaged = 65

func mysqlCheck() *cobra.Command {
	return mysqlServer("check", "Read all tables with their indexes", func(ctx context.Context, s *server.Server) error {
		d, err := s.Driver()
		if err != nil {
			return err
		}
		tables, err := d.Check(ctx)
		if damaged := (*mysql.Damaged)(nil); errors.As(err, &damaged) {
			fmt.Fprintln(os.Stderr, damaged)
			os.Exit(exitDamaged)
		}
		if err == nil {
			fmt.Printf("tables=%d\n", tables)
		}
		return err
	})
}

// mysqlDump is told the password by the variable that the clients of MySQL read, and by MYSQL_CA the file that the
// certificate of the server must lead to, which is empty without TLS.
func mysqlDump() *cobra.Command {
	var source server.Source
	facts := ""
	cmd := &cobra.Command{Use: "dump", Short: "Write what is in a server, as SQL", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return until(func(ctx context.Context) error {
				password := os.Getenv("MYSQL_PWD")
				source.CAFile = os.Getenv("MYSQL_CA")
				source.Password = func() (string, error) { return password, nil }
				is, err := source.Dump(ctx, os.Stdout)
				if err != nil {
					return err
				}
				return os.WriteFile(facts, []byte(is.Lines()), factsMode)
			})
		}}
	flags := cmd.Flags()
	flags.StringVar(&source.Address, "address", "", "host and port of the server")
	flags.StringVar(&source.Username, "username", "root", "who logs in; the password is in the variable MYSQL_PWD")
	flags.StringVar(&source.Program, "program", "mysqldump", "the program that writes databases")
	flags.StringVar(&facts, "facts", "/tmp/facts", "file that what is told of it is written to")
	return cmd
}

func mysqlLoad() *cobra.Command {
	var target server.Target
	var replay replayOptions
	cmd := &cobra.Command{Use: "load", Short: "Make the data of a server with what a dump has that is read from " +
		"standard input", Args: cobra.NoArgs,
		Long: "It goes on by the logs of an archive to the point in time of " + mover.TargetEnv + ", where there is one.",
		RunE: func(*cobra.Command, []string) error {
			return until(func(ctx context.Context) error {
				// The server resolves paths from the folder of its data.
				dir, err := filepath.Abs(target.Dir)
				if err != nil {
					return err
				}
				target.Dir = dir
				return replay.load(ctx, &target)
			})
		}}
	flags := cmd.Flags()
	flags.StringVar(&target.Program, "program", "mysqld", "the server")
	flags.StringVar(&target.Client, "client", "mysql", "its client")
	flags.StringVar(&target.Dir, "dir", ".", "folder below which the data is made")
	flags.StringVar(&target.Run, "run", "/tmp", "folder of the socket")
	flags.StringVar(&replay.program, "binlog-program", "mysqlbinlog", "what reads binary logs")
	flags.StringVar(&replay.secrets, "secrets", plan.SecretsDir, "folder with a folder for each credential")
	return cmd
}
