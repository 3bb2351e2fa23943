// SPDX-License-Identifier: Apache-2.0

// Package tinyonnx makes models of a few bytes, in the format ONNX, that a server can really load and compute with.
package tinyonnx

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Model is a file in the format ONNX that computes y = x · w, where x has rows of as many numbers as w.
func Model(w ...float32) []byte {
	var raw []byte
	for _, number := range w {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(number))
	}
	node := message(text(1, "x"), text(1, "w"), text(2, "y"), text(4, "MatMul"))
	weights := message(number(1, uint64(len(w))), number(1, 1), number(2, float32Type), text(8, "w"), field(9, raw))
	graph := message(field(1, node), text(2, "g"), field(5, weights), field(11, tensor("x", uint64(len(w)))),
		field(12, tensor("y", 1)))
	// Version 8 of the format, and 13 of its operators.
	return message(number(1, 8), field(7, graph), field(8, message(text(1, ""), number(2, 13))))
}

// float32Type is FLOAT of the types of tensors.
const float32Type = 1

// tensor is an input or output of any number of rows.
func tensor(name string, columns uint64) []byte {
	shape := message(field(1, message(text(2, "rows"))), field(1, message(number(1, columns))))
	return message(text(1, name), field(2, message(field(1, message(number(1, float32Type), field(2, shape))))))
}

// message is one of Protocol Buffers.
func message(fields ...[]byte) []byte {
	var all []byte
	for _, f := range fields {
		all = append(all, f...)
	}
	return all
}

func field(n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), content)
}

func text(n protowire.Number, s string) []byte { return field(n, []byte(s)) }

func number(n protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), value)
}
