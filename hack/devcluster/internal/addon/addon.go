// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package addon holds what a cluster is given besides Kubernetes itself: DNS,
// volumes and metrics, each with an image made of a pinned program.
package addon

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
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

// busyboxImage runs the provisioner's small scripts.
const busyboxImage = prefix + "busybox:v1"

// Deployment names a workload that must be available.
type Deployment struct{ Namespace, Name string }

// Deployments lists the add-ons' workloads.
func Deployments() []Deployment {
	return []Deployment{
		{"kube-system", "coredns"},
		{"local-path-storage", "local-path-provisioner"},
		{"kube-system", "metrics-server"},
	}
}

func images() map[string]string {
	return map[string]string{
		"busybox":                busyboxImage,
		"coredns":                prefix + "coredns:" + build.CoreDNSVersion,
		"local-path-provisioner": prefix + "local-path-provisioner:" + build.ProvisionerVersion,
		"metrics-server":         prefix + "metrics-server:" + build.MetricsVersion,
	}
}

// WriteImages writes the archives of all add-ons' images into a folder below
// dir, from the programs in bin and the machine's static busybox, and opens
// them. Archives that are there already are not written again, those of other
// programs are removed. The pause image comes first.
func WriteImages(dir, bin, busybox string) ([]*image.Archive, error) {
	return writeArchives(dir, specs(bin, busybox))
}

func writeArchives(dir string, specs []image.Spec) ([]*image.Archive, error) {
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
	all := []image.Spec{
		{Name: PauseImage, Entrypoint: []string{"/pause"}, User: "65535:65535", Contents: program(bin, "pause")},
		{Name: busyboxImage, Entrypoint: []string{"/bin/sh"}, Contents: busyboxContents(busybox)},
	}
	for _, name := range []string{"coredns", "local-path-provisioner", "metrics-server"} {
		all = append(all, image.Spec{Name: images()[name], Entrypoint: []string{"/" + name}, Contents: program(bin, name)})
	}
	return all
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

// values fill the manifests.
type values struct {
	Images                       map[string]string
	Domain, DNSIP, KubeletClient string
	StorageUser, CSIName         string
	DNSReplicas                  int
	CA, MetricsCert, MetricsKey  string
}

// Render writes the manifests of all add-ons for a cluster of so many nodes.
func Render(creds *controlplane.Credentials, nodes int) ([]byte, error) {
	const host = "metrics-server.kube-system.svc"
	serving, err := creds.Server("metrics-server", "metrics-server", []string{host})
	if err != nil {
		return nil, err
	}
	b64 := base64.StdEncoding.EncodeToString
	v := values{
		Images: images(), Domain: network.Domain, DNSIP: network.DNSIP, KubeletClient: controlplane.KubeletClient,
		StorageUser: controlplane.StorageUser, CSIName: controlplane.CSIName,
		DNSReplicas: min(nodes, 2),
		CA:          b64(creds.CA.PEM), MetricsCert: b64(serving.Cert), MetricsKey: b64(serving.Key),
	}
	t, err := template.New("").Option("missingkey=error").ParseFS(manifests, "manifests/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("cannot read the add-ons' manifests: %w", err)
	}
	var out bytes.Buffer
	for _, name := range []string{"rbac.yaml", "coredns.yaml", "local-path.yaml", "csi.yaml", "metrics-server.yaml"} {
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		if err := t.ExecuteTemplate(&out, name, v); err != nil {
			return nil, fmt.Errorf("cannot fill manifest %q: %w", name, err)
		}
	}
	return out.Bytes(), nil
}
