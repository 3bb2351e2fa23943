// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package controlplane writes the configuration of the programs that run a
// cluster's control plane: etcd, the API server, the controller manager, the
// scheduler, and a kube-proxy that makes Services reachable from there.
package controlplane

import (
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/network"
	"github.com/zeroinfra/hack/devcluster/internal/pki"
)

// Credentials are the authorities of a cluster. Everything is issued by them.
type Credentials struct {
	// CA signs servers and clients of the cluster.
	CA *pki.Authority
	// front signs the API server when it asks aggregated APIs.
	front *pki.Authority
	dir   string
}

// OpenCredentials reads the cluster's authorities or makes them.
func OpenCredentials(c cluster.Cluster) (*Credentials, error) {
	dir := c.Path("pki")
	ca, err := pki.OpenAuthority(dir, "ca")
	if err != nil {
		return nil, err
	}
	front, err := pki.OpenAuthority(dir, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	return &Credentials{CA: ca, front: front, dir: dir}, nil
}

// client issues a client's certificate.
func (c *Credentials) client(file, user string, groups ...string) (pki.Pair, error) {
	return c.CA.Issue(c.dir, file, pki.Request{CommonName: user, Groups: groups, Client: pki.ByClients})
}

// Client issues a client's certificate and returns a kubeconfig with it.
func (c *Credentials) Client(server, file, user string, groups ...string) ([]byte, error) {
	pair, err := c.client(file, user, groups...)
	if err != nil {
		return nil, err
	}
	return kubeconfig(server, c.CA.PEM, pair), nil
}

// Server issues a server's certificate.
func (c *Credentials) Server(file, name string, names []string, ips ...net.IP) (pki.Pair, error) {
	return c.CA.Issue(c.dir, file, pki.Request{CommonName: name, Names: names, IPs: ips})
}

// Peer issues the certificate of a part of the CSI driver, which calls other
// parts and, at an address, is called by them.
func (c *Credentials) Peer(file string, ips ...net.IP) (pki.Pair, error) {
	return c.CA.Issue(c.dir, file, pki.Request{CommonName: csiPeer, IPs: ips, Client: pki.ByClients})
}

// WritePeer writes what a part of the CSI driver reads into a folder.
func (c *Credentials) WritePeer(dir, file string, ips ...net.IP) error {
	pair, err := c.Peer(file, ips...)
	if err != nil {
		return err
	}
	if err := cluster.WriteFile(filepath.Join(dir, "ca.crt"), c.CA.PEM, 0o644); err != nil {
		return err
	}
	return WritePair(dir, "csi", pair)
}

// Admin returns the certificate of the cluster's administrator.
func (c *Credentials) Admin() (pki.Pair, error) {
	return c.client("admin", "kubernetes-admin", "system:masters")
}

// WriteAdmin writes the administrator's kubeconfigs, for the host and for the
// inside of the cluster's network.
func (c *Credentials) WriteAdmin(cl cluster.Cluster, port int) error {
	pair, err := c.Admin()
	if err != nil {
		return err
	}
	outer := kubeconfig(fmt.Sprintf("https://127.0.0.1:%d", port), c.CA.PEM, pair)
	if err := cluster.WriteFile(cl.Kubeconfig(), outer, 0o600); err != nil {
		return err
	}
	return cluster.WriteFile(cl.InnerKubeconfig(), kubeconfig(network.APIURL(), c.CA.PEM, pair), 0o600)
}

// install issues everything the control plane's programs need into a folder.
func (c *Credentials) install(dir string) error {
	service := "kubernetes.default.svc." + network.Domain
	apiserver, err := c.Server("apiserver", "kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", service},
		net.IPv4(127, 0, 0, 1), net.ParseIP(network.ControlPlaneIP), net.ParseIP(network.ServiceIP))
	if err != nil {
		return err
	}
	etcd, err := c.Server("etcd", "etcd", []string{"localhost"}, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	etcdClient, err := c.client("apiserver-etcd-client", "kube-apiserver-etcd-client")
	if err != nil {
		return err
	}
	kubeletClient, err := c.client("apiserver-kubelet-client", KubeletClient)
	if err != nil {
		return err
	}
	front, err := c.front.Issue(c.dir, "front-proxy-client", pki.Request{CommonName: frontProxy, Client: pki.ByClients})
	if err != nil {
		return err
	}
	for name, pair := range map[string]pki.Pair{
		"apiserver": apiserver, "etcd": etcd, "apiserver-etcd-client": etcdClient,
		"apiserver-kubelet-client": kubeletClient, "front-proxy-client": front,
	} {
		if err := WritePair(dir, name, pair); err != nil {
			return err
		}
	}
	if err := pki.SigningKey(filepath.Join(dir, "service-account.key")); err != nil {
		return err
	}
	if err := cluster.WriteFile(filepath.Join(dir, "front-proxy-ca.crt"), c.front.PEM, 0o644); err != nil {
		return err
	}
	// The controller manager signs certificate requests with the CA's key.
	if _, err := pki.OpenAuthority(c.dir, "ca"); err != nil {
		return err
	}
	for _, file := range []string{"ca.crt", "ca.key"} {
		if err := copyFile(filepath.Join(c.dir, file), filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// WritePair writes a certificate and its key as dir/name.crt and .key.
func WritePair(dir, name string, p pki.Pair) error {
	if err := cluster.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return cluster.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}

// kubeconfig renders a kubeconfig with everything inside.
func kubeconfig(server string, ca []byte, p pki.Pair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: devcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: user
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: devcluster
  context:
    cluster: devcluster
    user: user
current-context: devcluster
`, server, b64(ca), b64(p.Cert), b64(p.Key))
}
