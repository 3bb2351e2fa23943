// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/oci"
	"github.com/zeroinfra/hack/images/internal/sources"
)

func redisImage(t *testing.T) (*Builder, *definition.Image) {
	t.Helper()
	return realImage(t, "zeroinfra/redis:7.0")
}

// realImage returns the real definition of an image and a builder that shares
// downloaded packages with the command line.
func realImage(t *testing.T, reference string) (*Builder, *definition.Image) {
	t.Helper()
	base, found, err := definition.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range found {
		images, err := source.Images(base, "0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			if image.Reference() == reference {
				return &Builder{
					Repo: "../../../..", Out: t.TempDir(), Cache: filepath.Join(user, "zeroinfra/images"), Arch: runtime.GOARCH,
					Epoch: time.Unix(0, 0).UTC(),
				}, image
			}
		}
	}
	t.Fatalf("no definition makes %s", reference)
	return nil, nil
}

// TestRedis builds the real image twice, runs what is inside and pushes it.
func TestRedis(t *testing.T) {
	b, image := redisImage(t)
	first := build(t, b, image)
	one, err := os.ReadFile(first.Archive)
	if err != nil {
		t.Fatal(err)
	}
	b.Out = t.TempDir()
	second := build(t, b, image)
	two, err := os.ReadFile(second.Archive)
	if err != nil {
		t.Fatal(err)
	}
	if second.UpToDate || first.Digest != second.Digest || !bytes.Equal(one, two) {
		t.Fatalf("two builds from the same inputs gave %s and %s", first.Digest, second.Digest)
	}
	if third := build(t, b, image); !third.UpToDate {
		t.Error("nothing changed, yet it was built again")
	}
	if limit := int64(16 << 20); first.Size > limit {
		t.Errorf("the image has %d bytes, more than %d", first.Size, limit)
	}
	packages, err := b.Packages(image)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(p, "redis-server=5:7.0.") }) {
		t.Errorf("packages = %q, redis-server 7.0 is not among them", packages)
	}
	archive, err := b.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	config, err := archive.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	version := config.Config.Labels["org.opencontainers.image.version"]
	if !strings.HasPrefix(version, "7.0.") || config.Config.User != "999:999" {
		t.Errorf("version %q, user %q", version, config.Config.User)
	}
	root := extract(t, archive.Image)
	checkRedisFiles(t, root, image)
	checkRedisRuns(t, root, version)
	checkPush(t, archive.Image)
}

// unpacked builds an image of the suite and returns the folder that it was extracted to.
func unpacked(t *testing.T, reference string) (root string) {
	t.Helper()
	root, _ = imageRoot(t, reference)
	return root
}

// extract writes the files of an image into a folder.
func extract(t *testing.T, image v1.Image) string {
	t.Helper()
	// Other users must be able to look in, and t.TempDir is for its owner only.
	root, err := os.MkdirTemp("", "image-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	stream := mutate.Extract(image)
	defer stream.Close()
	for reader := tar.NewReader(stream); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err == nil {
			err = extractEntry(root, h, reader)
		}
		if err != nil {
			t.Fatalf("cannot extract the image: %v", err)
		}
	}
}

func extractEntry(root string, h *tar.Header, content io.Reader) error {
	name := filepath.Join(root, h.Name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		// Folders stay writable, so that this also works without the rights of root.
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return os.Chmod(name, os.FileMode(h.Mode&0o777)|0o700)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return os.Link(filepath.Join(root, h.Linkname), name)
	default:
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		return os.WriteFile(name, data, os.FileMode(h.Mode&0o777))
	}
}

// checkRedisFiles looks for what must be in the image and for what must not.
func checkRedisFiles(t *testing.T, root string, image *definition.Image) {
	t.Helper()
	for _, name := range []string{
		"usr/bin/redis-server", "usr/bin/redis-cli", "usr/bin/redis-benchmark", "usr/bin/redis-check-aof",
		"usr/bin/redis-check-rdb",
		"bin/sh", "etc/ssl/certs/ca-certificates.crt", "usr/lib/locale/C.utf8/LC_CTYPE",
		"usr/share/doc/redis-server/copyright",
		"usr/share/common-licenses/GPL-2", "etc/os-release", "data", "tmp",
	} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("the image lacks %s: %v", name, err)
		}
	}
	for _, name := range []string{"usr/share/man", "usr/share/locale", "usr/bin/perl", "var/lib/apt", "var/lib/dpkg/info",
		"etc/redis", "etc/init.d"} {
		if _, err := os.Lstat(filepath.Join(root, name)); !os.IsNotExist(err) {
			t.Errorf("the image holds %s", name)
		}
	}
	applets, err := inside(root, 4242, "/bin/busybox", "--list")
	if err != nil {
		t.Fatalf("busybox does not run: %v: %s", err, applets)
	}
	for _, link := range image.Symlinks {
		if link.Target == "busybox" && !slices.Contains(strings.Fields(applets), filepath.Base(link.Path)) {
			t.Errorf("%s is a link to busybox, which has no such tool", link.Path)
		}
	}
}

