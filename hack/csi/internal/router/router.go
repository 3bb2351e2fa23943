// SPDX-License-Identifier: Apache-2.0

//go:build linux

package router

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/driver"
	"github.com/zeroinfra/hack/csi/internal/store"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Router serves the controller's calls.
type Router struct {
	csi.UnimplementedControllerServer

	nodes *Nodes
}

// New returns a router to nodes.
func New(nodes *Nodes) *Router { return &Router{nodes: nodes} }

// at calls the node that a handle names.
func (r *Router) at(handle string) (csi.ControllerClient, error) {
	if handle == "" {
		return nil, status.Error(codes.InvalidArgument, "the request names no volume or snapshot")
	}
	node, _ := driver.Split(handle)
	return r.nodes.Client(node)
}

// gone tells whether a handle can name nothing that is there.
func (r *Router) gone(handle string) bool {
	_, err := r.at(handle)
	return status.Code(err) == codes.NotFound
}

// CreateVolume makes a volume on the first of the nodes asked for that has
// room.
func (r *Router) CreateVolume(ctx context.Context, q *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := driver.CheckCreate(q); err != nil {
		return nil, err
	}
	candidates, err := r.candidates(q.GetAccessibilityRequirements())
	if err != nil {
		return nil, err
	}
	if source := q.GetVolumeContentSource().GetSnapshot().GetSnapshotId(); source != "" {
		node, _ := driver.Split(source)
		address, err := r.nodes.Address(node)
		if err != nil {
			return nil, status.Errorf(codes.NotFound, "there is no snapshot %q", source)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, driver.SourceKey, address)
	}
	if candidates, err = r.madeAlready(ctx, q.GetName(), candidates); err != nil {
		return nil, err
	}
	var last error
	for _, node := range candidates {
		client, err := r.nodes.Client(node)
		if err != nil {
			return nil, err
		}
		response, err := client.CreateVolume(ctx, q)
		if status.Code(err) != codes.ResourceExhausted {
			return response, err
		}
		last = err
	}
	return nil, last
}

// candidates lists the nodes on which a volume may be, the best first.
func (r *Router) candidates(q *csi.TopologyRequirement) ([]string, error) {
	known, err := r.nodes.Names()
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, t := range append(slices.Clone(q.GetPreferred()), q.GetRequisite()...) {
		node := t.GetSegments()[driver.TopologyKey]
		if slices.Contains(known, node) && !slices.Contains(wanted, node) {
			wanted = append(wanted, node)
		}
	}
	if q == nil || len(q.GetPreferred())+len(q.GetRequisite()) == 0 {
		wanted = known
	}
	if len(wanted) == 0 {
		return nil, status.Error(codes.ResourceExhausted, "none of the places asked for is a node with volumes")
	}
	return wanted, nil
}

// madeAlready returns the one candidate that has the volume, or all of them.
func (r *Router) madeAlready(ctx context.Context, name string, candidates []string) ([]string, error) {
	if len(candidates) == 1 {
		return candidates, nil
	}
	for _, node := range candidates {
		client, err := r.nodes.Client(node)
		if err != nil {
			return nil, err
		}
		_, err = client.ControllerGetVolume(ctx,
			&csi.ControllerGetVolumeRequest{VolumeId: driver.Handle(node, store.IDOf(name))})
		switch status.Code(err) {
		case codes.OK:
			return []string{node}, nil
		case codes.NotFound:
		default:
			return nil, err
		}
	}
	return candidates, nil
}

