// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package router is the driver's controller part: it holds nothing itself and
// sends every call to the node that has the volume or the snapshot.
package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/transport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Nodes finds nodes by a file of their names and addresses. It is read at
// every call, so that nodes can join.
type Nodes struct {
	file        string
	credentials transport.Credentials

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by address
}

// NewNodes returns the nodes of a file that holds a JSON object.
func NewNodes(file string, c transport.Credentials) *Nodes {
	return &Nodes{file: file, credentials: c, conns: map[string]*grpc.ClientConn{}}
}

// Addresses are the nodes' addresses by name.
func (n *Nodes) Addresses() (map[string]string, error) {
	data, err := os.ReadFile(n.file)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "cannot read the nodes: %v", err)
	}
	var addresses map[string]string
	if err := json.Unmarshal(data, &addresses); err != nil {
		return nil, status.Errorf(codes.Unavailable, "cannot understand the nodes in %q: %v", n.file, err)
	}
	return addresses, nil
}

// Names lists the nodes, sorted.
func (n *Nodes) Names() ([]string, error) {
	addresses, err := n.Addresses()
	return slices.Sorted(maps.Keys(addresses)), err
}

// Address is that of one node.
func (n *Nodes) Address(node string) (string, error) {
	addresses, err := n.Addresses()
	if err != nil {
		return "", err
	}
	address, ok := addresses[node]
	if !ok {
		return "", status.Errorf(codes.NotFound, "there is no node %q", node)
	}
	return address, nil
}

// Client calls one node.
func (n *Nodes) Client(node string) (csi.ControllerClient, error) {
	address, err := n.Address(node)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	conn, ok := n.conns[address]
	if !ok {
		if conn, err = transport.Dial(address, n.credentials); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		n.conns[address] = conn
	}
	return csi.NewControllerClient(conn), nil
}

// Close ends all connections.
func (n *Nodes) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for address, conn := range n.conns {
		if err := conn.Close(); err != nil {
			return fmt.Errorf("cannot end the connection to %q: %w", address, err)
		}
	}
	clear(n.conns)
	return nil
}
