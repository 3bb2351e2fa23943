// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func newTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := New(t.TempDir(), "first")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func file(path string) Entry { return Entry{Path: path, Mode: 0o644, Origin: "the test"} }

// layer returns the headers of a layer as "type path mode uid:gid link size".
func layer(t *testing.T, tree *Tree, number int) []string {
	t.Helper()
	var b bytes.Buffer
	must(t, tree.WriteLayer(&b, number, time.Unix(7, 0)))
	var lines []string
	for reader := tar.NewReader(&b); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		must(t, err)
		if !h.ModTime.Equal(time.Unix(7, 0)) || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s has time %v and owner names %q, %q", h.Name, h.ModTime, h.Uname, h.Gname)
		}
		lines = append(lines, fmt.Sprintf("%c %s %o %d:%d %s %d", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid, h.Linkname,
			h.Size))
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestLayersHaveOwnersSortedPathsAndOneTime(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutFile(Entry{Path: "/data/b", Mode: 0o4755, UID: 999, GID: 998}, strings.NewReader("same")))
	must(t, tree.PutDir(Entry{Path: "/data", Mode: 0o1777, UID: 5, GID: 6}))
	must(t, tree.PutFile(file("/data-a"), strings.NewReader("")))
	must(t, tree.PutSymlink(Entry{Path: "/l", Target: "data"}))
	tree.StartLayer("second")
	must(t, tree.PutFile(file("/l/c"), strings.NewReader("through the link")))
	expect(t, layer(t, tree, 0),
		"5 data/ 1777 5:6  0", "0 data-a 644 0:0  0", "0 data/b 4755 999:998  4", "2 l 777 0:0 data 0")
	expect(t, layer(t, tree, 1), "0 data/c 644 0:0  16")
}

func TestEqualFilesAreStoredOnce(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutFile(file("/a"), strings.NewReader("same")))
	must(t, tree.PutFile(file("/b"), strings.NewReader("same")))
	must(t, tree.PutFile(Entry{Path: "/c", Mode: 0o600}, strings.NewReader("same")))
	expect(t, layer(t, tree, 0), "0 a 644 0:0  4", "1 b 644 0:0 a 0", "0 c 600 0:0  4")
}

// TestOrderOfInsertionDoesNotMatter makes the same tree in many orders.
func TestOrderOfInsertionDoesNotMatter(t *testing.T) {
	var want []byte
	for range 20 {
		tree := newTree(t)
		for _, n := range rand.Perm(50) {
			must(t, tree.PutFile(file(fmt.Sprintf("/d%d/f%d", n%7, n)), strings.NewReader(fmt.Sprint(n%9))))
		}
		var b bytes.Buffer
		must(t, tree.WriteLayer(&b, 0, time.Unix(0, 0)))
		if want == nil {
			want = b.Bytes()
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Fatal("two orders gave two layers")
		}
	}
}

// TestMergedUsr puts files of packages that use old and new places, folders first as packages do.
func TestMergedUsr(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutMergedUsr())
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./"},
		{Typeflag: tar.TypeDir, Name: "./bin/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "./bin/sh", Mode: 0o755},
		{Typeflag: tar.TypeLink, Name: "./usr/bin/dash", Linkname: "./bin/sh"},
		{Typeflag: tar.TypeSymlink, Name: "./lib64", Linkname: "usr/lib64"},
	} {
		must(t, w.WriteHeader(&h))
	}
	must(t, w.Close())
	must(t, tree.PutTar("package x", &b))
	for _, name := range []string{"/bin/sh", "/usr/bin/sh", "/bin/dash"} {
		if e := tree.Resolve(name); e == nil || e.Mode != 0o755 {
			t.Errorf("Resolve(%q) = %+v", name, e)
		}
	}
	if tree.Entry("/bin").Type != tar.TypeSymlink {
		t.Error("a folder of a package replaced the link /bin")
	}
}

func TestConflictsAreNamed(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutFile(Entry{Path: "/a", Origin: "package one"}, strings.NewReader("1")))
	must(t, tree.PutFile(Entry{Path: "/a", Origin: "package same"}, strings.NewReader("1")))
	err := tree.PutFile(Entry{Path: "/a", Origin: "package two"}, strings.NewReader("2"))
	if err == nil || !strings.Contains(err.Error(), "package one") || !strings.Contains(err.Error(), "package two") {
		t.Errorf("conflict = %v", err)
	}
	if err := tree.PutFile(file("/a/b"), strings.NewReader("")); err == nil {
		t.Error("a file took the place of a folder")
	}
}

func TestDeviceFilesAreRefused(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeChar, Name: "./dev/null"}))
	must(t, w.Close())
	if err := newTree(t).PutTar("package x", &b); err == nil || !strings.Contains(err.Error(), "dev/null") {
		t.Errorf("PutTar = %v", err)
	}
}

func TestResolveEndsOnLoops(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutSymlink(Entry{Path: "/a", Target: "b"}))
	must(t, tree.PutSymlink(Entry{Path: "/b", Target: "/a"}))
	if e := tree.Resolve("/a/x"); e != nil {
		t.Errorf("a loop led to %+v", e)
	}
}

func filterTree(t *testing.T) *Tree {
	tree := newTree(t)
	for _, name := range []string{
		"usr/bin/x", "usr/share/man/man1/x.1", "usr/share/doc/x/copyright", "usr/share/doc/x/NEWS",
		"usr/share/doc/y/NEWS", "var/lib/dpkg/status.d/x", "etc/cron.daily/x",
	} {
		must(t, tree.PutFile(file(name), strings.NewReader(name)))
	}
	must(t, tree.PutSymlink(Entry{Path: "usr/share/doc/z", Target: "x"}))
	must(t, tree.PutDir(Entry{Path: "var/empty", Mode: 0o755}))
	return tree
}

