// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/hack/images/internal/apt"
	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/maven"
)

// program image: a repository with one module and an image definition of it.
func programImage(t *testing.T) (*Builder, *definition.Image) {
	t.Helper()
	repo := t.TempDir()
	for name, text := range map[string]string{
		"tool/go.mod":      "module example.test/tool\n\ngo 1.26\n",
		"tool/cmd/main.go": "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
	} {
		file := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	image := &definition.Image{
		Name: "tool", Repository: "zeroinfra/tool", Tag: "1.2.3", Version: "1.2.3", About: "A tool",
		Binaries: []definition.Binary{{Module: "tool", Package: "./cmd", Path: "/tool"}},
		Config:   definition.Config{Entrypoint: []string{"/tool"}, User: "65532:65532", Env: map[string]string{"A": "b"}},
	}
	return &Builder{
		Repo: repo, Out: t.TempDir(), Cache: t.TempDir(), Arch: runtime.GOARCH, Epoch: time.Unix(0, 0).UTC(),
	}, image
}

func TestVersionMustBeOfTheSeries(t *testing.T) {
	for tag, right := range map[string]bool{"7.0": true, "7": true, "7.0.15": true, "7.1": false, "7.0.1": false} {
		in := inputs{
			Image:    &definition.Image{Tag: tag, VersionFrom: "redis-server", Debian: &definition.Debian{Suite: "bookworm"}},
			Packages: []apt.Package{{Name: "redis-server", Version: "5:7.0.15-1"}},
		}
		if err := in.setVersion(); (err == nil) != right || in.Version != "7.0.15" {
			t.Errorf("tag %q: version %q, error %v", tag, in.Version, err)
		}
	}
	for tag, right := range map[string]bool{"4.4": true, "4.3": false} {
		in := inputs{
			Image: &definition.Image{Tag: tag, VersionFrom: "org.test:server"},
			Artifacts: []maven.Artifact{
				{Coordinates: "org.test:server-api:4.3.0"}, {Coordinates: "org.test:server:4.4.0"},
			},
		}
		if err := in.setVersion(); (err == nil) != right || in.Version != "4.4.0" {
			t.Errorf("tag %q: version %q, error %v", tag, in.Version, err)
		}
	}
	in := inputs{Image: &definition.Image{VersionFrom: "gone"}}
	if err := in.setVersion(); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("a package that is not there: %v", err)
	}
}

// TestMavenArtifactsNeedTheirList has the list of an image that is missing, damaged, or made from something else say
// what to do.
func TestMavenArtifactsNeedTheirList(t *testing.T) {
	for want, lock := range map[string]string{
		`there is no list "tool-1.2.3.lock"`: "",
		`tool-1.2.3.lock: line 1: "x"`:       "x\n",
		"tool-1.2.3.lock: the list of Maven artifacts does not match: it was made from another": string(
			maven.Lock{Project: strings.Repeat("a", 64)}.Format()),
	} {
		b, image := programImage(t)
		image.Maven = &definition.Artifacts{Directory: "/opt", Pom: []byte("<project/>"), Lock: []byte(lock)}
		_, err := b.fetchJars(t.Context(), image)
		const remedy = `run "images lock tool:1.2.3"`
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("error %v, want %q and what to run", err, want)
		}
	}
}

func TestPackagesOfAnImageThatIsNotBuilt(t *testing.T) {
	b, image := programImage(t)
	if _, err := b.Packages(image); err == nil || !strings.Contains(err.Error(), "images build tool") {
		t.Errorf("error %v does not say what to do", err)
	}
}
