// SPDX-License-Identifier: Apache-2.0

//go:build linux

package driver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/disk"
	"github.com/zeroinfra/hack/csi/internal/store"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeStageVolume mounts a volume where its pods will get it from.
func (d *Driver) NodeStageVolume(ctx context.Context,
	r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "the request does not say where to stage the volume")
	}
	if err := checkCapabilities(r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	id, unlock, err := d.take(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	device, used, err := d.device(id)
	if err != nil {
		return nil, failure(err)
	}
	mount, mounted, err := disk.At(path)
	if err != nil {
		return nil, failure(err)
	}
	switch {
	case mounted && used && mount.Number == device.Number:
	case mounted:
		return nil, status.Errorf(codes.AlreadyExists, "something else is mounted at %q", path)
	case used:
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is staged elsewhere", r.GetVolumeId())
	default:
		err := disk.MountImage(d.store.VolumeImage(id), path, r.GetVolumeCapability().GetMount().GetMountFlags())
		if err != nil {
			return nil, failure(err)
		}
	}
	// A volume that was made from a smaller snapshot, or grew unused.
	if err := d.growFilesystem(ctx, id, path); err != nil {
		return nil, failure(errors.Join(err, disk.Unmount(path)))
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// growFilesystem makes the file system mounted at a path fill its volume.
func (d *Driver) growFilesystem(ctx context.Context, id, path string) error {
	device, used, err := d.device(id)
	if err != nil {
		return err
	}
	mount, mounted, err := disk.At(path)
	if err != nil {
		return err
	}
	if !used || !mounted || mount.Number != device.Number {
		return status.Errorf(codes.NotFound, "volume %q is not mounted at %q", Handle(d.node, id), path)
	}
	if mount.ReadOnly() {
		return nil // the next to write makes it grow
	}
	return disk.Grow(ctx, device, mount.Path)
}

// take finds a volume by its handle and keeps other calls about it waiting.
func (d *Driver) take(ctx context.Context, handle string) (string, func(), error) {
	id, err := d.own(handle)
	if err != nil {
		return "", nil, err
	}
	unlock, err := d.busy.lock(ctx, id)
	return id, unlock, err
}

// NodeUnstageVolume unmounts a volume. It returns when the device is gone.
func (d *Driver) NodeUnstageVolume(ctx context.Context,
	r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request does not say where the volume is staged")
	}
	id, unlock, err := d.take(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := disk.Unmount(r.GetStagingTargetPath()); err != nil {
		return nil, failure(err)
	}
	device, used, err := d.device(id)
	if errors.Is(err, store.ErrAbsent) || err == nil && !used {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	if err != nil {
		return nil, failure(err)
	}
	mounts, err := disk.Of(device)
	if err != nil {
		return nil, failure(err)
	}
	if len(mounts) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is still mounted at %q", r.GetVolumeId(),
			mounts[0].Path)
	}
	if err := d.awaitRelease(ctx, id); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// awaitRelease waits until the kernel has let go of a volume's device. Who
// looks at devices, or still leaves a container, holds it a moment longer.
func (d *Driver) awaitRelease(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		device, used, err := d.device(id)
		if err != nil {
			return failure(err)
		}
		if !used {
			return nil
		}
		select {
		case <-ctx.Done():
			return status.Errorf(codes.FailedPrecondition, "volume %q is unmounted and something still holds %s",
				Handle(d.node, id), device.Path)
		case <-ticker.C:
		}
	}
}

// NodePublishVolume shows a staged volume to a pod.
func (d *Driver) NodePublishVolume(ctx context.Context,
	r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	staging, target := r.GetStagingTargetPath(), r.GetTargetPath()
	if staging == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument,
			"the request does not say where the volume is staged and where it is to be shown")
	}
	if err := checkCapabilities(r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	id, unlock, err := d.take(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	device, used, err := d.device(id)
	if err != nil {
		return nil, failure(err)
	}
	staged, mounted, err := disk.At(staging)
	if err != nil {
		return nil, failure(err)
	}
	if !used || !mounted || staged.Number != device.Number {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is not staged at %q", r.GetVolumeId(), staging)
	}
	access := disk.ReadWrite
	if r.GetReadonly() {
		access = disk.ReadOnly
	}
	shown, mounted, err := disk.At(target)
	if err != nil {
		return nil, failure(err)
	}
	if mounted {
		if shown.Number != device.Number || shown.ReadOnly() != (access == disk.ReadOnly || staged.ReadOnly()) {
			return nil, status.Errorf(codes.AlreadyExists, "something else is mounted at %q", target)
		}
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := checkSingleWriter(r, device, staged.Path); err != nil {
		return nil, err
	}
	if err := disk.Bind(staging, target, access); err != nil {
		return nil, failure(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// checkSingleWriter refuses a second pod on a volume that is for one alone.
func checkSingleWriter(r *csi.NodePublishVolumeRequest, device disk.Device, staging string) error {
	if r.GetVolumeCapability().GetAccessMode().GetMode() != csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		return nil
	}
	mounts, err := disk.Of(device)
	if err != nil {
		return failure(err)
	}
	for _, m := range mounts {
		if m.Path != staging {
			return status.Errorf(codes.FailedPrecondition, "volume %q is for one pod alone and in use at %q", r.GetVolumeId(),
				m.Path)
		}
	}
	return nil
}

// NodeUnpublishVolume takes a volume away from a pod. One that is deleted is
// taken away too: after a power cut the kubelet may ask for that.
func (d *Driver) NodeUnpublishVolume(ctx context.Context,
	r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if r.GetTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request does not say where the volume is shown")
	}
	_, unlock, err := d.take(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := disk.Remove(r.GetTargetPath()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume makes a volume's file system fill it, in use or not.
func (d *Driver) NodeExpandVolume(ctx context.Context,
	r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request does not say where the volume is")
	}
	id, unlock, err := d.take(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.store.Volume(id)
	if err != nil {
		return nil, failure(err)
	}
	if required := r.GetCapacityRange().GetRequiredBytes(); required > v.Size {
		return nil, status.Errorf(codes.OutOfRange, "volume %q has %d bytes and cannot show %d: expand it first",
			r.GetVolumeId(), v.Size, required)
	}
	if err := d.growFilesystem(ctx, id, r.GetVolumePath()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}

// NodeGetVolumeStats tells how full a volume is.
func (d *Driver) NodeGetVolumeStats(_ context.Context,
	r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	path := r.GetVolumePath()
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "the request does not say where the volume is")
	}
	id, err := d.own(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	device, used, err := d.device(id)
	if err != nil {
		return nil, failure(err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "there is nothing at %q", path)
	}
	mount, mounted, err := disk.At(filepath.Clean(path))
	if err != nil {
		return nil, failure(err)
	}
	if !used || !mounted || mount.Number != device.Number {
		return nil, status.Errorf(codes.NotFound, "volume %q is not mounted at %q", r.GetVolumeId(), path)
	}
	bytes, inodes, err := disk.Usages(path)
	if err != nil {
		return nil, failure(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		usage(csi.VolumeUsage_BYTES, bytes), usage(csi.VolumeUsage_INODES, inodes),
	}}, nil
}

func usage(unit csi.VolumeUsage_Unit, u disk.Usage) *csi.VolumeUsage {
	return &csi.VolumeUsage{Unit: unit, Used: u.Used, Available: u.Available, Total: u.Total}
}

// NodeGetCapabilities lists what the node part can do.
func (d *Driver) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return out, nil
}

// NodeGetInfo names the node, and where its volumes can be used.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             d.node,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{TopologyKey: d.node}},
	}, nil
}