// checkRedisRuns runs the programs as a user that the image does not know.
func checkRedisRuns(t *testing.T, root, version string) {
	t.Helper()
	for _, name := range []string{"redis-server", "redis-cli", "redis-benchmark", "redis-check-rdb"} {
		out, err := inside(root, 4242, "/usr/bin/"+name, "--version")
		if err != nil || !strings.Contains(out, version) {
			t.Errorf("%s --version printed %q, %v, want %s", name, out, err, version)
		}
	}
	if out, err := inside(root, 4242, "/usr/bin/redis-check-aof", "/gone"); err == nil ||
		!strings.Contains(out, "Cannot open file") {
		t.Errorf("redis-check-aof printed %q, %v", out, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	script := `mkdir /tmp/d && cd /tmp/d
redis-server --port 0 --unixsocket /tmp/d/s --save "" >/tmp/d/log 2>&1 &
trap "kill $!" EXIT
n=0; until redis-cli -s /tmp/d/s ping 2>/dev/null; do
  n=$((n+1)); [ $n -lt 100 ] || { cat /tmp/d/log; exit 1; }; sleep 0.1
done
redis-cli -s /tmp/d/s set k v; redis-cli -s /tmp/d/s get k; id -u`
	// The shell wants /dev/null, which a container runtime provides.
	null := filepath.Join(root, "dev/null")
	err := errors.Join(os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky), os.WriteFile(null, nil, 0o666),
		os.Chmod(null, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	out, err := inside(root, 4242, "/bin/sh", "-c", script)
	if err != nil || strings.Join(strings.Fields(out), " ") != "PONG OK v 4242" {
		t.Errorf("a server in the image answered %q, %v", out, err)
	}
}

// inside runs a program of an extracted image: with root's rights in a chroot as
// another user, else through the image's own loader and libraries.
func inside(root string, uid uint32, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/bin", "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	} else {
		loaders, err := filepath.Glob(filepath.Join(root, "lib*/ld-linux-*.so.*"))
		if err != nil || len(loaders) == 0 {
			return "", errors.Join(err, errors.New("the image has no loader"))
		}
		libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
		if err != nil {
			return "", err
		}
		cmd = exec.Command(loaders[0], append(
			[]string{"--library-path", strings.Join(libraries, ":"), filepath.Join(root, program)}, args...)...)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// checkPush sends the image to a registry and takes it back.
func checkPush(t *testing.T, image v1.Image) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref, err := oci.Reference(strings.TrimPrefix(server.URL, "http://"), "zeroinfra/redis:7.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := oci.Push(t.Context(), ref, image); err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); err != nil || got != want {
		t.Errorf("pulled %s, %v, pushed %s", got, err, want)
	}
}

// TestPackagesOfAnUnknownSignerAreRefused gives the archive the keys of another signer.
func TestPackagesOfAnUnknownSignerAreRefused(t *testing.T) {
	b, image := redisImage(t)
	b.Cache, b.Host = t.TempDir(), t.TempDir()
	entries, err := sources.ReadHost("/")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile("/usr/share/keyrings/debian-archive-removed-keys.gpg")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(b.Host, "other.gpg")
	for i := range entries {
		entries[i].SignedBy = other
	}
	dir := filepath.Join(b.Host, "etc/apt/sources.list.d")
	err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(other, keys, 0o644),
		os.WriteFile(filepath.Join(dir, "x.sources"), []byte(sources.Format(entries)), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Build(t.Context(), image)
	if err == nil || !strings.Contains(err.Error(), "cannot fetch package lists") ||
		!strings.Contains(err.Error(), "NO_PUBKEY") {
		t.Errorf("packages whose signature cannot be checked: %v", err)
	}
}
