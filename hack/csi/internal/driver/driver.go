// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package driver is the CSI driver of one node: it keeps volumes and snapshots
// of that node's disk and mounts them there. Every call may come twice.
package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/disk"
	"github.com/zeroinfra/hack/csi/internal/store"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// Name is the driver's name in Kubernetes.
	Name = "csi.devcluster.local"
	// TopologyKey is the node label that says where a volume can be used.
	TopologyKey = Name + "/node"
)

// Fetch copies a snapshot of another node into a file. The handle names both.
type Fetch func(ctx context.Context, handle string, into *os.File) error

// Driver serves the volumes of one node.
type Driver struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	node  string
	store *store.Store
	fetch Fetch
	busy  locks
}

// New returns the driver of a node. A copy that a killed driver was making is
// forgotten, and writes that it held go on.
func New(node, root string, fetch Fetch) (*Driver, error) {
	s, err := store.Open(root)
	if err != nil {
		return nil, err
	}
	d := &Driver{node: node, store: s, fetch: fetch}
	return d, d.recover(root)
}

func (d *Driver) recover(root string) error {
	entries, err := os.ReadDir(root + "/volumes")
	if err != nil {
		return err
	}
	for _, e := range entries {
		device, shown, err := disk.Find(d.store.VolumeImage(e.Name()))
		if err != nil {
			return err
		}
		if shown {
			if err := disk.Thaw(device); err != nil {
				return err
			}
		}
	}
	return nil
}

// Handle names what a node's store holds for the whole cluster.
func Handle(node, id string) string { return node + ":" + id }

// Split takes a handle apart; what is none gives empty strings.
func Split(handle string) (node, id string) {
	node, id, found := strings.Cut(handle, ":")
	if !found {
		return "", ""
	}
	return node, id
}

// own returns the ID of what a handle names on this node.
func (d *Driver) own(handle string) (string, error) {
	if handle == "" {
		return "", status.Error(codes.InvalidArgument, "the request names no volume or snapshot")
	}
	node, id := Split(handle)
	if node != d.node {
		return "", status.Errorf(codes.NotFound, "%q is not on node %q", handle, d.node)
	}
	return id, nil
}

// failure gives an error the code that callers act on.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrAbsent):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, store.ErrFull):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Error(codes.Internal, err.Error())
}

// locks makes calls about one volume wait for each other.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

func (l *locks) lock(ctx context.Context, id string) (func(), error) {
	for {
		l.mu.Lock()
		if l.held == nil {
			l.held = map[string]chan struct{}{}
		}
		other, taken := l.held[id]
		if !taken {
			mine := make(chan struct{})
			l.held[id] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, id)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, status.Error(codes.Aborted, fmt.Sprintf("another call about %q has not ended", id))
		}
	}
}
