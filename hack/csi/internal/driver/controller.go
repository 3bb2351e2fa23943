// SPDX-License-Identifier: Apache-2.0

//go:build linux

package driver

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/disk"
	"github.com/zeroinfra/hack/csi/internal/store"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// CreateVolume makes a volume, empty or with what a snapshot holds.
func (d *Driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := CheckCreate(r); err != nil {
		return nil, err
	}
	size, err := Size(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	want := store.Volume{ID: store.IDOf(r.GetName()), Size: size,
		Snapshot: r.GetVolumeContentSource().GetSnapshot().GetSnapshotId()}
	unlock, err := d.busy.lock(ctx, want.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, err := d.store.Volume(want.ID)
	switch {
	case err == nil:
		// It may have grown since, or been made larger than was asked for.
		limit := r.GetCapacityRange().GetLimitBytes()
		if old.Snapshot != want.Snapshot || old.Size < want.Size || limit > 0 && old.Size > limit {
			return nil, status.Errorf(codes.AlreadyExists, "volume %q is there with %d bytes and source %q", r.GetName(),
				old.Size, old.Snapshot)
		}
		return d.created(old), nil
	case !errors.Is(err, store.ErrAbsent):
		return nil, failure(err)
	}
	if want.Snapshot == "" {
		err = d.store.AddVolume(want, func(file *os.File) error { return disk.Format(ctx, file.Name()) })
	} else {
		err = d.restore(ctx, want)
	}
	if err != nil {
		return nil, failure(err)
	}
	return d.created(want), nil
}

func (d *Driver) created(v store.Volume) *csi.CreateVolumeResponse {
	return &csi.CreateVolumeResponse{Volume: d.describe(v)}
}

func (d *Driver) describe(v store.Volume) *csi.Volume {
	out := &csi.Volume{
		VolumeId: Handle(d.node, v.ID), CapacityBytes: v.Size,
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{TopologyKey: d.node}}},
	}
	if v.Snapshot != "" {
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: v.Snapshot},
		}}
	}
	return out
}

// restore makes a volume with what a snapshot holds, of this node or another.
func (d *Driver) restore(ctx context.Context, v store.Volume) error {
	node, id := Split(v.Snapshot)
	if node != d.node {
		return d.store.AddVolume(v, func(file *os.File) error { return d.fetch(ctx, v.Snapshot, file) })
	}
	unlock, err := d.busy.lock(ctx, aside(id))
	if err != nil {
		return err
	}
	defer unlock()
	s, err := d.store.Snapshot(id)
	if err != nil {
		return err
	}
	if v.Size < s.Size {
		return tooSmall(v.Size, s.Size)
	}
	from, err := os.Open(d.store.SnapshotImage(id))
	if err != nil {
		return err
	}
	defer from.Close()
	return d.store.AddVolume(v, func(file *os.File) error { return store.Copy(ctx, file, from) })
}

// aside keeps the locks of snapshots apart from those of volumes, which are
// taken first.
func aside(id string) string { return "snapshot " + id }

func tooSmall(size, snapshot int64) error {
	return status.Errorf(codes.OutOfRange, "a volume of %d bytes cannot hold a snapshot of %d: ask for at least that",
		size, snapshot)
}

// DeleteVolume removes a volume that is not in use.
func (d *Driver) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id, err := d.own(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	unlock, err := d.busy.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	switch _, used, err := d.device(id); {
	case errors.Is(err, store.ErrAbsent):
		return &csi.DeleteVolumeResponse{}, nil
	case err != nil:
		return nil, failure(err)
	case used:
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is mounted", r.GetVolumeId())
	}
	if err := d.store.RemoveVolume(id); err != nil {
		return nil, failure(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// device returns the device that shows a volume, if it is in use.
func (d *Driver) device(id string) (disk.Device, bool, error) {
	if _, err := d.store.Volume(id); err != nil {
		return disk.Device{}, false, err
	}
	return disk.Find(d.store.VolumeImage(id))
}

// ControllerGetVolume describes a volume.
func (d *Driver) ControllerGetVolume(_ context.Context,
	r *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	id, err := d.own(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	v, err := d.store.Volume(id)
	if err != nil {
		return nil, failure(err)
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: d.describe(v), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{},
	}, nil
}

// ValidateVolumeCapabilities says whether a volume can be used in some way.
func (d *Driver) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	id, err := d.own(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request does not say how the volume is to be used")
	}
	if _, err := d.store.Volume(id); err != nil {
		return nil, failure(err)
	}
	if why := unsupported(r.GetVolumeCapabilities()...); why != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: why}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: r.GetVolumeCapabilities(),
	}}, nil
}

