// SPDX-License-Identifier: Apache-2.0

//go:build linux

package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
)

func TestPlanHasNoOverlaps(t *testing.T) {
	pods, services := netip.MustParsePrefix(PodRange), netip.MustParsePrefix(ServiceRange)
	machines := netip.PrefixFrom(netip.MustParseAddr(ControlPlaneIP), prefixBits).Masked()
	if pods.Overlaps(services) || pods.Overlaps(machines) || services.Overlaps(machines) {
		t.Fatal("ranges overlap")
	}
	ips := map[netip.Addr]bool{netip.MustParseAddr(ControlPlaneIP): true}
	subnets := map[netip.Prefix]bool{}
	for i := 1; i <= cluster.MaxNodes; i++ {
		ip, subnet := NodeIP(i), PodSubnet(i)
		if ips[ip] || !machines.Contains(ip) {
			t.Errorf("node %d cannot have %s", i, ip)
		}
		if subnets[subnet] || !pods.Contains(subnet.Addr()) || subnet != subnet.Masked() {
			t.Errorf("node %d cannot have pods in %s", i, subnet)
		}
		ips[ip], subnets[subnet] = true, true
	}
	for _, ip := range []string{ServiceIP, DNSIP} {
		if !services.Contains(netip.MustParseAddr(ip)) {
			t.Errorf("%s is no Service address", ip)
		}
	}
}

func TestResolvConfAsksClusterDNS(t *testing.T) {
	conf := ResolvConf()
	for _, line := range []string{"nameserver 10.96.0.10",
		"search default.svc.cluster.local svc.cluster.local cluster.local", "options ndots:5"} {
		if !strings.Contains(conf, line+"\n") {
			t.Errorf("no line %q in\n%s", line, conf)
		}
	}
}
