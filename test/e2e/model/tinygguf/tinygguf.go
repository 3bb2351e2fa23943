// SPDX-License-Identifier: Apache-2.0

// Package tinygguf makes a language model of a few hundred kilobytes, in the format GGUF, that a server can really load
// and generate tokens with, and LoRA adapters for it. Weights are pseudo-random, so what it says has no meaning.
package tinygguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Shape of the model: a llama of two layers.
const (
	vocabulary = 320
	embedding  = 64
	feeding    = 128
	heads      = 4
	layers     = 2
	context    = 512
	// longContext is that of a model whose answers take long.
	longContext = 32768
	alignment   = 32
	// rank of an adapter.
	rank = 4
)

// Types of values in the metadata of a GGUF file, version 3.
const (
	typeUint32  uint32 = 4
	typeInt32   uint32 = 5
	typeFloat32 uint32 = 6
	typeString  uint32 = 8
	typeArray   uint32 = 9
)

// Kinds of tokens.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	byteToken    = 6
)

// Model returns the file. The same seed gives the same file.
func Model(seed uint64) []byte { return model(seed, context) }

// LongModel is Model with a context of 32,768 tokens, so that one answer can take many seconds.
func LongModel(seed uint64) []byte { return model(seed, longContext) }

func model(seed uint64, context int) []byte {
	w := &writer{}
	w.metadata(context)
	w.tensors(rand.New(rand.NewPCG(seed, seed)))
	return w.file()
}

// Adapter returns the file of a LoRA adapter for all models of this package: it changes the last layer by so much that
// the model says something else. The same seed gives the same file.
func Adapter(seed uint64) []byte {
	w, random := &writer{}, rand.New(rand.NewPCG(seed, seed))
	w.key("general.type", "adapter")
	w.key("general.architecture", "llama")
	w.key("adapter.type", "lora")
	w.key("adapter.lora.alpha", float32(rank))
	w.matrix("output.weight.lora_a", embedding, rank, 1, random)
	w.matrix("output.weight.lora_b", rank, vocabulary, 1, random)
	return w.file()
}

// file is the whole file: header, metadata, descriptions of the tensors and their values.
func (w *writer) file() []byte {
	out := &writer{}
	out.WriteString("GGUF")
	out.put(uint32(3), uint64(len(w.infos)), uint64(w.keys))
	out.Write(w.Bytes())
	var data writer
	for _, t := range w.infos {
		out.text(t.name)
		out.put(uint32(len(t.shape)), t.shape, uint32(0), uint64(data.Len()))
		data.put(t.values)
		data.pad()
	}
	out.pad()
	out.Write(data.Bytes())
	return out.Bytes()
}

type tensor struct {
	name   string
	shape  []uint64
	values []float32
}

type writer struct {
	bytes.Buffer
	keys  int
	infos []tensor
}

// put writes numbers, little endian, to memory.
func (w *writer) put(values ...any) {
	for _, value := range values {
		if err := binary.Write(w, binary.LittleEndian, value); err != nil {
			panic(err)
		}
	}
}

func (w *writer) text(s string) {
	w.put(uint64(len(s)))
	w.WriteString(s)
}

func (w *writer) pad() { w.Write(make([]byte, (alignment-w.Len()%alignment)%alignment)) }

// key writes an entry of the metadata.
func (w *writer) key(name string, value any) {
	w.keys++
	w.text(name)
	switch v := value.(type) {
	case string:
		w.put(typeString)
		w.text(v)
	case int:
		w.put(typeUint32, uint32(v))
	case float32:
		w.put(typeFloat32, v)
	case []string:
		w.put(typeArray, typeString, uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	case []int32:
		w.put(typeArray, typeInt32, uint64(len(v)), v)
	case []float32:
		w.put(typeArray, typeFloat32, uint64(len(v)), v)
	}
}

func (w *writer) metadata(context int) {
	w.key("general.architecture", "llama")
	w.key("general.name", "tiny")
	for name, number := range map[string]int{"context_length": context, "embedding_length": embedding,
		"block_count":         layers,
		"feed_forward_length": feeding, "attention.head_count": heads, "attention.head_count_kv": heads,
		"rope.dimension_count": embedding / heads, "vocab_size": vocabulary} {
		w.key("llama."+name, number)
	}
	w.key("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	tokens, kinds := vocabularyOf()
	w.key("tokenizer.ggml.model", "llama")
	w.key("tokenizer.ggml.tokens", tokens)
	w.key("tokenizer.ggml.scores", make([]float32, len(tokens)))
	w.key("tokenizer.ggml.token_type", kinds)
	for name, id := range map[string]int{"unknown": 0, "bos": 1, "eos": 2} {
		w.key("tokenizer.ggml."+name+"_token_id", id)
	}
}

// vocabularyOf are the tokens: three of control, all bytes, letters, and words that fill it up.
func vocabularyOf() ([]string, []int32) {
	tokens, kinds := []string{"<unk>", "<s>", "</s>"}, []int32{unknownToken, controlToken, controlToken}
	add := func(kind int32, token string) { tokens, kinds = append(tokens, token), append(kinds, kind) }
	for b := range 256 {
		add(byteToken, fmt.Sprintf("<0x%02X>", b))
	}
	for _, letter := range "\u2581abcdefghijklmnopqrstuvwxyz.,!?" {
		add(normalToken, string(letter))
	}
	for len(tokens) < vocabulary {
		add(normalToken, fmt.Sprintf("\u2581w%d", len(tokens)))
	}
	return tokens, kinds
}

// matrix adds a tensor of random values with a standard deviation.
func (w *writer) matrix(name string, columns, rows int, deviation float64, random *rand.Rand) {
	t := tensor{name: name, shape: []uint64{uint64(columns), uint64(rows)}, values: make([]float32, columns*rows)}
	for i := range t.values {
		t.values[i] = float32(random.NormFloat64() * deviation)
	}
	w.infos = append(w.infos, t)
}

func (w *writer) tensors(random *rand.Rand) {
	matrix := func(name string, columns, rows int) { w.matrix(name+".weight", columns, rows, 0.05, random) }
	ones := func(name string) {
		t := tensor{name: name + ".weight", shape: []uint64{embedding}, values: make([]float32, embedding)}
		for i := range t.values {
			t.values[i] = 1
		}
		w.infos = append(w.infos, t)
	}
	matrix("token_embd", embedding, vocabulary)
	ones("output_norm")
	matrix("output", embedding, vocabulary)
	for layer := range layers {
		block := fmt.Sprintf("blk.%d.", layer)
		ones(block + "attn_norm")
		ones(block + "ffn_norm")
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			matrix(block+name, embedding, embedding)
		}
		matrix(block+"ffn_gate", embedding, feeding)
		matrix(block+"ffn_up", embedding, feeding)
		matrix(block+"ffn_down", feeding, embedding)
	}
}
