// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package build compiles the pinned programs that a cluster is made of and
// keeps them in a cache.
//
// Every component is a small Go module of its own under components/<name>, so
// that nothing of its dependency graph enters any module of this project.
package build

import (
	"fmt"
	"strings"
)

// Binary is one program of a component.
type Binary struct {
	// Name is the file name of the program.
	Name string
	// Package is the import path of its main package.
	Package string
}

// Upstream is a Go module at a pinned version.
type Upstream struct{ Module, Version string }

// Component is one pinned Go module with the programs that are built from it.
type Component struct {
	// Name names the component and, unless Folder is set, is its folder below
	// components/.
	Name string
	// Folder is the component's folder, seen from components/.
	Folder string
	// Module is the path of the Go module that holds the programs.
	Module string
	// Version is the pinned version of Module.
	Version string
	// Beside are modules whose programs are built from the same dependencies,
	// so that what they share is compiled once, and those that have to be newer
	// than Module requires.
	Beside []Upstream
	// Staging is the version that stands in for the modules which Module
	// replaces by folders of its own repository, empty for Version itself.
	Staging string
	// Skip names replaced modules that are not needed and not published.
	Skip []string
	// Vouched names required modules that the public checksum database does not
	// know; the checksums in the upstream modules' own go.sum are used.
	Vouched []string
	// Binaries are the programs to build.
	Binaries []Binary
	// Manifests are the files of objects that come with the modules.
	Manifests []Manifest
	// Variables are set by the linker (-X name=value).
	Variables []string
}

// Manifest is a file that is put together from files of a module.
type Manifest struct {
	// Name is the file that is made.
	Name string
	// Module is the path of the module, in the version that is required.
	Module string
	// Pattern matches the files, seen from the module's folder.
	Pattern string
}

// Dir is the component's folder, seen from components/.
func (c Component) Dir() string {
	if c.Folder != "" {
		return c.Folder
	}
	return c.Name
}

// own is the part of a module's path that says that it is this project's.
const own = "github.com/zeroinfra"

// Own tells whether the component is a module of this project, which pins what it requires itself.
func (c Component) Own() bool { return strings.HasPrefix(c.Module, own+"/") }

// Upstreams are Module and those beside it.
func (c Component) Upstreams() []Upstream {
	return append([]Upstream{{c.Module, c.Version}}, c.Beside...)
}

// Files are the names of all that is made of the component.
func (c Component) Files() []string {
	var names []string
	for _, b := range c.Binaries {
		names = append(names, b.Name)
	}
	for _, m := range c.Manifests {
		names = append(names, m.Name)
	}
	return names
}

// Versions of the programs, as people know them.
const (
	KubernetesVersion  = "v1.34.4"
	OldestKubernetes   = "v1.30.14"
	NewestKubernetes   = "v1.36.3"
	EtcdVersion        = "v3.6.5"
	CoreDNSVersion     = "v1.12.4"
	ProvisionerVersion = "v0.0.30"
	MetricsVersion     = "v0.8.0"
	PauseVersion       = "v1.0.0"
	DriverVersion      = "v1.0.0"
	PoliciesVersion    = "v1.0.0"
	CSIVersion         = "v5.3.0"
	SnapshotsVersion   = "v8.3.0"
	CertManagerVersion = "v1.11.5"
	GatewayVersion     = "v3.6.12"
)

// Files of definitions that are made beside the programs.
const (
	SnapshotDefinitions    = "snapshot-definitions.yaml"
	CertManagerDefinitions = "cert-manager-definitions.yaml"
	GatewayDefinitions     = "gateway-definitions.yaml"
)

// Optional returns the components of add-ons that a cluster has only when it is
// asked to.
func Optional() []Component {
	return append([]Component{{
		Name: "network-policies", Folder: "../../netpol", Module: own + "/hack/netpol", Version: PoliciesVersion,
		Binaries: []Binary{{"network-policies", "."}},
	}, certManager(), gateway()}, optionalFamily()...)
}

// findOptional returns an optional component by its name.
func findOptional(name string) (Component, error) {
	for _, c := range Optional() {
		if c.Name == name {
			return c, nil
		}
	}
	return Component{}, fmt.Errorf("cannot find component %q", name)
}

// optionalFamily are the optional components that are built against Kubernetes' own modules.
func optionalFamily() []Component {
	const snapshotter = "github.com/kubernetes-csi/external-snapshotter"
	return []Component{
		{
			Name: "local-path", Module: "github.com/rancher/local-path-provisioner", Version: ProvisionerVersion,
			Binaries:  []Binary{{"local-path-provisioner", "github.com/rancher/local-path-provisioner"}},
			Variables: []string{"main.VERSION=" + ProvisionerVersion},
		}, {
			Name: "metrics", Module: "sigs.k8s.io/metrics-server", Version: MetricsVersion,
			Binaries:  []Binary{{"metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"}},
			Variables: []string{"sigs.k8s.io/metrics-server/pkg/version.gitVersion=" + MetricsVersion},
		}, {
			Name: "snapshots", Module: snapshotter + "/v8", Version: SnapshotsVersion, Staging: "v8.2.0",
			Binaries: []Binary{
				{"csi-snapshotter", snapshotter + "/v8/cmd/csi-snapshotter"},
				{"snapshot-controller", snapshotter + "/v8/cmd/snapshot-controller"},
			},
			Manifests: []Manifest{{
				SnapshotDefinitions, snapshotter + "/client/v8", "config/crd/snapshot.storage.k8s.io_*.yaml",
			}},
		},
	}
}

