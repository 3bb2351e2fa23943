// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"archive/tar"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"
)

// multiarch are the library folders of Debian by machine.
var multiarch = map[elf.Machine]string{
	elf.EM_X86_64:  "x86_64-linux-gnu",
	elf.EM_AARCH64: "aarch64-linux-gnu",
}

// MissingLibraries returns, sorted, what programs and libraries of the tree need
// and the dynamic loader would not find: "/usr/bin/x needs liby.so.1". It looks where
// the loader looks without a cache: RPATH, RUNPATH and the default folders.
func (t *Tree) MissingLibraries() ([]string, error) {
	var missing []string
	for _, name := range t.Paths() {
		e := t.entries[name]
		if e.Type != tar.TypeReg || !t.isELF(e) {
			continue
		}
		needs, err := t.unmet(e)
		if err != nil {
			return nil, fmt.Errorf("cannot read libraries that %q needs: %w", "/"+name, err)
		}
		for _, need := range needs {
			missing = append(missing, fmt.Sprintf("/%s needs %s", name, need))
		}
	}
	return missing, nil
}

func (t *Tree) isELF(e *Entry) bool {
	magic := make([]byte, len(elf.ELFMAG))
	n, _ := t.Open(e).ReadAt(magic, 0)
	return string(magic[:n]) == elf.ELFMAG
}

// unmet returns the needs of one ELF file that nothing in the tree meets.
func (t *Tree) unmet(e *Entry) ([]string, error) {
	file, err := elf.NewFile(t.Open(e))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
		return nil, nil
	}
	var unmet []string
	if loader := interpreter(file); loader != "" && t.Resolve(loader) == nil {
		unmet = append(unmet, loader)
	}
	needed, err := file.ImportedLibraries()
	if err != nil || len(needed) == 0 {
		return unmet, err
	}
	dir := "/" + path.Dir(e.Path)
	folders, err := searched(file, dir)
	if err != nil {
		return nil, err
	}
	if interpreter(file) == "" {
		// A private library may need its neighbour, or one in a folder beside it, which the program that knows the
		// folder has loaded before: those of a Java runtime need server/libjvm.so.
		folders = append(append(folders, dir), t.foldersIn(dir)...)
	}
	for _, library := range needed {
		found := slices.ContainsFunc(folders,
			func(dir string) bool { return t.hasLibrary(path.Join(dir, library), file.Machine) })
		if path.IsAbs(library) {
			found = t.Resolve(library) != nil
		}
		if !found {
			unmet = append(unmet, library)
		}
	}
	return unmet, nil
}

// searched returns the folders where the loader looks for the libraries of a file in dir.
func searched(file *elf.File, dir string) ([]string, error) {
	var folders []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, err := file.DynString(tag)
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			for folder := range strings.SplitSeq(value, ":") {
				folder = strings.NewReplacer("${ORIGIN}", dir, "$ORIGIN", dir).Replace(folder)
				folders = append(folders, folder)
			}
		}
	}
	if triplet := multiarch[file.Machine]; triplet != "" {
		folders = append(folders, "/lib/"+triplet, "/usr/lib/"+triplet)
	}
	return append(folders, "/lib", "/usr/lib"), nil
}

// foldersIn returns the folders in a folder.
func (t *Tree) foldersIn(dir string) []string {
	var folders []string
	for name, e := range t.entries {
		if e.Type == tar.TypeDir && path.Dir("/"+name) == dir {
			folders = append(folders, "/"+name)
		}
	}
	return folders
}

func (t *Tree) hasLibrary(name string, machine elf.Machine) bool {
	e := t.Resolve(name)
	if e == nil || e.Type != tar.TypeReg || !t.isELF(e) {
		return false
	}
	file, err := elf.NewFile(t.Open(e))
	if err != nil {
		return false
	}
	defer file.Close()
	return file.Machine == machine
}

func interpreter(file *elf.File) string {
	for _, p := range file.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		path := make([]byte, p.Filesz)
		if _, err := p.ReadAt(path, 0); err != nil {
			return ""
		}
		return strings.TrimRight(string(path), "\x00")
	}
	return ""
}
