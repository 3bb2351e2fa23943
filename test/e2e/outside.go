// SPDX-License-Identifier: Apache-2.0

package e2e

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

// apiServer is the process of the cluster's API server.
func apiServer(t *testing.T) (pid int) {
	t.Helper()
	folder := filepath.Dir(devcluster(t, "kubeconfig"))
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	const script = `for p in /proc/[0-9]*; do
  read -r name <"$p/comm" && [ "$name" = kube-apiserver ] && grep -q "$1/" "$p/mountinfo" && echo "${p#/proc/}"
done 2>/dev/null; true`
	found := strings.Fields(devcluster(t, "exec", "--", "sh", "-c", script, "find", folder))
	if len(found) != 1 {
		t.Fatalf("the API servers of %s are %v", folder, found)
	}
	pid, err := strconv.Atoi(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// outside is a machine of the cluster's network that is no node: that of the control plane. Clients reach Services and pods from there by the
// cluster's names, whether the API server answers or not.
type outside struct {
	network  netns.NsHandle
	resolver *net.Resolver
}

// machine is the one outside; made once, for as long as tests run.
var machine struct {
	sync.Once
	*outside
}

func (s *space) outside() *outside {
	s.Helper()
	machine.Do(func() {
		network, err := netns.GetFromPid(apiServer(s.T))
		if err != nil {
			s.Fatalf("cannot find the network of the API server: %v", err)
		}
		dns := &corev1.Service{}
		if err := world.client.Get(s.ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, dns); err != nil {
			s.Fatal(err)
		}
		o := &outside{network: network}
		o.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, protocol, _ string) (net.Conn, error) {
			return o.connect(ctx, protocol, net.JoinHostPort(dns.Spec.ClusterIP, "53"))
		}}
		machine.outside = o
	})
	if machine.outside == nil {
		s.Fatal("there is no way to the cluster's network")
	}
	return machine.outside
}

// target is a server that a client reaches from outside, and who the client is.
type target struct {
	*outside
	account
	address string
}

// dial reaches host and port by a name of the cluster.
func (o *outside) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ips, err := o.resolver.LookupNetIP(ctx, "ip4", host+".cluster.local.")
	if err != nil {
		return nil, err
	}
	return o.connect(ctx, protocol, net.JoinHostPort(ips[0].String(), port))
}

// connect reaches an address. A socket stays in the network that it was made in.
func (o *outside) connect(ctx context.Context, protocol, address string) (net.Conn, error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer home.Close()
	if err := netns.Set(o.network); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("cannot enter the cluster's network: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, protocol, address)
	// A thread that cannot go home stays locked and ends with its goroutine.
	if back := netns.Set(home); back != nil {
		if conn != nil {
			_ = conn.Close()
		}
		return nil, errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return conn, err
}
