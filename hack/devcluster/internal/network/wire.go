// SPDX-License-Identifier: Apache-2.0

//go:build linux

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Space is an open network namespace.
type Space struct {
	ns     netns.NsHandle
	handle *netlink.Handle
}

// Open opens the network namespace that a process lives in.
func Open(pid int) (*Space, error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, fmt.Errorf("cannot open network namespace of process %d: %w", pid, err)
	}
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("cannot enter network namespace of process %d: %w", pid, err)
	}
	return &Space{ns: ns, handle: handle}, nil
}

// Close releases the namespace.
func (s *Space) Close() {
	s.handle.Close()
	_ = s.ns.Close()
}

// Run calls f on a thread that is inside the namespace.
func (s *Space) Run(f func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread is not given back: it ends with this goroutine.
		runtime.LockOSThread()
		if err := netns.Set(s.ns); err != nil {
			result <- fmt.Errorf("cannot enter network namespace: %w", err)
			return
		}
		result <- f()
	}()
	return <-result
}

// sysctls sets kernel parameters of the namespace. Those that this kernel does
// not have are left out.
func (s *Space) sysctls(values map[string]string) error {
	return s.Run(func() error {
		for path, value := range values {
			err := os.WriteFile("/proc/sys/net/"+path, []byte(value), 0)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("cannot set kernel parameter net/%s: %w", path, err)
			}
		}
		return nil
	})
}

// up gives a link an address, when one is named, and switches it on.
func (s *Space) up(name string, addr netip.Addr) (netlink.Link, error) {
	link, err := s.handle.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("cannot find interface %q: %w", name, err)
	}
	if addr.IsValid() {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(prefixBits, 32)}}
		if err := s.handle.AddrReplace(link, a); err != nil {
			return nil, fmt.Errorf("cannot give %s to interface %q: %w", addr, name, err)
		}
	}
	if err := s.handle.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("cannot switch on interface %q: %w", name, err)
	}
	return link, nil
}

// podRoutes leads the pod ranges of all nodes but one over the bridge.
func (s *Space) podRoutes(link netlink.Link, nodes, except int) error {
	for i := 1; i <= nodes; i++ {
		if i == except {
			continue
		}
		subnet := PodSubnet(i)
		r := &netlink.Route{
			LinkIndex: link.Attrs().Index,
			Dst:       ipNet(subnet),
			Gw:        NodeIP(i).AsSlice(),
		}
		if err := s.handle.RouteReplace(r); err != nil {
			return fmt.Errorf("cannot lead pod range %s to node %d: %w", subnet, i, err)
		}
	}
	return nil
}

// SetupControlPlane makes the bridge, its address and the ways to all pods.
// It changes nothing that is right already.
func SetupControlPlane(s *Space, nodes int) error {
	if _, err := s.up("lo", netip.Addr{}); err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = Bridge
	if err := s.handle.LinkAdd(bridge); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("cannot make bridge %q: %w", Bridge, err)
	}
	// Frames between nodes only pass through here: the control plane's own
	// Service rules must not see them.
	if err := s.sysctls(map[string]string{
		"bridge/bridge-nf-call-iptables": "0", "bridge/bridge-nf-call-ip6tables": "0", "bridge/bridge-nf-call-arptables": "0",
	}); err != nil {
		return err
	}
	link, err := s.up(Bridge, netip.MustParseAddr(ControlPlaneIP))
	if err != nil {
		return err
	}
	// A packet to a Service must find a way before the rules turn it to a pod.
	services := netip.MustParsePrefix(ServiceRange)
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: ipNet(services)}
	if err := s.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("cannot lead Services %s to the rules: %w", services, err)
	}
	return s.podRoutes(link, nodes, 0)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// Attach joins the i-th node's namespace to the control plane's bridge, and
// leads the other nodes' pods there. name is that of the node; its port on
// the bridge has the same.
func Attach(cp, node *Space, name string, i, nodes int) error {
	if _, err := node.up("lo", netip.Addr{}); err != nil {
		return err
	}
	if err := node.sysctls(map[string]string{"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0",
		"ipv4/conf/default/rp_filter": "0"}); err != nil {
		return err
	}
	if err := cable(cp, node, name); err != nil {
		return err
	}
	link, err := node.up(Uplink, NodeIP(i))
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(ControlPlaneIP)}
	if err := node.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("cannot set default route of node %q: %w", name, err)
	}
	if err := node.podRoutes(link, nodes, i); err != nil {
		return err
	}
	bridge, err := cp.handle.LinkByName(Bridge)
	if err != nil {
		return fmt.Errorf("cannot find bridge %q: %w", Bridge, err)
	}
	port, err := cp.handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("cannot find the port of node %q: %w", name, err)
	}
	if port.Attrs().MasterIndex != bridge.Attrs().Index {
		if err := cp.handle.LinkSetMaster(port, bridge); err != nil {
			return fmt.Errorf("cannot plug node %q into the bridge: %w", name, err)
		}
	}
	return Heal(cp, name)
}

// cable makes the cable of a node unless both its ends are there. One end
// without the other is what lost power leaves, for as long as the kernel takes
// to clean up.
func cable(cp, node *Space, name string) error {
	inner, err := node.find(Uplink)
	if err != nil {
		return err
	}
	port, err := cp.find(name)
	if err != nil {
		return err
	}
	if inner != nil && port != nil {
		return nil
	}
	if err := node.remove(Uplink); err != nil {
		return err
	}
	if err := cp.remove(name); err != nil {
		return err
	}
	veth := netlink.NewVeth(netlink.NewLinkAttrs())
	veth.Name, veth.PeerName, veth.PeerNamespace = Uplink, name, netlink.NsFd(cp.ns)
	if err := node.handle.LinkAdd(veth); err != nil {
		return fmt.Errorf("cannot make the cable of node %q: %w", name, err)
	}
	return nil
}

// find returns an interface, or nil when there is none of that name.
func (s *Space) find(name string) (netlink.Link, error) {
	link, err := s.handle.LinkByName(name)
	if err == nil {
		return link, nil
	}
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	return nil, fmt.Errorf("cannot look for interface %q: %w", name, err)
}

// remove deletes an interface. It is no error when there is none.
func (s *Space) remove(name string) error {
	link, err := s.find(name)
	if err != nil || link == nil {
		return err
	}
	if err := s.handle.LinkDel(link); err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("cannot remove interface %q: %w", name, err)
	}
	return nil
}

// Detach removes a node's cable. It is no error when there is none.
func Detach(cp *Space, name string) error { return cp.remove(name) }

// Cut switches a node's port off, as if its cable was pulled.
func Cut(cp *Space, name string) error {
	port, err := cp.handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("cannot find the port of node %q: %w", name, err)
	}
	if err := cp.handle.LinkSetDown(port); err != nil {
		return fmt.Errorf("cannot switch off the port of node %q: %w", name, err)
	}
	return nil
}

// Heal switches a node's port on.
func Heal(cp *Space, name string) error {
	_, err := cp.up(name, netip.Addr{})
	return err
}

// Connected says whether a node's port is switched on.
func Connected(cp *Space, name string) bool {
	port, err := cp.handle.LinkByName(name)
	return err == nil && port.Attrs().Flags&net.FlagUp != 0
}