func certManager() Component {
	const cm = "github.com/cert-manager/cert-manager"
	return Component{
		Name: "cert-manager", Module: cm, Version: CertManagerVersion,
		Binaries: []Binary{
			{"cert-manager-controller", cm + "/cmd/controller"},
			{"cert-manager-webhook", cm + "/cmd/webhook"},
			{"cert-manager-cainjector", cm + "/cmd/cainjector"},
		},
		Manifests: []Manifest{{CertManagerDefinitions, cm, "deploy/crds/crd-*.yaml"}},
		Variables: []string{cm + "/pkg/util.AppVersion=" + CertManagerVersion},
	}
}

// gateway is Traefik, which has its definitions of the Gateway API from the version that it is compiled with.
func gateway() Component {
	const traefik = "github.com/traefik/traefik/v3"
	return Component{
		Name: "gateway", Module: traefik, Version: GatewayVersion,
		Binaries: []Binary{{"traefik", traefik + "/cmd/traefik"}},
		Manifests: []Manifest{{
			GatewayDefinitions, "sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_*.yaml",
		}},
		Variables: []string{traefik + "/pkg/version.Version=" + GatewayVersion},
	}
}

// APIServer names one of the API servers that tests run against.
type APIServer string

// The API servers: the cluster's own, the oldest that the operators support, and the newest that can be built.
const (
	OwnServer    APIServer = ""
	OldestServer APIServer = "oldest"
	NewestServer APIServer = "newest"
)

// Servers returns the components that hold an API server, and the controllers that tests let loose on its objects.
func Servers() []Component {
	programs := []string{"kube-apiserver", "kube-controller-manager"}
	return []Component{
		kubernetesOf(serverComponent(OldestServer), OldestKubernetes, programs...),
		kubernetesOf(serverComponent(NewestServer), NewestKubernetes, programs...),
	}
}

func serverComponent(s APIServer) string { return "kubernetes-" + string(s) }

// componentsFor returns what a folder with this API server is made of: a whole cluster, or
// what tests need that have no nodes.
func componentsFor(s APIServer) ([]Component, error) {
	if s == OwnServer {
		return Components(), nil
	}
	for _, server := range Servers() {
		if server.Name == serverComponent(s) {
			return []Component{etcd(), server}, nil
		}
	}
	return nil, fmt.Errorf("cannot find API server %q: there are %q and %q", s, OldestServer, NewestServer)
}

func etcd() Component {
	return Component{
		Name: "etcd", Module: "go.etcd.io/etcd/server/v3", Version: EtcdVersion,
		Skip:     []string{"go.etcd.io/etcd", "go.etcd.io/tests/v3"},
		Binaries: []Binary{{"etcd", "go.etcd.io/etcd/server/v3"}},
	}
}

// Components returns the components that every cluster has, in the order in
// which they are built: what a cluster needs first comes first.
func Components() []Component {
	return []Component{
		{
			Name: "pause", Module: own + "/hack/devcluster/components/pause", Version: PauseVersion,
			Binaries: []Binary{{"pause", "."}},
		},
		etcd(),
		kubernetes(),
		{
			Name: "csi-driver", Folder: "../../csi", Module: own + "/hack/csi", Version: DriverVersion,
			Binaries: []Binary{{"csi-driver", "."}},
		},
		csi(),
		coreDNS(),
	}
}

// Family returns the components that are built against the same versions of Kubernetes' modules and of all that these
// require, so that what they share is compiled once. The first one is Kubernetes itself.
func Family() []Component {
	return append([]Component{kubernetes(), etcd(), coreDNS(), csi()}, optionalFamily()...)
}

// coreDNS is built from a main package of this project's own, with the plugins that are used.
func coreDNS() Component {
	return Component{
		Name: "coredns", Module: "github.com/coredns/coredns", Version: CoreDNSVersion,
		Binaries: []Binary{{"coredns", "."}},
	}
}

// csi are the programs that stand between the API server and the CSI driver.
func csi() Component {
	return Component{
		Name: "csi", Module: "github.com/kubernetes-csi/external-provisioner/v5", Version: CSIVersion,
		Beside: []Upstream{
			{"github.com/kubernetes-csi/external-resizer", "v1.14.0"},
			// The version that upstream requires does not compile with the family's modules.
			{"sigs.k8s.io/gateway-api", "v1.4.0"},
		},
		Vouched: []string{"sigs.k8s.io/sig-storage-lib-external-provisioner/v11"},
		Binaries: []Binary{
			{"csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"},
			{"csi-resizer", "github.com/kubernetes-csi/external-resizer/cmd/csi-resizer"},
		},
	}
}

func kubernetes() Component {
	return kubernetesOf("kubernetes", KubernetesVersion, "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kubelet", "kube-proxy", "kubectl")
}

func kubernetesOf(name, version string, programs ...string) Component {
	c := Component{
		Name: name, Module: "k8s.io/kubernetes", Version: version,
		Staging: strings.Replace(version, "v1.", "v0.", 1),
		Skip:    []string{"k8s.io/sample-cli-plugin", "k8s.io/sample-controller"},
	}
	for _, program := range programs {
		c.Binaries = append(c.Binaries, Binary{program, "k8s.io/kubernetes/cmd/" + program})
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		c.Variables = append(c.Variables,
			pkg+".gitVersion="+version,
			pkg+".gitMajor="+parts[0],
			pkg+".gitMinor="+parts[1],
			pkg+".gitTreeState=clean",
		)
	}
	return c
}
