// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package addon holds what a cluster is given besides Kubernetes itself: DNS
// and volumes, and the add-ons that it is asked for, each with images made of
// pinned programs.
package addon

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/image"
	"github.com/zeroinfra/hack/devcluster/internal/network"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// prefix is the registry part of the images' names. There is no such registry:
// the images are only ever loaded.
const prefix = "devcluster.local/"

// PauseImage is the first process of every pod.
const PauseImage = prefix + "pause:" + build.PauseVersion

// busyboxImage is there for tests, and for the small scripts of add-ons.
const busyboxImage = prefix + "busybox:v1"

// Deployment names a workload that must be available.
type Deployment struct{ Namespace, Name string }

// Deployments lists the workloads that every cluster has.
func Deployments() []Deployment { return []Deployment{{"kube-system", "coredns"}} }

// coreDNSImage answers names.
const coreDNSImage = prefix + "coredns:" + build.CoreDNSVersion

// WriteImages writes the archives of the images that every cluster has into a folder below
// dir, from the programs in bin and the machine's static busybox, and opens
// them. Archives that are there already are not written again, those of other
// programs are removed. The pause image comes first.
func WriteImages(dir, bin, busybox string) ([]*image.Archive, error) {
	return writeArchives(dir, specs(bin, busybox))
}

func writeArchives(dir string, specs []image.Spec) ([]*image.Archive, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	key, err := fingerprint(specs)
	if err != nil {
		return nil, err
	}
	final := filepath.Join(dir, key)
	if _, err := os.Stat(final); err != nil {
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("cannot remove old images: %w", err)
		}
		unfinished := final + ".unfinished"
		for _, s := range specs {
			if err := image.Write(filepath.Join(unfinished, fileName(s)), s); err != nil {
				return nil, err
			}
		}
		if err := os.Rename(unfinished, final); err != nil {
			return nil, fmt.Errorf("cannot keep images: %w", err)
		}
	}
	archives := make([]*image.Archive, len(specs))
	for i, s := range specs {
		if archives[i], err = image.Open(filepath.Join(final, fileName(s))); err != nil {
			return nil, err
		}
	}
	return archives, nil
}

func fileName(s image.Spec) string {
	return strings.ReplaceAll(strings.TrimPrefix(s.Name, prefix), ":", "-") + ".tar"
}

func specs(bin, busybox string) []image.Spec {
	return []image.Spec{
		{Name: PauseImage, Entrypoint: []string{"/pause"}, User: "65535:65535", Contents: program(bin, "pause")},
		{Name: busyboxImage, Entrypoint: []string{"/bin/sh"}, Contents: busyboxContents(busybox)},
		{Name: coreDNSImage, Entrypoint: []string{"/coredns"}, Contents: program(bin, "coredns")},
	}
}

// fingerprint changes with anything the images are made of. The programs count
// by their place, which changes with their version, and by size and time.
func fingerprint(specs []image.Spec) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(specs); err != nil {
		return "", err
	}
	for _, s := range specs {
		for _, c := range s.Contents {
			if c.Source == "" {
				continue
			}
			info, err := os.Stat(c.Source)
			if err != nil {
				return "", fmt.Errorf("cannot find the program of image %q: %w", s.Name, err)
			}
			fmt.Fprintln(h, c.Source, info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func program(bin, name string) []image.Content {
	return []image.Content{{Path: "/" + name, Source: filepath.Join(bin, name), Mode: 0o755}}
}

func busyboxContents(busybox string) []image.Content {
	contents := []image.Content{
		{Path: "/bin/busybox", Source: busybox, Mode: 0o755},
		{Path: "/tmp/", Mode: 0o1777},
		{Path: "/etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/sh\n"), Mode: 0o644},
		{Path: "/etc/nsswitch.conf", Data: []byte("passwd: files\ngroup: files\nhosts: files dns\n"), Mode: 0o644},
		{Path: "/etc/group", Data: []byte("root:x:0:\n"), Mode: 0o644},
	}
	for _, applet := range strings.Fields(`[ awk basename cat chmod chown cp cut date dd df dirname du echo env expr false
		find grep head hostname httpd id ip kill ln ls md5sum mkdir mv nc nslookup ping ps pwd readlink rm rmdir sed seq sh
		sha256sum sleep sort stat sync tail tar tee test timeout touch tr true uname uniq vi wc wget which xargs yes`) {
		contents = append(contents, image.Content{Path: "/bin/" + applet, Link: "busybox", Mode: 0o777})
	}
	return contents
}

// Render writes the manifests of what every cluster of so many nodes has.
func Render(nodes int) ([]byte, error) {
	v := map[string]any{
		"Images": map[string]string{"coredns": coreDNSImage}, "Domain": network.Domain, "DNSIP": network.DNSIP,
		"KubeletClient": controlplane.KubeletClient, "StorageUser": controlplane.StorageUser, "CSIName": controlplane.CSIName,
		"DNSReplicas": min(nodes, 2),
	}
	t, err := template.New("").Option("missingkey=error").ParseFS(manifests, "manifests/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's manifests: %w", err)
	}
	var out bytes.Buffer
	for _, name := range []string{"rbac.yaml", "coredns.yaml", "csi.yaml"} {
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		if err := t.ExecuteTemplate(&out, name, v); err != nil {
			return nil, fmt.Errorf("cannot fill manifest %q: %w", name, err)
		}
	}
	return out.Bytes(), nil
}
