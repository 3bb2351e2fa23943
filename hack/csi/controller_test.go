// SPDX-License-Identifier: Apache-2.0

//go:build processes && linux

package main

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/driver"
	"github.com/zeroinfra/hack/csi/internal/router"
	"github.com/zeroinfra/hack/csi/internal/transport"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// These tests run the parts as they are, with files on disk, and mount nothing:
// they need no root, but mkfs.xfs.

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

func usage() []*csi.VolumeCapability {
	return []*csi.VolumeCapability{{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}}
}

// volume asks for a volume on a node.
func volume(name, node string, size int64) *csi.CreateVolumeRequest {
	places := []*csi.Topology{{Segments: map[string]string{driver.TopologyKey: node}}}
	return &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: usage(), CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		AccessibilityRequirements: &csi.TopologyRequirement{Requisite: places, Preferred: places},
	}
}

func (s *suite) create(r *csi.CreateVolumeRequest) *csi.Volume {
	s.t.Helper()
	response, err := s.controller.CreateVolume(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.GetVolume()
}

func (s *suite) snapshot(name, volume string) *csi.Snapshot {
	s.t.Helper()
	response, err := s.controller.CreateSnapshot(s.t.Context(),
		&csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	if err != nil {
		s.t.Fatal(err)
	}
	return response.GetSnapshot()
}

func (s *suite) want(err error, code codes.Code, text string) {
	s.t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		s.t.Errorf("got %v, want %s with %q", err, code, text)
	}
}

// image is the file of a volume.
func (s *suite) image(handle string) string {
	node, id := driver.Split(handle)
	return filepath.Join(s.root(node), "volumes", id, "disk.img")
}

func TestVolumesAreWhereAskedFor(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	v := s.create(volume("pvc-1", "n2", gibibyte))
	if v.GetVolumeId() != "n2:pvc-1" || v.GetCapacityBytes() != gibibyte ||
		v.GetAccessibleTopology()[0].GetSegments()[driver.TopologyKey] != "n2" {
		t.Errorf("got %v", v)
	}
	if info, err := os.Stat(s.image("n2:pvc-1")); err != nil || info.Size() != gibibyte {
		t.Errorf("the file: %v, %v", info, err)
	}
	if again := s.create(volume("pvc-1", "n2", gibibyte)); again.GetVolumeId() != v.GetVolumeId() {
		t.Errorf("the same name gives %v", again)
	}
	_, err := s.controller.CreateVolume(t.Context(), volume("pvc-1", "n2", 2*gibibyte))
	s.want(err, codes.AlreadyExists, "pvc-1")
	_, err = s.controller.CreateVolume(t.Context(), volume("pvc-2", "n9", gibibyte))
	s.want(err, codes.ResourceExhausted, "none of the places")
	// A name that was made elsewhere is found, whatever comes first now.
	anywhere := volume("pvc-1", "n1", gibibyte)
	anywhere.AccessibilityRequirements.Requisite = append(anywhere.AccessibilityRequirements.Requisite,
		&csi.Topology{Segments: map[string]string{driver.TopologyKey: "n2"}})
	if again := s.create(anywhere); again.GetVolumeId() != v.GetVolumeId() {
		t.Errorf("the same name on any node gives %v", again)
	}
	for range 2 {
		if _, err := s.controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()}); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(s.image("n2:pvc-1")); err == nil {
		t.Error("the file of a deleted volume is there")
	}
}

func TestRefusals(t *testing.T) {
	s := newSuite(t, "n1")
	change := func(f func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
		r := volume("pvc-1", "n1", gibibyte)
		f(r)
		return r
	}
	for text, r := range map[string]*csi.CreateVolumeRequest{
		"volumeMode Filesystem": change(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		}),
		"ReadWriteOnce": change(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}),
		"volumes are xfs": change(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].GetMount().FsType = "ext4"
		}),
		`no parameter "colour"`: change(func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{"colour": "red"}
		}),
		"cannot be cloned": change(cloned),
		"at least 2 and at most": change(func(r *csi.CreateVolumeRequest) {
			r.CapacityRange = &csi.CapacityRange{RequiredBytes: 2, LimitBytes: 1}
		}),
		"from 314572800": change(func(r *csi.CreateVolumeRequest) {
			r.CapacityRange = &csi.CapacityRange{LimitBytes: mebibyte}
		}),
		"are free in": change(func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 1 << 59 }),
	} {
		if _, err := s.controller.CreateVolume(t.Context(), r); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	small := s.create(volume("small", "n1", mebibyte))
	if small.GetCapacityBytes() != 300*mebibyte {
		t.Errorf("a small claim gets %d bytes", small.GetCapacityBytes())
	}
}

func cloned(r *csi.CreateVolumeRequest) {
	r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "n1:x"},
	}}
}

func from(snapshot string, r *csi.CreateVolumeRequest) *csi.CreateVolumeRequest {
	r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
	}}
	return r
}

