// SPDX-License-Identifier: Apache-2.0

// Package testflood does to servers of agents what they have to withstand.
package testflood

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Raw is a codec that sends what it is given, as the message of whichever method is called.
type Raw struct{}

// Name implements encoding.CodecV2: it takes the place of the usual one.
func (Raw) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (Raw) Marshal(v any) (mem.BufferSlice, error) { return v.(mem.BufferSlice), nil }

// Unmarshal implements encoding.CodecV2.
func (Raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = Raw{}

// Gibibyte calls a method with one message of a gibibyte, and returns what the server says to that.
func Gibibyte(ctx context.Context, conn grpc.ClientConnInterface, method string) error {
	piece := mem.SliceBuffer(make([]byte, 1<<20))
	var gibibyte mem.BufferSlice
	for range 1 << 10 {
		gibibyte = append(gibibyte, piece)
	}
	var answer []byte
	return conn.Invoke(ctx, method, gibibyte, &answer, grpc.ForceCodecV2(Raw{}), grpc.MaxCallSendMsgSize(2<<30))
}

// Silent makes so many connections that never say who they are. What it returns waits until the server has closed them
// all.
func Silent(t *testing.T, address string, connections int) (closed func()) {
	t.Helper()
	var open sync.WaitGroup
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		open.Go(func() {
			// Nothing is ever sent to somebody who says nothing.
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	return open.Wait
}
