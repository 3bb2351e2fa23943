// SPDX-License-Identifier: Apache-2.0

//go:build linux

package driver

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/disk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Sizes of volumes in bytes: what all are multiples of, and what one has that
// nobody gave a size.
const (
	sizeStep  = 1 << 20
	usualSize = 1 << 30
)

// Size chooses a volume's size from what a request allows.
func Size(r *csi.CapacityRange) (int64, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if required < 0 || limit < 0 || limit > 0 && required > limit {
		return 0, status.Errorf(codes.OutOfRange, "a volume cannot have at least %d and at most %d bytes", required, limit)
	}
	size := max(required, disk.LeastSize)
	if required == 0 && limit == 0 {
		size = usualSize
	}
	if size > 1<<60 {
		return 0, status.Errorf(codes.OutOfRange, "a volume cannot have %d bytes", size)
	}
	size = (size + sizeStep - 1) / sizeStep * sizeStep
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange,
			"a volume cannot have at most %d bytes: sizes are multiples of %d, from %d", limit, sizeStep, disk.LeastSize)
	}
	return size, nil
}

var modes = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
}

// unsupported says what a volume cannot be used for, and is empty when it can.
func unsupported(capabilities ...*csi.VolumeCapability) string {
	for _, c := range capabilities {
		switch {
		case c.GetBlock() != nil:
			return "volumes are file systems: use volumeMode Filesystem"
		case !slices.Contains(modes, c.GetAccessMode().GetMode()):
			return "a volume is used on one node: use access mode ReadWriteOnce or ReadWriteOncePod"
		case c.GetMount().GetFsType() != "" && c.GetMount().GetFsType() != disk.Kind:
			return "volumes are " + disk.Kind + ": leave the file system's type out"
		}
	}
	return ""
}

// checkCapabilities refuses what a volume cannot be used for.
func checkCapabilities(capabilities ...*csi.VolumeCapability) error {
	if len(capabilities) == 0 || slices.Contains(capabilities, nil) {
		return status.Error(codes.InvalidArgument, "the request does not say how the volume is to be used")
	}
	if why := unsupported(capabilities...); why != "" {
		return status.Error(codes.InvalidArgument, why)
	}
	return nil
}

// CheckSnapshot refuses a request for a snapshot that no node could fulfil.
func CheckSnapshot(r *csi.CreateSnapshotRequest) error {
	if r.GetName() == "" {
		return status.Error(codes.InvalidArgument, "the request does not name the snapshot")
	}
	return checkParameters(r.GetParameters())
}

// checkParameters refuses parameters of a class: there are none, and one that
// does nothing would mislead.
func checkParameters(parameters map[string]string) error {
	for name := range parameters {
		return status.Errorf(codes.InvalidArgument, "there is no parameter %q: remove it from the class", name)
	}
	return nil
}

// CheckCreate refuses a request for a volume that no node could fulfil.
func CheckCreate(r *csi.CreateVolumeRequest) error {
	if r.GetName() == "" {
		return status.Error(codes.InvalidArgument, "the request does not name the volume")
	}
	if err := checkCapabilities(r.GetVolumeCapabilities()...); err != nil {
		return err
	}
	if err := checkParameters(r.GetParameters()); err != nil {
		return err
	}
	if len(r.GetMutableParameters()) > 0 {
		return status.Error(codes.InvalidArgument,
			"volumes have no attributes to change: leave the VolumeAttributesClass out")
	}
	if r.GetVolumeContentSource().GetVolume() != nil {
		return status.Error(codes.InvalidArgument, "volumes cannot be cloned: make a snapshot, and the volume from that")
	}
	_, err := Size(r.GetCapacityRange())
	return err
}
