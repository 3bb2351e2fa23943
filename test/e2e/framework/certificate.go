// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// RenewalTimeout is how long the kubelet may take to bring a new certificate to a pod, and the process to take it over.
const RenewalTimeout = 8 * time.Minute

// CACertificate is the certificate of the CA that the binding of the Application carries.
func (a *Application) CACertificate() []byte {
	a.Helper()
	secret := &corev1.Secret{}
	a.MustGet(platformv1.BindingNameFor(a.Name), secret)
	if len(secret.Data["ca.crt"]) == 0 {
		a.Fatalf("the binding of %q has no ca.crt", a.Name)
	}
	return secret.Data["ca.crt"]
}

// Host is the name of the Service of the Application.
func (a *Application) Host() string { return a.Name + "." + a.Namespace.Name + ".svc" }

// Reissue has cert-manager issue the certificate of a component once more, by the same CA.
func (a *Application) Reissue(component string) {
	a.Helper()
	a.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace.Name,
		Name: platformv1.CertificateNameFor(a.Name, component)}})
}

// TLSConfigFor is how a client speaks to a server of a name whose certificate is of a CA; nil without one, for a client
// that speaks no TLS.
func TLSConfigFor(ca []byte, name string) *tls.Config {
	if len(ca) == 0 {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}
}

// TLSClient speaks TLS over a connection where that is configured.
func TLSClient(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return conn, nil
	}
	spoken := tls.Client(conn, config)
	if err := spoken.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return spoken, nil
}

// ServerCertificate is the certificate that a server shows, which must be good for the name under the CA.
func ServerCertificate(address, name string, ca []byte) (*x509.Certificate, error) {
	if len(ca) == 0 {
		return nil, fmt.Errorf("there is no CA of %q", name)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: SettleTimeout}, "tcp", address, TLSConfigFor(ca, name))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// MustServerCertificate is ServerCertificate for a server that is there: the way to it may break, which says nothing of
// the server.
func (s *Namespace) MustServerCertificate(address, name string, ca []byte) (certificate *x509.Certificate) {
	s.Helper()
	s.Eventually(EndpointTimeout, fmt.Sprintf("the server at %s shows a certificate that is good for %q", address, name),
		func() (err error) {
			certificate, err = ServerCertificate(address, name, ca)
			return err
		})
	return certificate
}

// ServedCertificate is what the server of a pod shows.
type ServedCertificate struct {
	// Address that leads to it.
	Address string
	serial  *big.Int
}

// Certificates are what the pods show, by name of the pod.
func (a *Application) Certificates(port int) map[string]ServedCertificate {
	a.Helper()
	all := map[string]ServedCertificate{}
	for _, pod := range a.Pods() {
		address := a.PortForward(a.Namespace.Name, pod.Name, port)
		all[pod.Name] = ServedCertificate{address, a.MustServerCertificate(address, a.Host(), a.CACertificate()).SerialNumber}
	}
	return all
}

// ReplaceCertificate waits until each pod shows another certificate than before.
func (a *Application) ReplaceCertificate(before map[string]ServedCertificate) {
	a.Helper()
	for pod, old := range before {
		a.Eventually(RenewalTimeout, fmt.Sprintf("pod %q serves the renewed certificate", pod), func() error {
			now, err := ServerCertificate(old.Address, a.Host(), a.CACertificate())
			if err == nil && now.SerialNumber.Cmp(old.serial) == 0 {
				err = fmt.Errorf("it is still the one with serial number %s", old.serial)
			}
			return err
		})
	}
	a.WaitForServedCertificate()
}

// WaitForServedCertificate waits until the Application says that every pod serves the present certificate.
func (a *Application) WaitForServedCertificate() {
	a.Helper()
	a.Eventually(RenewalTimeout, "the Application says that every pod serves it", func() error {
		if app := a.Object(); !conditions.IsTrue(app, platformv1.CertificateServedCondition) {
			return fmt.Errorf("it has %s", Describe(app.Status.Conditions))
		}
		return nil
	})
}

// clusterResources is where cert-manager looks for the Secrets of ClusterIssuers.
const clusterResources = "cert-manager"

// CreateClusterIssuer makes a CA for this test and a ClusterIssuer that signs with it.
func (s *Namespace) CreateClusterIssuer() *platformv1.IssuerReference {
	s.Helper()
	make := func(kind, namespace, name string, spec map[string]any) {
		object := &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": kind, "spec": spec}}
		object.SetName(name)
		object.SetNamespace(namespace)
		if err := Cluster.Client.Create(s.Ctx, object); err != nil {
			s.Fatalf("cannot make %s %q: %v", kind, name, err)
		}
		s.Cleanup(func() {
			if err := Cluster.Client.Delete(context.Background(), object); err != nil && !apierrors.IsNotFound(err) {
				s.T.Error(err)
			}
		})
	}
	root, ca := s.Name+"-root", s.Name+"-ca"
	make("ClusterIssuer", "", root, map[string]any{"selfSigned": map[string]any{}})
	make("Certificate", clusterResources, ca, map[string]any{
		"isCA": true, "commonName": ca, "secretName": ca,
		"privateKey": map[string]any{"algorithm": "ECDSA", "size": int64(256)},
		"issuerRef":  map[string]any{"name": root, "kind": "ClusterIssuer"},
	})
	make("ClusterIssuer", "", ca, map[string]any{"ca": map[string]any{"secretName": ca}})
	return &platformv1.IssuerReference{Name: ca, Kind: "ClusterIssuer"}
}
