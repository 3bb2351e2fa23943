// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// APIServer is the process of the cluster's API server.
func APIServer(t *testing.T) (pid int) {
	t.Helper()
	folder := filepath.Dir(DevCluster(t, "kubeconfig"))
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	const script = `for p in /proc/[0-9]*; do
  read -r name <"$p/comm" && [ "$name" = kube-apiserver ] && grep -q "$1/" "$p/mountinfo" && echo "${p#/proc/}"
done 2>/dev/null; true`
	found := strings.Fields(DevCluster(t, "exec", "--", "sh", "-c", script, "find", folder))
	if len(found) != 1 {
		t.Fatalf("the API servers of %s are %v", folder, found)
	}
	pid, err := strconv.Atoi(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// ExternalClient is a machine of the cluster's network that is no node: that of the control plane. Clients reach
// Services and pods from there by the cluster's names, whether the API server answers or not.
type ExternalClient struct {
	network  netns.NsHandle
	Resolver *net.Resolver
}

// machine is the one outside; made once, for as long as tests run.
var machine struct {
	sync.Once
	*ExternalClient
}

// NewExternalClient returns the client in the network of the control plane, which all tests share.
func (s *Namespace) NewExternalClient() *ExternalClient {
	s.Helper()
	machine.Do(func() {
		network, err := netns.GetFromPid(APIServer(s.T))
		if err != nil {
			s.Fatalf("cannot find the network of the API server: %v", err)
		}
		dns := &corev1.Service{}
		if err := Cluster.Client.Get(s.Ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, dns); err != nil {
			s.Fatal(err)
		}
		o := &ExternalClient{network: network}
		o.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, protocol, _ string) (net.Conn, error) {
			return o.Connect(ctx, protocol, net.JoinHostPort(dns.Spec.ClusterIP, "53"))
		}}
		machine.ExternalClient = o
	})
	if machine.ExternalClient == nil {
		s.Fatal("there is no way to the cluster's network")
	}
	return machine.ExternalClient
}

// Target is a server that a client reaches from outside, and who the client is.
type Target struct {
	*ExternalClient
	Account
	address string
}

// Dial reaches host and port by a name of the cluster.
func (o *ExternalClient) Dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ips, err := o.Resolver.LookupNetIP(ctx, "ip4", host+".cluster.local.")
	if err != nil {
		return nil, err
	}
	return o.Connect(ctx, protocol, net.JoinHostPort(ips[0].String(), port))
}

// Connect reaches an address.
func (o *ExternalClient) Connect(ctx context.Context, protocol, address string) (net.Conn, error) {
	var conn net.Conn
	err := o.inside(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, protocol, address)
		return err
	})
	if err != nil && conn != nil {
		_ = conn.Close()
	}
	return conn, err
}

// Listen listens on the loopback device that the API server has.
func (o *ExternalClient) Listen() (net.Listener, error) {
	var l net.Listener
	err := o.inside(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil && l != nil {
		_ = l.Close()
	}
	return l, err
}

// inside makes a socket in the cluster's network. It stays in the network that it was made in.
func (o *ExternalClient) inside(open func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := netns.Set(o.network); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot enter the cluster's network: %w", err)
	}
	err = open()
	// A thread that cannot go home stays locked and ends with its goroutine.
	if back := netns.Set(home); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}
