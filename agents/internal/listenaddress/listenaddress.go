// SPDX-License-Identifier: Apache-2.0

// Package listenaddress says where servers listen that the agents start.
package listenaddress

import "net"

// Any is the address at which a server listens on all addresses of its pod: of IPv6 and IPv4 where the kernel has IPv6,
// else of IPv4.
func Any() string {
	listener, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return "0.0.0.0"
	}
	_ = listener.Close()
	return "::"
}
