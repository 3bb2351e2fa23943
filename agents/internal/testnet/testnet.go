// SPDX-License-Identifier: Apache-2.0

// Package testnet finds addresses for the servers of tests.
package testnet

import (
	"net"
	"testing"
)

// FreeAddress is an address of the loopback, with its port, that nobody listens on now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
