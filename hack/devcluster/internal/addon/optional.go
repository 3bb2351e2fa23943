// SPDX-License-Identifier: Apache-2.0

//go:build linux

package addon

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/image"
)

//go:embed optional/*.yaml
var optionalManifests embed.FS

// Optional is an add-on that a cluster has only when it is asked to.
type Optional struct {
	// Name is also that of its component.
	Name string
	// Version is the component's.
	Version string
	// Definitions is the file beside the programs that holds its definitions, if
	// it has any.
	Definitions string
	// Namespace is where its workloads are.
	Namespace string
	// Programs are its workloads.
	Programs []OptionalProgram
	// OnControlPlane are its programs that run on the control plane's machine and not in pods.
	OnControlPlane []string
	// Serving is the name under which one of its workloads serves with a certificate of the cluster's CA, if any does.
	Serving string
	// Probe is an object that can be created when the add-on works, if there is
	// one. It never is.
	Probe string
}

// OptionalProgram is one workload of an optional add-on.
type OptionalProgram struct {
	// Kind is Deployment or DaemonSet.
	Kind string
	// Name is that of the workload, its ServiceAccount and its image.
	Name string
	// Program is the file that it runs.
	Program string
	// Args follow the program's name, unless the manifest says them.
	Args []string
}

var optionals = []Optional{{
	Name: "cert-manager", Version: build.CertManagerVersion, Definitions: build.CertManagerDefinitions,
	Namespace: "cert-manager",
	Programs: []OptionalProgram{
		{deployment, "cert-manager", "cert-manager-controller", []string{
			"--v=1", "--leader-elect=false", "--cluster-resource-namespace=$(POD_NAMESPACE)",
		}},
		{deployment, "cert-manager-cainjector", "cert-manager-cainjector", []string{"--v=1", "--leader-elect=false"}},
		{deployment, "cert-manager-webhook", "cert-manager-webhook", []string{
			"--v=1", "--secure-port=10250",
			"--dynamic-serving-ca-secret-namespace=$(POD_NAMESPACE)", "--dynamic-serving-ca-secret-name=cert-manager-webhook-ca",
			"--dynamic-serving-dns-names=cert-manager-webhook.$(POD_NAMESPACE).svc",
		}},
	},
	Probe: `{"apiVersion":"cert-manager.io/v1","kind":"ClusterIssuer","metadata":{"name":"devcluster-probe"},` +
		`"spec":{"selfSigned":{}}}`,
}, {
	Name: "gateway", Version: build.GatewayVersion, Definitions: build.GatewayDefinitions, Namespace: "gateway-system",
	Programs: []OptionalProgram{
		{deployment, "gateway", "traefik", []string{
			"--entrypoints.web.address=:8000", "--entrypoints.traefik.address=:8080", "--ping",
			"--providers.kubernetesgateway", "--providers.kubernetesgateway.statusaddress.hostname=gateway.gateway-system.svc",
			"--providers.providersthrottleduration=100ms",
			"--global.checknewversion=false", "--global.sendanonymoususage=false",
		}},
	},
}, {
	Name: "network-policies", Version: build.PoliciesVersion, Namespace: "kube-system",
	Programs: []OptionalProgram{
		{daemonSet, "network-policies", "network-policies",
			[]string{"--node=$(NODE)", "--root=/host", "--ready=/run/ready/rules"}},
	},
}, {
	Name: "local-path", Version: build.ProvisionerVersion, Namespace: "local-path-storage",
	Programs: []OptionalProgram{{deployment, "local-path-provisioner", "local-path-provisioner", nil}},
}, {
	Name: Metrics, Version: build.MetricsVersion, Namespace: "kube-system", Serving: "metrics-server.kube-system.svc",
	Programs: []OptionalProgram{{deployment, "metrics-server", "metrics-server", nil}},
}, {
	Name: controlplane.Snapshots, Version: build.SnapshotsVersion, Namespace: "kube-system",
	Definitions: build.SnapshotDefinitions, OnControlPlane: controlplane.SnapshotPrograms(),
}}

// Metrics is the name of the add-on that measures pods and nodes.
const Metrics = "metrics"

// Kinds of workloads.
const (
	deployment = "Deployment"
	daemonSet  = "DaemonSet"
)

// FindOptional returns an optional add-on by its name.
func FindOptional(name string) (Optional, error) {
	for _, o := range optionals {
		if o.Name == name {
			return o, nil
		}
	}
	return Optional{}, fmt.Errorf("cannot find add-on %q: choose one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the optional add-ons.
func Names() []string {
	names := make([]string, len(optionals))
	for i, o := range optionals {
		names[i] = o.Name
	}
	return slices.Sorted(slices.Values(names))
}

// Deployments lists the add-on's workloads of that kind.
func (o Optional) Deployments() []Deployment { return o.workloads(deployment) }

// DaemonSets lists the add-on's workloads that are on every node.
func (o Optional) DaemonSets() []Deployment { return o.workloads(daemonSet) }

func (o Optional) workloads(kind string) []Deployment {
	var all []Deployment
	for _, p := range o.Programs {
		if p.Kind == kind {
			all = append(all, Deployment{o.Namespace, p.Name})
		}
	}
	return all
}

func (o Optional) images() map[string]string {
	all := map[string]string{}
	for _, p := range o.Programs {
		all[p.Name] = prefix + p.Program + ":" + o.Version
	}
	return all
}

// WriteImages writes the archives of the add-on's images into a folder below
// dir from the programs in bin, once, and opens them.
func (o Optional) WriteImages(dir, bin string) ([]*image.Archive, error) {
	var all []image.Spec
	for _, p := range o.Programs {
		all = append(all, image.Spec{Name: o.images()[p.Name], Entrypoint: []string{"/" + p.Program},
			Contents: program(bin, p.Program)})
	}
	return writeArchives(dir, all)
}

// Render writes the add-on's manifests, with the certificate that it serves with.
func (o Optional) Render(creds *controlplane.Credentials) ([]byte, error) {
	file := o.Name + ".yaml"
	t, err := template.New("").Option("missingkey=error").ParseFS(optionalManifests, path.Join("optional", file))
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest of add-on %q: %w", o.Name, err)
	}
	programs := map[string][]string{}
	for _, p := range o.Programs {
		programs[p.Name] = p.Args
	}
	images := o.images()
	images["busybox"] = busyboxImage
	v := map[string]any{
		"Images": images, "Programs": programs,
		"StorageUser": controlplane.StorageUser, "CSIName": controlplane.CSIName,
	}
	if o.Serving != "" {
		name, _, _ := strings.Cut(o.Serving, ".")
		serving, err := creds.Server(name, name, []string{o.Serving})
		if err != nil {
			return nil, err
		}
		b64 := base64.StdEncoding.EncodeToString
		v["CA"], v["Cert"], v["Key"] = b64(creds.CA.PEM), b64(serving.Cert), b64(serving.Key)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, file, v); err != nil {
		return nil, fmt.Errorf("cannot fill the manifest of add-on %q: %w", o.Name, err)
	}
	return out.Bytes(), nil
}

// Join returns names with one more, each once and sorted.
func Join(names []string, more ...string) []string {
	set := map[string]bool{}
	for _, name := range append(slices.Clone(names), more...) {
		set[name] = true
	}
	return slices.Sorted(maps.Keys(set))
}
