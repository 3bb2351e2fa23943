// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/hack/images/internal/definition"
)

func build(t *testing.T, b *Builder, image *definition.Image) Result {
	t.Helper()
	result, err := b.Build(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestProgramImage(t *testing.T) {
	b, image := programImage(t)
	result := build(t, b, image)
	archive, err := b.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	root := extract(t, archive.Image)
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "tool" {
		t.Errorf("the image holds %v, want only the program", entries)
	}
	config, err := archive.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" ||
		strings.Join(config.Config.Env, " ") != "A=b" || config.Architecture != runtime.GOARCH {
		t.Errorf("config = %+v", config)
	}
	if result.UpToDate || result.Reference != "zeroinfra/tool:1.2.3" || result.Size == 0 {
		t.Errorf("result = %+v", result)
	}
}

// TestBuildsOnlyWhatChanged changes one input after the other.
func TestBuildsOnlyWhatChanged(t *testing.T) {
	b, image := programImage(t)
	first := build(t, b, image)
	if again := build(t, b, image); !again.UpToDate || again.Digest != first.Digest {
		t.Errorf("nothing changed, yet %+v", again)
	}
	image.Config.Env["A"] = "c"
	changed := build(t, b, image)
	if changed.UpToDate || changed.Digest == first.Digest {
		t.Errorf("the definition changed, yet %+v", changed)
	}
	source := filepath.Join(b.Repo, "tool/cmd/main.go")
	text := "package main\n\nvar version string\n\nfunc main() { println(\"new\", version) }\n"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if result := build(t, b, image); result.UpToDate || result.Digest == changed.Digest {
		t.Errorf("the program changed, yet %+v", result)
	}
	if err := os.Truncate(b.ArchivePath(image), 3000); err != nil {
		t.Fatal(err)
	}
	if result := build(t, b, image); result.UpToDate {
		t.Error("a broken archive counted as up to date")
	}
	b.Epoch = time.Unix(1, 0).UTC()
	if result := build(t, b, image); result.UpToDate {
		t.Error("the epoch changed, yet nothing was built")
	}
}

func TestBuildRefuses(t *testing.T) {
	for want, change := range map[string]func(*Builder, *definition.Image){
		`"/bin/x" points to "gone"`: func(_ *Builder, i *definition.Image) {
			i.Symlinks = []definition.Link{{Path: "/bin/x", Target: "gone"}}
		},
		"not a Go module": func(_ *Builder, i *definition.Image) { i.Binaries[0].Module = "absent" },
		`has neither a string variable`: func(_ *Builder, i *definition.Image) {
			i.Binaries[0].VersionVariable = "main.other"
		},
		`architecture "vax"`: func(b *Builder, _ *definition.Image) { b.Arch = "vax" },
		"/tool comes from": func(_ *Builder, i *definition.Image) {
			i.Files = []definition.Node{{Path: "/tool", Content: []byte("x")}}
		},
	} {
		b, image := programImage(t)
		change(b, image)
		if _, err := b.Build(t.Context(), image); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "zeroinfra/tool:1.2.3") {
			t.Errorf("error %v, want %q", err, want)
		}
		if _, err := os.Stat(b.ArchivePath(image)); !os.IsNotExist(err) {
			t.Errorf("an archive was left behind: %v", err)
		}
	}
}