func TestSnapshotsAreRestoredOnAnyNode(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	v := s.create(volume("pvc-1", "n1", gibibyte))
	mark := func(text string) {
		t.Helper()
		f, err := os.OpenFile(s.image(v.GetVolumeId()), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(text), 500*mebibyte); err != nil {
			t.Fatal(err)
		}
	}
	mark("before")
	snap := s.snapshot("first", v.GetVolumeId())
	mark("after!")
	if again := s.snapshot("first", v.GetVolumeId()); !snap.GetReadyToUse() || snap.GetSizeBytes() != gibibyte ||
		!again.GetCreationTime().AsTime().Equal(snap.GetCreationTime().AsTime()) {
		t.Errorf("got %v, then %v", snap, again)
	}
	for _, node := range []string{"n1", "n2"} {
		r := s.create(from(snap.GetSnapshotId(), volume("restored-"+node, node, 2*gibibyte)))
		data, err := os.Open(s.image(r.GetVolumeId()))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 6)
		if _, err := data.ReadAt(got, 500*mebibyte); err != nil || string(got) != "before" ||
			r.GetCapacityBytes() != 2*gibibyte {
			t.Errorf("restored on %s: %q, %v, %v", node, got, r, err)
		}
		data.Close()
		_, err = s.controller.CreateVolume(t.Context(), from(snap.GetSnapshotId(), volume("less-"+node, node, 400*mebibyte)))
		s.want(err, codes.OutOfRange, "cannot hold a snapshot")
		_, err = s.controller.CreateVolume(t.Context(), from("n1:none", volume("none-"+node, node, gibibyte)))
		s.want(err, codes.NotFound, "none")
	}
	_, err := s.controller.CreateVolume(t.Context(), volume("restored-n1", "n1", 2*gibibyte))
	s.want(err, codes.AlreadyExists, "restored-n1")
}

func TestListOfSnapshots(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	one, two := s.create(volume("a", "n1", gibibyte)), s.create(volume("b", "n2", gibibyte))
	s.snapshot("x", two.GetVolumeId())
	s.snapshot("y", one.GetVolumeId())
	s.snapshot("z", two.GetVolumeId())
	list := func(r *csi.ListSnapshotsRequest) (string, string) {
		t.Helper()
		response, err := s.controller.ListSnapshots(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range response.GetEntries() {
			all = append(all, e.GetSnapshot().GetSnapshotId())
		}
		return strings.Join(all, " "), response.GetNextToken()
	}
	for _, c := range []struct {
		r          *csi.ListSnapshotsRequest
		want, next string
	}{
		{&csi.ListSnapshotsRequest{}, "n1:y n2:x n2:z", ""},
		{&csi.ListSnapshotsRequest{MaxEntries: 2}, "n1:y n2:x", "2"},
		{&csi.ListSnapshotsRequest{MaxEntries: 2, StartingToken: "2"}, "n2:z", ""},
		{&csi.ListSnapshotsRequest{SnapshotId: "n2:x"}, "n2:x", ""},
		{&csi.ListSnapshotsRequest{SourceVolumeId: two.GetVolumeId()}, "n2:x n2:z", ""},
		{&csi.ListSnapshotsRequest{SnapshotId: "nonsense"}, "", ""},
	} {
		if got, next := list(c.r); got != c.want || next != c.next {
			t.Errorf("%v gives %q and %q", c.r, got, next)
		}
	}
	_, err := s.controller.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{StartingToken: "7"})
	s.want(err, codes.Aborted, "begin again")
	if _, err := s.controller.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: "n2:x"}); err != nil {
		t.Error(err)
	}
	if got, _ := list(&csi.ListSnapshotsRequest{}); got != "n1:y n2:z" {
		t.Errorf("after a deletion: %q", got)
	}
}

// TestStrangersAreRefused calls a node with a certificate that the cluster has
// given to somebody else.
func TestStrangersAreRefused(t *testing.T) {
	s := newSuite(t, "n1")
	v := s.create(volume("pvc-1", "n1", gibibyte))
	for name, welcome := range map[string]bool{transport.Peer: true, "system:node:n1": false} {
		c, err := transport.LoadCredentials(s.issue("as-"+name, name))
		if err != nil {
			t.Fatal(err)
		}
		nodes := router.NewNodes(filepath.Join(s.dir, "nodes.json"), c)
		client, err := nodes.Client("n1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err = client.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: v.GetVolumeId()})
		cancel()
		if welcome != (err == nil) {
			t.Errorf("%q gets %v", name, err)
		}
		if err := nodes.Close(); err != nil {
			t.Error(err)
		}
	}
	// Without any certificate not even a file is served.
	addresses, err := router.NewNodes(filepath.Join(s.dir, "nodes.json"), transport.Credentials{}).Addresses()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", addresses["n1"], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return // refused at once
	}
	defer conn.Close()
	// TLS 1.3 tells a client only when it reads.
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a client without a certificate is served")
	}
}
