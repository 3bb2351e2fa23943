// SPDX-License-Identifier: Apache-2.0

//go:build linux

package addon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"sigs.k8s.io/yaml"
)

type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Replicas int
		Template struct {
			Spec struct{ Containers []struct{ Image string } }
		}
		InsecureSkipTLSVerify bool
		CABundle              string
	}
}

func render(t *testing.T, nodes int) []object {
	t.Helper()
	data, err := Render(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, data)
}

func credentials(t *testing.T) *controlplane.Credentials {
	t.Helper()
	c, err := cluster.New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := controlplane.OpenCredentials(c)
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

func parse(t *testing.T, data []byte) []object {
	t.Helper()
	var objects []object
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		objects = append(objects, o)
	}
	return objects
}

func TestManifestsUseLoadedImages(t *testing.T) {
	loaded := map[string]bool{}
	for _, s := range specs("/bin", "/bin/busybox") {
		loaded[s.Name] = true
	}
	deployments := map[Deployment]bool{}
	for _, o := range render(t, 3) {
		if o.Kind != "Deployment" {
			continue
		}
		deployments[Deployment{o.Metadata.Namespace, o.Metadata.Name}] = true
		for _, c := range o.Spec.Template.Spec.Containers {
			if !loaded[c.Image] {
				t.Errorf("%s runs %q, which no node has", o.Metadata.Name, c.Image)
			}
		}
	}
	for _, d := range Deployments() {
		if !deployments[d] {
			t.Errorf("%v is waited for and not made", d)
		}
	}
}

func TestOneNodeHasOneDNS(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 2: 2, 5: 2} {
		for _, o := range render(t, nodes) {
			if o.Kind == "Deployment" && o.Metadata.Name == "coredns" && o.Spec.Replicas != want {
				t.Errorf("%d nodes have %d DNS servers, want %d", nodes, o.Spec.Replicas, want)
			}
		}
	}
}

func TestImagesAreWrittenOnce(t *testing.T) {
	bin, dir := t.TempDir(), filepath.Join(t.TempDir(), "images")
	programs := []string{"pause", "coredns", "busybox"}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	paths := func() string {
		t.Helper()
		archives, err := WriteImages(dir, bin, filepath.Join(bin, "busybox"))
		if err != nil {
			t.Fatal(err)
		}
		if archives[0].Entries[0].Name != PauseImage {
			t.Errorf("the first image is %+v", archives[0].Entries)
		}
		return filepath.Dir(archives[0].Path)
	}
	first := paths()
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	second := paths()
	if after, err := os.Stat(second); err != nil || !os.SameFile(before, after) {
		t.Errorf("images were written again: %v", err)
	}
	if err := os.WriteFile(filepath.Join(bin, "coredns"), []byte("a new one"), 0o755); err != nil {
		t.Fatal(err)
	}
	if third := paths(); third == first {
		t.Error("a new program gave no new image")
	}
	if _, err := os.Stat(first); err == nil {
		t.Error("old images are kept")
	}
}