// DeleteVolume removes a volume.
func (r *Router) DeleteVolume(ctx context.Context, q *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.gone(q.GetVolumeId()) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	client, err := r.at(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return client.DeleteVolume(ctx, q)
}

// ControllerGetVolume describes a volume.
func (r *Router) ControllerGetVolume(ctx context.Context,
	q *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	client, err := r.at(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return client.ControllerGetVolume(ctx, q)
}

// ValidateVolumeCapabilities says whether a volume can be used in some way.
func (r *Router) ValidateVolumeCapabilities(
	ctx context.Context, q *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	client, err := r.at(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return client.ValidateVolumeCapabilities(ctx, q)
}

// ControllerExpandVolume makes a volume's disk larger.
func (r *Router) ControllerExpandVolume(ctx context.Context,
	q *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	client, err := r.at(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return client.ControllerExpandVolume(ctx, q)
}

// GetCapacity says how large a volume can be at a place, or at the roomiest.
func (r *Router) GetCapacity(ctx context.Context, q *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	names, err := r.nodes.Names()
	if err != nil {
		return nil, err
	}
	if t := q.GetAccessibleTopology(); t != nil {
		node := t.GetSegments()[driver.TopologyKey]
		if !slices.Contains(names, node) {
			return &csi.GetCapacityResponse{}, nil
		}
		names = []string{node}
	}
	most := &csi.GetCapacityResponse{}
	for _, node := range names {
		client, err := r.nodes.Client(node)
		if err != nil {
			return nil, err
		}
		response, err := client.GetCapacity(ctx, q)
		if err != nil {
			return nil, err
		}
		if response.GetAvailableCapacity() > most.GetAvailableCapacity() {
			most = response
		}
	}
	return most, nil
}

// CreateSnapshot makes a snapshot where its volume is.
func (r *Router) CreateSnapshot(ctx context.Context,
	q *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := driver.CheckSnapshot(q); err != nil {
		return nil, err
	}
	client, err := r.at(q.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	return client.CreateSnapshot(ctx, q)
}

// DeleteSnapshot removes a snapshot.
func (r *Router) DeleteSnapshot(ctx context.Context,
	q *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if r.gone(q.GetSnapshotId()) {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	client, err := r.at(q.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return client.DeleteSnapshot(ctx, q)
}

// ListSnapshots lists the snapshots of all nodes in the order of their
// handles, a page at a time. A node that does not answer makes it fail: its
// snapshots are not gone.
func (r *Router) ListSnapshots(ctx context.Context, q *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	names, err := r.nodes.Names()
	if err != nil {
		return nil, err
	}
	for _, handle := range []string{q.GetSnapshotId(), q.GetSourceVolumeId()} {
		if handle != "" {
			node, _ := driver.Split(handle)
			names = slices.DeleteFunc(names, func(n string) bool { return n != node })
		}
	}
	var all []*csi.ListSnapshotsResponse_Entry
	for _, node := range names {
		client, err := r.nodes.Client(node)
		if err != nil {
			return nil, err
		}
		response, err := client.ListSnapshots(ctx,
			&csi.ListSnapshotsRequest{SnapshotId: q.GetSnapshotId(), SourceVolumeId: q.GetSourceVolumeId()})
		if err != nil {
			return nil, err
		}
		all = append(all, response.GetEntries()...)
	}
	slices.SortFunc(all, func(a, b *csi.ListSnapshotsResponse_Entry) int {
		return cmp.Compare(a.GetSnapshot().GetSnapshotId(), b.GetSnapshot().GetSnapshotId())
	})
	return page(all, q)
}

// page cuts a page out of a list. Its token is the number of the first entry.
func page(all []*csi.ListSnapshotsResponse_Entry, q *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	first := 0
	if token := q.GetStartingToken(); token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(all) {
			return nil, status.Errorf(codes.Aborted, "there is no page %q: begin again", token)
		}
		first = n
	}
	out := &csi.ListSnapshotsResponse{Entries: all[first:]}
	if most := int(q.GetMaxEntries()); most > 0 && len(out.Entries) > most {
		out.Entries, out.NextToken = out.Entries[:most], strconv.Itoa(first+most)
	}
	return out, nil
}

// ControllerGetCapabilities lists what the controller part can do.
func (r *Router) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return out, nil
}
