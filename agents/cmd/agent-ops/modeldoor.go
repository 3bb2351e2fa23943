// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/modeldoor"
	"github.com/zeroinfra/agents/internal/modelserver"
	"github.com/zeroinfra/agents/internal/program"
)

// doorMemoryLimit is where the collector of a door works harder: it keeps bodies of requests.
const doorMemoryLimit = 64 << 20

// doorOptions are the flags of model door.
type doorOptions struct {
	modeldoor.Options
	listen, state string
	settle, drain time.Duration
}

func modelDoor() *cobra.Command {
	var o doorOptions
	cmd := &cobra.Command{
		Use:   "door",
		Short: "Pass requests on to servers, hold them while there are none, and say whether servers are needed",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return program.Logged(os.Stdout, func(log *slog.Logger) error {
				o.Log = log
				return o.serve()
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Servers, "servers", "", "host and port that lead to the servers that are ready")
	flags.StringVar(&o.listen, "listen", ":8080", "address that requests are taken at")
	flags.StringVar(&o.state, "state", ":8081", "address of /demand and /metrics")
	flags.DurationVar(&o.After, "after", 10*time.Minute, "how long no request has to come until servers are not needed")
	flags.IntVar(&o.MaxWaiting, "max-waiting", 100, "how many requests may wait for a server")
	flags.DurationVar(&o.MaxWait, "max-wait", 5*time.Minute, "how long a request may wait for a server")
	flags.DurationVar(&o.settle, "settle", modelserver.Settle,
		"how long the door goes on at least when it is stopped, until clients have learned of it")
	flags.DurationVar(&o.drain, "drain", 30*time.Second, "how long requests may take after that")
	_ = cmd.MarkFlagRequired("servers")
	return cmd
}

// serve serves until SIGTERM or SIGINT, and then as long as there are requests.
func (o *doorOptions) serve() error {
	program.Lean(doorMemoryLimit)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var on modeldoor.Listeners
	for _, l := range []struct {
		address  string
		listener *net.Listener
	}{{o.listen, &on.Requests}, {o.state, &on.State}} {
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return err
		}
		*l.listener = listener
	}
	return modeldoor.New(o.Options).Serve(ctx, on, o.settle, o.drain)
}
