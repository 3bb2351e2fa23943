// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// mysqlGroup is a command that asks the members of a group, for so long.
func mysqlGroup(use, short string, args cobra.PositionalArgs,
	do func(context.Context, *group.Group, *planfile.Dirs, []string) error) *cobra.Command {
	var dirs planfile.Dirs
	var domain string
	var overTLS bool
	var patience time.Duration
	cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(_ *cobra.Command, args []string) error {
		return until(func(ctx context.Context) error {
			ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it took more than %s", patience))
			defer cancel()
			secret, err := dirs.Secret(*password(server.GroupCredential))
			if err != nil {
				return err
			}
			g := &group.Group{Username: server.GroupUser, Password: secret,
				Address: func(pod string) string { return net.JoinHostPort(pod+"."+domain, "3306") },
				Channel: func(pod string) string { return net.JoinHostPort(pod+"."+domain, groupPort) }}
			if overTLS {
				g.CAFile = filepath.Join(dirs.Certificates, plan.CAFile)
			}
			return do(ctx, g, &dirs, args)
		})
	}}
	program.AddDirs(cmd, &dirs)
	cmd.Flags().StringVar(&domain, "domain", "", "of the pods in DNS")
	cmd.Flags().BoolVar(&overTLS, "tls", false, "whether members speak TLS")
	cmd.Flags().DurationVar(&patience, "patience", 25*time.Second, "after which it gives up")
	return cmd
}

func mysqlMembers() *cobra.Command {
	formed := ""
	args := cobra.MatchAll(cobra.ExactArgs(2), func(_ *cobra.Command, args []string) error {
		if args[0] != "look" && args[0] != "step" {
			return fmt.Errorf("%q is neither look nor step", args[0])
		}
		return nil
	})
	cmd := mysqlGroup("members look|step SHAPE", "Say how far servers are members of their group, or take one step "+
		"there, as lines phase:…, reason:…, lost:… and quarantined:…", args,
		func(ctx context.Context, g *group.Group, _ *planfile.Dirs, args []string) error {
			var shape group.Shape
			decoder := json.NewDecoder(bytes.NewReader([]byte(args[1])))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&shape); err != nil {
				return fmt.Errorf(`the shape must be JSON such as {"members":[["mysql-0"]],"leaving":[]}: %w`, err)
			}
			does := g.Look
			if args[0] == "step" {
				does = g.Step
			}
			history := group.Unformed
			if formed == "true" {
				history = group.Formed
			}
			state, err := does(ctx, shape, history)
			if err == nil {
				fmt.Printf("phase:%s\nreason:%s\nlost:%s\nquarantined:%s\n", state.Phase, state.Reason, state.Lost,
					state.Quarantined)
			}
			return err
		})
	cmd.Flags().StringVar(&formed, "formed", "true", "whether there was a group already")
	return cmd
}

func mysqlForceQuorum() *cobra.Command {
	var loss group.Loss
	cmd := mysqlGroup("force-quorum look|begin MEMBERS", "Say what is given up where members are declared lost, as a "+
		"line given-up:…, or have another one begin the group without them", cobra.ExactArgs(2),
		func(ctx context.Context, g *group.Group, _ *planfile.Dirs, args []string) error {
			var sets [][]string
			if err := json.Unmarshal([]byte(args[1]), &sets); err != nil {
				return fmt.Errorf(`the members must be JSON such as [["mysql-0"]]: %w`, err)
			}
			loss.Members = slices.Concat(sets...)
			switch args[0] {
			case "look":
				said, err := g.LookForced(ctx, loss)
				if err == nil {
					fmt.Printf("given-up:%s\n", said)
				}
				return err
			case "begin":
				return g.Force(ctx, loss)
			}
			return fmt.Errorf("%q is neither look nor begin", args[0])
		})
	cmd.Flags().StringSliceVar(&loss.Lost, "lost", nil, "the members whose data is given up")
	cmd.Flags().StringVar(&loss.From, "from", "", "the member that begins the group")
	return cmd
}

func mysqlHandOver() *cobra.Command {
	return mysqlGroup("hand-over TARGET", "Have the group elect another member as the primary, which this pod is",
		cobra.ExactArgs(1),
		func(ctx context.Context, g *group.Group, dirs *planfile.Dirs, args []string) error {
			return g.SetPrimary(ctx, dirs.PodName, args[0])
		})
}
