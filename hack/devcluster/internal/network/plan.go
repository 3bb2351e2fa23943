// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package network plans the addresses of a cluster and wires its machines
// together. All of it lives in network namespaces of the machines: the host
// gets no interface, no address and no route.
package network

import (
	"fmt"
	"net/netip"
)

// Addresses that are the same in every cluster; they never meet because no
// cluster's network reaches the host or another cluster.
const (
	// Bridge is the name of the bridge in the control plane's namespace.
	Bridge = "br0"
	// Uplink is the name of a node's interface to the bridge.
	Uplink = "eth0"
	// ControlPlaneIP is the API server's address inside.
	ControlPlaneIP = "172.30.0.1"
	// APIPort is the API server's port inside.
	APIPort = 6443
	// PodRange holds the pods of all nodes.
	PodRange = "10.244.0.0/16"
	// ServiceRange holds the cluster IPs of Services.
	ServiceRange = "10.96.0.0/16"
	// ServiceIP is the cluster IP of the API server's Service.
	ServiceIP = "10.96.0.1"
	// DNSIP is the cluster IP of the DNS Service.
	DNSIP = "10.96.0.10"
	// Domain is the DNS domain of the cluster.
	Domain = "cluster.local"
)

// prefixBits is the size of the network between machines.
const prefixBits = 24

// NodeIP returns the address of the i-th node, counting from 1.
func NodeIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{172, 30, 0, byte(10 + i)}) }

// PodSubnet returns the range of the i-th node's pods.
func PodSubnet(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), prefixBits)
}

// APIURL returns the API server's address inside the cluster's network.
func APIURL() string { return fmt.Sprintf("https://%s:%d", ControlPlaneIP, APIPort) }

// ResolvConf returns a resolver configuration that asks the cluster's DNS.
func ResolvConf() string {
	return fmt.Sprintf("search default.svc.%[1]s svc.%[1]s %[1]s\nnameserver %[2]s\noptions ndots:5\n", Domain, DNSIP)
}
