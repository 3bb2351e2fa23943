// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package build compiles the pinned programs that a cluster is made of and
// keeps them in a cache.
//
// Every component is a small Go module of its own under components/<name>, so
// that nothing of its dependency graph enters any module of this project.
package build

import "strings"

// Binary is one program of a component.
type Binary struct {
	// Name is the file name of the program.
	Name string
	// Package is the import path of its main package.
	Package string
}

// Component is one pinned Go module with the programs that are built from it.
type Component struct {
	// Name is the folder below components/.
	Name string
	// Module is the path of the Go module that holds the programs.
	Module string
	// Version is the pinned version of Module.
	Version string
	// Staging is the version that stands in for the modules which Module
	// replaces by folders of its own repository, empty for Version itself.
	Staging string
	// Skip names replaced modules that are not needed and not published.
	Skip []string
	// Binaries are the programs to build.
	Binaries []Binary
	// Variables are set by the linker (-X name=value).
	Variables []string
}

// Versions of the programs, as people know them.
const (
	KubernetesVersion  = "v1.34.4"
	EtcdVersion        = "v3.6.5"
	CoreDNSVersion     = "v1.12.4"
	ProvisionerVersion = "v0.0.30"
	MetricsVersion     = "v0.7.2"
	PauseVersion       = "v1.0.0"
)

// Components returns all pinned components in the order in which they are
// built: what a cluster needs first comes first.
func Components() []Component {
	return []Component{
		{
			Name: "pause", Module: "github.com/zeroinfra/hack/devcluster/components/pause", Version: PauseVersion,
			Binaries: []Binary{{"pause", "."}},
		},
		{
			Name: "etcd", Module: "go.etcd.io/etcd/server/v3", Version: EtcdVersion,
			Skip:     []string{"go.etcd.io/etcd", "go.etcd.io/tests/v3"},
			Binaries: []Binary{{"etcd", "go.etcd.io/etcd/server/v3"}},
		},
		kubernetes(),
		{
			Name: "coredns", Module: "github.com/coredns/coredns", Version: CoreDNSVersion,
			Binaries: []Binary{{"coredns", "github.com/coredns/coredns"}},
		},
		{
			Name: "local-path-provisioner", Module: "github.com/rancher/local-path-provisioner", Version: ProvisionerVersion,
			Binaries:  []Binary{{"local-path-provisioner", "github.com/rancher/local-path-provisioner"}},
			Variables: []string{"main.VERSION=" + ProvisionerVersion},
		},
		{
			Name: "metrics-server", Module: "sigs.k8s.io/metrics-server", Version: MetricsVersion,
			Binaries:  []Binary{{"metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"}},
			Variables: []string{"sigs.k8s.io/metrics-server/pkg/version.gitVersion=" + MetricsVersion},
		},
	}
}

func kubernetes() Component {
	c := Component{
		Name: "kubernetes", Module: "k8s.io/kubernetes", Version: KubernetesVersion,
		Staging: strings.Replace(KubernetesVersion, "v1.", "v0.", 1),
		Skip:    []string{"k8s.io/sample-cli-plugin", "k8s.io/sample-controller"},
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"} {
		c.Binaries = append(c.Binaries, Binary{name, "k8s.io/kubernetes/cmd/" + name})
	}
	parts := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		c.Variables = append(c.Variables,
			pkg+".gitVersion="+KubernetesVersion,
			pkg+".gitMajor="+parts[0],
			pkg+".gitMinor="+parts[1],
			pkg+".gitTreeState=clean",
		)
	}
	return c
}
