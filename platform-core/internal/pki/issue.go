// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// OperatorURIPrefix begins the URI in the certificate of every operator; the domain follows.
// An agent takes calls only from a peer whose certificate carries such a URI.
const OperatorURIPrefix = "spiffe://zeroinfra.github.com/operator/"

// AgentServerName returns the name in the server certificate of a pod's agent.
func AgentServerName(pod, namespace string) string {
	return pod + "." + namespace + ".agent.zeroinfra.github.com"
}

// IssueServer makes the certificate of a pod's agents, valid for ServerLife from now, and its key. Agents of one set
// also call each other with it, so that it is good for a client, too.
// names are DNS names, usually the one that AgentServerName gives. It fails when there are no
// names or when the authority itself has expired.
func (a *Authority) IssueServer(names []string, now time.Time) (certPEM, keyPEM []byte, notAfter time.Time, err error) {
	if len(names) == 0 {
		return nil, nil, time.Time{}, errors.New("cannot issue a server certificate: no name was given")
	}
	template := &x509.Certificate{
		DNSNames:    names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certificate, key, err := a.issue(a.holds(), template, ServerLife, now)
	if err != nil {
		return nil, nil, time.Time{}, fmt.Errorf("cannot issue a server certificate for %q: %w", names[0], err)
	}
	keyPEM, err = encodeKey(key)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	return encodeCertificate(certificate), keyPEM, template.NotAfter, nil
}

// VerifyServer says whether a server certificate (PEM) is good for the name at the given time under
// the certificates that are trusted now. A certificate of an authority that was lost is not.
func (a *Authority) VerifyServer(certPEM []byte, name string, now time.Time) error {
	certificates, err := parseCertificates(certPEM)
	if err != nil {
		return fmt.Errorf("cannot read the server certificate of %q: %w", name, err)
	}
	_, err = certificates[0].Verify(x509.VerifyOptions{
		DNSName:     name,
		Roots:       a.holds().pool,
		CurrentTime: now,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("cannot use the server certificate of %q: %w", name, err)
	}
	return nil
}

// ClientTLS returns the configuration of one connection of a client that calls the agent with this server
// name: it trusts what is trusted now. Its certificate is made in memory, carries the URI OperatorURIPrefix + domain,
// and is renewed after 2/3 of its life; connections that are made later use the new one.
func (a *Authority) ClientTLS(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    a.holds().pool,
		Time:       a.now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return a.clientCertificate()
		},
	}
}

// RenewAt returns when the first certificate in the PEM has lived 2/3 of its life.
func RenewAt(certPEM []byte) (time.Time, error) {
	certificates, err := parseCertificates(certPEM)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot tell when to renew a certificate: %w", err)
	}
	return renewAt(certificates[0]), nil
}

// RenewAgentAt is RenewAt for what IssueServer made. One that is no good for a client was issued by an earlier version,
// and its time has come.
func RenewAgentAt(certPEM []byte) (time.Time, error) {
	certificates, err := parseCertificates(certPEM)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot tell when to renew the certificate of a pod: %w", err)
	}
	if !slices.Contains(certificates[0].ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return certificates[0].NotBefore, nil
	}
	return renewAt(certificates[0]), nil
}

func renewAt(certificate *x509.Certificate) time.Time {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(life / 3 * 2)
}

func (a *Authority) clientCertificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.client != nil && now.Before(renewAt(a.client.Leaf)) {
		return a.client, nil
	}
	identity, err := url.Parse(OperatorURIPrefix + a.domain)
	if err != nil {
		return nil, fmt.Errorf("cannot name the operator of domain %q in a certificate: %w", a.domain, err)
	}
	template := &x509.Certificate{
		URIs:        []*url.URL{identity},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, key, err := a.issue(a.held, template, ClientLife, now)
	if err != nil {
		return nil, fmt.Errorf("cannot issue the client certificate of domain %q: %w", a.domain, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.client = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	return a.client, nil
}

// issue fills in what all leaf certificates share and signs. A leaf never outlives the authority.
func (a *Authority) issue(by held, template *x509.Certificate, life time.Duration, now time.Time) ([]byte,
	*ecdsa.PrivateKey, error) {
	if now.After(by.signing.NotAfter) {
		return nil, nil, fmt.Errorf("the authority of domain %q expired on %s: look why it was not replaced before, and "+
			"ask for another one with the annotation %s: now of its Secret %q",
			a.domain, by.signing.NotAfter.Format(time.RFC3339), platformv1.RotateAnnotation, SecretName(a.domain))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	template.NotBefore = now.Add(-backdate)
	template.NotAfter = now.Add(life)
	if template.NotAfter.After(by.signing.NotAfter) {
		template.NotAfter = by.signing.NotAfter
	}
	template.NotAfter = template.NotAfter.Truncate(time.Second).UTC()
	der, err := sign(template, by.signing, key.Public(), by.key)
	return der, key, err
}
