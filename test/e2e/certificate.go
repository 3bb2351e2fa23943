// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// renewalIn is how long the kubelet may take to bring a new certificate to a pod, and the process to take it over.
const renewalIn = 8 * time.Minute

// ca is the certificate of the CA that the binding of the Application carries.
func (a *application) ca() []byte {
	a.Helper()
	secret := &corev1.Secret{}
	a.mustGet(platformv1.BindingNameFor(a.name), secret)
	if len(secret.Data["ca.crt"]) == 0 {
		a.Fatalf("the binding of %q has no ca.crt", a.name)
	}
	return secret.Data["ca.crt"]
}

// host is the name of the Service of the Application.
func (a *application) host() string { return a.name + "." + a.space.name + ".svc" }

// issueAnew has cert-manager issue the certificate of a component once more, by the same CA.
func (a *application) issueAnew(component string) {
	a.Helper()
	a.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.space.name, Name: platformv1.CertificateNameFor(a.name, component)}})
}

// trusting is how a client speaks to a server of a name whose certificate is of a CA; nil without one, for a client that speaks no TLS.
func trusting(ca []byte, name string) *tls.Config {
	if len(ca) == 0 {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}
}

// secured speaks TLS over a connection where that is configured.
func secured(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
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

// shownAt is the certificate that a server shows, which must be good for the name under the CA.
func shownAt(address, name string, ca []byte) (*x509.Certificate, error) {
	if len(ca) == 0 {
		return nil, fmt.Errorf("there is no CA of %q", name)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: settleIn}, "tcp", address, trusting(ca, name))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// mustShow is shownAt for a server that is there: the way to it may break, which says nothing of the server.
func (s *space) mustShow(address, name string, ca []byte) (certificate *x509.Certificate) {
	s.Helper()
	s.eventually(spreadIn, fmt.Sprintf("the server at %s shows a certificate that is good for %q", address, name), func() (err error) {
		certificate, err = shownAt(address, name, ca)
		return err
	})
	return certificate
}

// shown is what the server of a pod shows.
type shown struct {
	// address that leads to it.
	address string
	serial  *big.Int
}

// certificates are what the pods show, by name of the pod.
func (a *application) certificates(port int) map[string]shown {
	a.Helper()
	all := map[string]shown{}
	for _, pod := range a.pods() {
		address := a.forward(a.space.name, pod.Name, port)
		all[pod.Name] = shown{address, a.mustShow(address, a.host(), a.ca()).SerialNumber}
	}
	return all
}

// serveAnother waits until each pod shows another certificate than before.
func (a *application) serveAnother(before map[string]shown) {
	a.Helper()
	for pod, old := range before {
		a.eventually(renewalIn, fmt.Sprintf("pod %q serves the renewed certificate", pod), func() error {
			now, err := shownAt(old.address, a.host(), a.ca())
			if err == nil && now.SerialNumber.Cmp(old.serial) == 0 {
				err = fmt.Errorf("it is still the one with serial number %s", old.serial)
			}
			return err
		})
	}
	a.eventually(settleIn, "the Application says that every pod serves it", func() error {
		if app := a.object(); !conditions.IsTrue(app, platformv1.CertificateServedCondition) {
			return fmt.Errorf("it has %s", describe(app.Status.Conditions))
		}
		return nil
	})
}