func TestPrune(t *testing.T) {
	tree := filterTree(t)
	tree.Prune([]string{"/usr/share/man", "/usr/share/doc/*/*", "/etc/cron.*", "/var/lib/dpkg"})
	expect(t, tree.Paths(), "usr", "usr/bin", "usr/bin/x", "usr/share", "usr/share/doc", "usr/share/doc/x",
		"usr/share/doc/x/copyright", "usr/share/doc/z", "var", "var/empty",
		"var/lib", "var/lib/dpkg", "var/lib/dpkg/status.d", "var/lib/dpkg/status.d/x")
}

func TestKeep(t *testing.T) {
	tree := filterTree(t)
	tree.Keep([]string{"/etc"})
	expect(t, tree.Paths(), "etc", "etc/cron.daily", "etc/cron.daily/x", "usr", "usr/share", "usr/share/doc",
		"usr/share/doc/x",
		"usr/share/doc/x/copyright", "usr/share/doc/z", "var", "var/lib", "var/lib/dpkg", "var/lib/dpkg/status.d",
		"var/lib/dpkg/status.d/x")
}

func TestBundleCertificates(t *testing.T) {
	tree := newTree(t)
	must(t, tree.BundleCertificates())
	expect(t, tree.Paths())
	must(t, tree.PutFile(file("usr/share/ca-certificates/mozilla/B.crt"), strings.NewReader("bbb")))
	must(t, tree.PutFile(file("usr/share/ca-certificates/mozilla/A.crt"), strings.NewReader("aaa\n\n")))
	must(t, tree.BundleCertificates())
	got, err := tree.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	must(t, err)
	if string(got) != "aaa\nbbb\n" {
		t.Errorf("bundle = %q", got)
	}
	if tree.Entry("/usr/share/ca-certificates") != nil {
		t.Error("the single certificates are still there")
	}
}

func TestAccountsAndStatus(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutAccounts([]Account{{Name: "redis", UID: 999, GID: 998, Home: "/data", Shell: "/bin/sh"}},
		[]GroupLine{{Name: "redis", GID: 998}}))
	passwd, err := tree.ReadFile("/etc/passwd")
	must(t, err)
	group, err := tree.ReadFile("/etc/group")
	must(t, err)
	if string(passwd) != "redis:x:999:998::/data:/bin/sh\n" || string(group) != "redis:x:998:\n" {
		t.Errorf("passwd %q, group %q", passwd, group)
	}
	must(t, tree.PutStatus("redis", "Package: redis\nVersion: 5:7-1\n"))
	text, err := tree.ReadFile("/var/lib/dpkg/status.d/redis")
	must(t, err)
	if got := StatusPackage(string(text)); got != "redis=5:7-1" || !IsStatus("var/lib/dpkg/status.d/redis") {
		t.Errorf("status = %q", got)
	}
}

// TestLibraryBesideALibrary has a library of this machine need one in a folder beside it, as the libraries of a Java
// runtime do.
func TestLibraryBesideALibrary(t *testing.T) {
	libraries, err := filepath.Glob("/lib/*-linux-gnu/libm.so.6")
	must(t, err)
	if len(libraries) == 0 {
		t.Fatal("this machine has no libm.so.6 where Debian has it: install libc6")
	}
	tree := newTree(t)
	must(t, tree.PutHostFile(Entry{Path: "/opt/it/libm.so.6", Mode: 0o644}, libraries[0]))
	missing, err := tree.MissingLibraries()
	must(t, err)
	if !slices.Contains(missing, "/opt/it/libm.so.6 needs libc.so.6") {
		t.Fatalf("missing = %q, want the C library", missing)
	}
	must(t, tree.PutHostFile(Entry{Path: "/opt/it/in/side/libc.so.6", Mode: 0o644}, libraries[0]))
	missing, err = tree.MissingLibraries()
	must(t, err)
	if !slices.Contains(missing, "/opt/it/libm.so.6 needs libc.so.6") {
		t.Errorf("missing = %q, yet the C library is not in a folder beside", missing)
	}
	must(t, tree.PutHostFile(Entry{Path: "/opt/it/beside/libc.so.6", Mode: 0o644}, libraries[0]))
	missing, err = tree.MissingLibraries()
	must(t, err)
	if slices.Contains(missing, "/opt/it/libm.so.6 needs libc.so.6") {
		t.Errorf("missing = %q, and the C library is beside", missing)
	}
}

// TestMissingLibraries takes a program of this machine without and with its libraries.
func TestMissingLibraries(t *testing.T) {
	tree := newTree(t)
	must(t, tree.PutMergedUsr())
	must(t, tree.PutHostFile(Entry{Path: "/bin/cat", Mode: 0o755}, "/bin/cat"))
	missing, err := tree.MissingLibraries()
	must(t, err)
	if len(missing) != 2 || !strings.Contains(missing[0], "/ld-linux") || missing[1] != "/usr/bin/cat needs libc.so.6" {
		t.Fatalf("missing = %q, want the loader and the C library", missing)
	}
	loader := strings.TrimPrefix(missing[0], "/usr/bin/cat needs ")
	must(t, tree.PutHostFile(Entry{Path: loader, Mode: 0o755}, loader))
	must(t, tree.PutHostFile(Entry{Path: "/usr/lib/libc.so.6", Mode: 0o755}, "/bin/cat"))
	missing, err = tree.MissingLibraries()
	must(t, err)
	expect(t, missing)
}
