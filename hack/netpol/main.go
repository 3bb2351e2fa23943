// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command network-policies enforces NetworkPolicies on one node of a development
// cluster, by rules of the packet filter for the node's pods. It writes nothing
// to the API.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/hack/netpol/internal/policy"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// settle is how long changes are gathered before the rules are written.
const settle = 50 * time.Millisecond

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	node := flag.String("node", "", "name of this node")
	root := flag.String("root", "", "folder at which the node's files are, with its nft")
	ready := flag.String("ready", "", "file to make when the first rules hold")
	check := flag.String("check", "", "only look whether this file has been made")
	flag.Parse()
	if *check != "" {
		if _, err := os.Stat(*check); err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *node, *root, *ready); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, node, root, ready string) error {
	if node == "" || root == "" || ready == "" {
		return errors.New("give --node, --root and --ready")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("cannot find the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot use the API server: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	look, changed, err := watch(factory)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("cannot read all of %s", kind)
		}
	}
	e := &enforcer{node: node, root: root, ready: ready}
	return follow(ctx, changed, func() error {
		world, err := look()
		if err != nil {
			return err
		}
		return e.enforce(ctx, world)
	})
}

// watch returns a look at the world and a channel that tells of changes.
func watch(factory informers.SharedInformerFactory) (func() (policy.World, error), <-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it has been told already
		}
	}
	tell()
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	for _, i := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
		}); err != nil {
			return nil, nil, err
		}
	}
	return func() (policy.World, error) {
		var w policy.World
		var errs [3]error
		w.Pods, errs[0] = pods.Lister().List(labels.Everything())
		w.Namespaces, errs[1] = namespaces.Lister().List(labels.Everything())
		w.Policies, errs[2] = policies.Lister().List(labels.Everything())
		return w, errors.Join(errs[:]...)
	}, changed, nil
}

// follow does something at every change, at most once in a while.
func follow(ctx context.Context, changed <-chan struct{}, do func() error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if err := do(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// enforcer writes the rules of one node.
type enforcer struct {
	node, root, ready string
	written           string // the rules that hold
}

// enforce writes the rules when they differ from those that hold.
func (e *enforcer) enforce(ctx context.Context, world policy.World) error {
	rules, err := policy.Render(world, e.node)
	if err != nil || rules == e.written {
		return err
	}
	if err := load(ctx, e.root, rules); err != nil {
		return err
	}
	e.written = rules
	log.Printf("wrote %d lines of rules", strings.Count(rules, "\n"))
	return os.WriteFile(e.ready, nil, 0o644)
}

// load gives rules to the node's own packet filter program.
func load(ctx context.Context, root, rules string) error {
	cmd := exec.CommandContext(ctx, "/usr/sbin/nft", "-f", "-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(rules)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot write the rules: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}