// ControllerExpandVolume makes a volume's disk larger. Its file system follows
// where it is mounted.
func (d *Driver) ControllerExpandVolume(ctx context.Context,
	r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	id, err := d.own(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "the request does not say how large the volume is to be")
	}
	size, err := Size(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	unlock, err := d.busy.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.store.Grow(id, size)
	if err != nil {
		return nil, failure(err)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: true}, nil
}

// GetCapacity says how large a volume can be.
func (d *Driver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	free, err := d.store.Free()
	if err != nil {
		return nil, failure(err)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free / sizeStep * sizeStep}, nil
}

// CreateSnapshot copies a volume as it is at one moment. Writes to a mounted
// volume wait for that long.
func (d *Driver) CreateSnapshot(ctx context.Context,
	r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := CheckSnapshot(r); err != nil {
		return nil, err
	}
	source, err := d.own(r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	id := store.IDOf(r.GetName())
	for _, part := range []string{source, aside(id)} {
		unlock, err := d.busy.lock(ctx, part)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	old, err := d.store.Snapshot(id)
	if err == nil {
		if old.Volume != source {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %q is there and shows volume %q", r.GetName(),
				Handle(d.node, old.Volume))
		}
		return &csi.CreateSnapshotResponse{Snapshot: d.show(old)}, nil
	}
	if !errors.Is(err, store.ErrAbsent) {
		return nil, failure(err)
	}
	v, err := d.store.Volume(source)
	if err != nil {
		return nil, failure(err)
	}
	s := store.Snapshot{ID: id, Volume: source, Size: v.Size, Created: time.Now()}
	if err := d.store.AddSnapshot(s, func(file *os.File) error { return d.copyVolume(ctx, source, file) }); err != nil {
		return nil, failure(err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: d.show(s)}, nil
}

// copyVolume copies a volume that nobody writes to meanwhile.
func (d *Driver) copyVolume(ctx context.Context, id string, file *os.File) (err error) {
	device, used, err := d.device(id)
	if err != nil {
		return err
	}
	if used {
		thaw, err := disk.Freeze(device)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, thaw()) }()
	}
	from, err := os.Open(d.store.VolumeImage(id))
	if err != nil {
		return err
	}
	defer from.Close()
	return store.Copy(ctx, file, from)
}

func (d *Driver) show(s store.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: Handle(d.node, s.ID), SourceVolumeId: Handle(d.node, s.Volume),
		SizeBytes: s.Size, CreationTime: timestamppb.New(s.Created), ReadyToUse: true,
	}
}

// DeleteSnapshot removes a snapshot. Volumes that were made from it stay.
func (d *Driver) DeleteSnapshot(ctx context.Context,
	r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id, err := d.own(r.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	unlock, err := d.busy.lock(ctx, aside(id))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := d.store.RemoveSnapshot(id); err != nil {
		return nil, failure(err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists this node's snapshots, all at once.
func (d *Driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	all, err := d.store.Snapshots()
	if err != nil {
		return nil, failure(err)
	}
	out := &csi.ListSnapshotsResponse{}
	for _, s := range all {
		shown := d.show(s)
		if id := r.GetSnapshotId(); id != "" && id != shown.SnapshotId {
			continue
		}
		if id := r.GetSourceVolumeId(); id != "" && id != shown.SourceVolumeId {
			continue
		}
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: shown})
	}
	return out, nil
}
