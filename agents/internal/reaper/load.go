// SPDX-License-Identifier: Apache-2.0

package reaper

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// headBytes of a program hold its headers, which the kernel reads before it has the program take the place of the
	// caller.
	headBytes = 4096
	// maxInterpreters is how often the kernel goes from a script to its interpreter; see BINPRM_MAX_RECURSION in
	// fs/exec.c.
	maxInterpreters = 5
)

// load reads what the kernel is about to read of a program and its interpreters, so that this is in memory when it
// does, however slow the disk is. What stands in line behind that is not covered: a scanner that has to allow the
// execution, or a machine that is out of memory. A thread that forks waits until the child has become its program, and
// the Go runtime takes that for work: when memory is collected, or anything else has the world stop, the whole program
// waits with it. What hangs here is one goroutine.
//
// It has no errors: what cannot be read may be run all the same, and if not, the kernel says why.
func load(dir, path string) {
	if dir != "" {
		_, _ = os.Stat(dir)
	}
	for range maxInterpreters {
		if path == "" {
			return
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path = interpreter(head(path))
	}
}

// head is how a regular file begins; empty when it cannot be read.
func head(path string) []byte {
	// Who opens a pipe waits for somebody at its other end.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	data := make([]byte, headBytes)
	n, err := io.ReadFull(file, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return data[:n]
}

// interpreter of a script or of a dynamically linked program; empty for others.
func interpreter(data []byte) string {
	if script, found := bytes.CutPrefix(data, []byte("#!")); found {
		line, _, _ := bytes.Cut(script, []byte("\n"))
		if words := strings.Fields(string(line)); len(words) > 0 {
			return words[0]
		}
		return ""
	}
	return linker(data)
}

// linker is what the headers of an ELF program name; see elf(5). Every machine that agents run on has 64 bits.
func linker(data []byte) string {
	if len(data) < elf.EI_NIDENT || string(data[:len(elf.ELFMAG)]) != elf.ELFMAG ||
		elf.Class(data[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return ""
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(data[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	var header elf.Header64
	if _, err := binary.Decode(data, order, &header); err != nil {
		return ""
	}
	for n := range uint64(header.Phnum) {
		var segment elf.Prog64
		if _, err := binary.Decode(part(data, header.Phoff+n*uint64(header.Phentsize), uint64(header.Phentsize)), order,
			&segment); err != nil {
			return ""
		}
		if elf.ProgType(segment.Type) == elf.PT_INTERP {
			return string(bytes.TrimRight(part(data, segment.Off, segment.Filesz), "\x00"))
		}
	}
	return ""
}

// part of the data; empty when that does not reach so far.
func part(data []byte, offset, size uint64) []byte {
	if end := uint64(len(data)); offset > end || size > end-offset {
		return nil
	}
	return data[offset : offset+size]
}
