// SPDX-License-Identifier: Apache-2.0

package listenaddress_test

import (
	"net"
	"testing"

	"github.com/zeroinfra/agents/internal/listenaddress"
)

// What listens there is reached by IPv4, with IPv6 in the kernel or without it.
func TestAnyIsReachedByIPv4(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort(listenaddress.Any(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
}
