// SPDX-License-Identifier: Apache-2.0

//go:build linux

package addon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
)

func TestOptionalAddonsAreWhole(t *testing.T) {
	for _, o := range optionals {
		t.Run(o.Name, func(t *testing.T) {
			data, err := o.Render(credentials(t))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "insecure-tls") {
				t.Error("the add-on trusts without checking")
			}
			images := o.images()
			var accounts []string
			deployments := map[Deployment]bool{}
			for _, object := range parse(t, data) {
				switch object.Kind {
				case "ServiceAccount":
					accounts = append(accounts, object.Metadata.Name)
				case "Deployment", "DaemonSet":
					deployments[Deployment{object.Metadata.Namespace, object.Metadata.Name}] = true
					if got := object.Spec.Template.Spec.Containers[0].Image; got != images[object.Metadata.Name] {
						t.Errorf("%s runs %q, which no node has", object.Metadata.Name, got)
					}
				}
			}
			for _, d := range append(o.Deployments(), o.DaemonSets()...) {
				if !deployments[d] || !slices.Contains(accounts, d.Name) {
					t.Errorf("%v is waited for and not made, or has no account", d)
				}
			}
			checkBuilt(t, o)
		})
	}
}

// checkBuilt checks that the add-on's component makes what it runs.
func checkBuilt(t *testing.T, o Optional) {
	t.Helper()
	for _, c := range build.Optional() {
		if c.Name != o.Name {
			continue
		}
		files := c.Files()
		programs := slices.Clone(o.OnControlPlane)
		for _, p := range o.Programs {
			programs = append(programs, p.Program)
		}
		for _, program := range programs {
			if !slices.Contains(files, program) {
				t.Errorf("program %q is not built", program)
			}
		}
		if o.Definitions != "" && !slices.Contains(files, o.Definitions) || o.Version != c.Version {
			t.Errorf("definitions %q of version %s are not made", o.Definitions, o.Version)
		}
		return
	}
	t.Errorf("there is no component %q", o.Name)
}

func TestMetricsAPIIsVerified(t *testing.T) {
	o, err := FindOptional(Metrics)
	if err != nil {
		t.Fatal(err)
	}
	data, err := o.Render(credentials(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range parse(t, data) {
		if object.Kind == "APIService" {
			if object.Spec.InsecureSkipTLSVerify || object.Spec.CABundle == "" {
				t.Errorf("got %+v", object.Spec)
			}
			return
		}
	}
	t.Error("there is no APIService")
}

func TestSnapshotsHaveNoImages(t *testing.T) {
	o, err := FindOptional(controlplane.Snapshots)
	if err != nil {
		t.Fatal(err)
	}
	archives, err := o.WriteImages(filepath.Join(t.TempDir(), "images"), t.TempDir())
	if err != nil || len(archives) != 0 {
		t.Errorf("got %d archives, %v", len(archives), err)
	}
}

func TestOptionalImages(t *testing.T) {
	o, err := FindOptional("cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, p := range o.Programs {
		if err := os.WriteFile(filepath.Join(bin, p.Program), []byte(p.Program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	archives, err := o.WriteImages(filepath.Join(t.TempDir(), "images"), bin)
	if err != nil || len(archives) != len(o.Programs) {
		t.Fatalf("got %d archives, %v", len(archives), err)
	}
	for i, p := range o.Programs {
		if got := archives[i].Entries[0].Name; got != o.images()[p.Name] {
			t.Errorf("image %d is %q", i, got)
		}
	}
	if _, err := FindOptional("nothing"); err == nil || !strings.Contains(err.Error(), "cert-manager") {
		t.Errorf("an add-on that is none gives %v", err)
	}
	if got := Join([]string{"b"}, "a", "b"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("joined: %v", got)
	}
}
