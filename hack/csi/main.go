// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command csi-driver is the storage of development clusters: volumes are files
// on a node's disk, shown as disks by loop devices. Sizes are real, volumes grow
// in use, and snapshots can be taken and restored on any node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/driver"
	"github.com/zeroinfra/hack/csi/internal/router"
	"github.com/zeroinfra/hack/csi/internal/transport"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// options are the flags of both parts.
type options struct {
	socket, credentials string
	// Of the node part.
	node, root, listen, plugins string
	// Of the controller part.
	nodes string
}

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say which part to run: controller or node")
	}
	var o options
	flags := flag.NewFlagSet("csi-driver "+args[0], flag.ContinueOnError)
	flags.StringVar(&o.socket, "socket", "", "socket on which calls come")
	flags.StringVar(&o.credentials, "credentials", "", "folder with ca.crt, csi.crt and csi.key")
	parts := map[string]func(context.Context, options) error{"controller": runController, "node": runNode}
	switch args[0] {
	case "controller":
		flags.StringVar(&o.nodes, "nodes", "", "JSON file with the nodes' addresses by name")
	case "node":
		flags.StringVar(&o.node, "node", "", "the node's name")
		flags.StringVar(&o.root, "root", "", "folder that keeps volumes and snapshots")
		flags.StringVar(&o.listen, "listen", "", "address for the controller and other nodes")
		flags.StringVar(&o.plugins, "registration", "", "folder in which the kubelet looks for drivers")
	default:
		return fmt.Errorf("there is no part %q: choose controller or node", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var missing error
	flags.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" {
			missing = errors.Join(missing, fmt.Errorf("give --%s: %s", f.Name, f.Usage))
		}
	})
	if missing != nil {
		return missing
	}
	return parts[args[0]](ctx, o)
}

func runController(ctx context.Context, o options) error {
	credentials, err := transport.LoadCredentials(o.credentials)
	if err != nil {
		return err
	}
	l, err := transport.ListenUnix(o.socket)
	if err != nil {
		return err
	}
	nodes := router.NewNodes(o.nodes, credentials)
	server := transport.Server()
	csi.RegisterIdentityServer(server, driver.Identity{})
	csi.RegisterControllerServer(server, router.New(nodes))
	err = transport.Serve(ctx, server, l)
	return errors.Join(err, nodes.Close())
}

func runNode(ctx context.Context, o options) error {
	credentials, err := transport.LoadCredentials(o.credentials)
	if err != nil {
		return err
	}
	d, err := driver.New(o.node, o.root, driver.FetchWith(transport.Client(credentials)))
	if err != nil {
		return err
	}
	peers, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("cannot listen for the controller: %w", err)
	}
	calls, err := transport.ListenUnix(o.socket)
	if err != nil {
		return err
	}
	// Last: the kubelet calls the driver as soon as it sees this socket.
	kubelet, err := transport.ListenUnix(filepath.Join(o.plugins, driver.Name+"-reg.sock"))
	if err != nil {
		return err
	}
	remote, local, register := transport.Server(), transport.Server(), transport.Server()
	csi.RegisterControllerServer(remote, d)
	csi.RegisterIdentityServer(local, driver.Identity{})
	csi.RegisterNodeServer(local, d)
	registration.RegisterRegistrationServer(register, driver.Registration{Socket: o.socket})
	return together(ctx,
		func(ctx context.Context) error { return transport.ServeTLS(ctx, peers, credentials, remote, d.Files()) },
		func(ctx context.Context) error { return transport.Serve(ctx, local, calls) },
		func(ctx context.Context) error { return transport.Serve(ctx, register, kubelet) },
	)
}

// together runs functions until one fails or the context ends, and waits for
// all.
func together(ctx context.Context, functions ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(functions))
	var wg sync.WaitGroup
	for i, f := range functions {
		wg.Go(func() {
			defer cancel()
			errs[i] = f(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
