// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pki

import (
	"bytes"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, dir, name string) *Authority {
	t.Helper()
	a, err := OpenAuthority(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, dir, name string, r Request) (Pair, *x509.Certificate) {
	t.Helper()
	p, err := a.Issue(dir, name, r)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := parseCert(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	return p, cert
}

func TestIssuedCertificatesVerify(t *testing.T) {
	dir := t.TempDir()
	ca := open(t, dir, "ca")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.PEM) {
		t.Fatal("the authority's certificate is not PEM")
	}
	server := Request{CommonName: "server", Names: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	client := Request{CommonName: "system:node:n1", Groups: []string{"system:nodes"}, Client: ByClients}
	_, serverCert := issue(t, ca, dir, "server", server)
	_, clientCert := issue(t, ca, dir, "client", client)

	as := func(usage x509.ExtKeyUsage, name string) x509.VerifyOptions {
		return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: name}
	}
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := serverCert.Verify(as(x509.ExtKeyUsageServerAuth, name)); err != nil {
			t.Errorf("the server is not trusted as %q: %v", name, err)
		}
	}
	if _, err := serverCert.Verify(as(x509.ExtKeyUsageServerAuth, "example.org")); err == nil {
		t.Error("the server is trusted under a name that it was not given")
	}
	if _, err := serverCert.Verify(as(x509.ExtKeyUsageClientAuth, "")); err == nil {
		t.Error("the server's certificate passes for a client's")
	}
	if _, err := clientCert.Verify(as(x509.ExtKeyUsageClientAuth, "")); err != nil {
		t.Errorf("the client is not trusted: %v", err)
	}
	if got := clientCert.Subject.String(); got != "CN=system:node:n1,O=system:nodes" {
		t.Errorf("client is %q", got)
	}
	other := open(t, dir, "front-proxy-ca")
	if err := clientCert.CheckSignatureFrom(other.cert); err == nil {
		t.Error("another authority has signed the client's certificate")
	}
}

func TestIssueKeepsWhatIsGood(t *testing.T) {
	dir := t.TempDir()
	ca := open(t, dir, "ca")
	r := Request{CommonName: "a", Names: []string{"a"}, IPs: []net.IP{net.IPv4(10, 0, 0, 1)}}
	first, _ := issue(t, ca, dir, "a", r)
	if again, _ := issue(t, open(t, dir, "ca"), dir, "a", r); !bytes.Equal(first.Cert, again.Cert) {
		t.Error("a good certificate was issued anew")
	}
	changes := map[string]func(Request) Request{
		"name":  func(r Request) Request { r.Names = []string{"b"}; return r },
		"IP":    func(r Request) Request { r.IPs = []net.IP{net.IPv4(10, 0, 0, 2)}; return r },
		"user":  func(r Request) Request { r.CommonName = "b"; return r },
		"group": func(r Request) Request { r.Groups = []string{"g"}; return r },
		"use":   func(r Request) Request { r.Client = ByClients; return r },
	}
	for what, change := range changes {
		before, _ := issue(t, ca, dir, "a", r)
		if after, _ := issue(t, ca, dir, "a", change(r)); bytes.Equal(before.Cert, after.Cert) {
			t.Errorf("the certificate was kept although its %s changed", what)
		}
	}
	before, _ := issue(t, ca, dir, "a", r)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if after, _ := issue(t, open(t, dir, "ca"), dir, "a", r); bytes.Equal(before.Cert, after.Cert) {
		t.Error("the certificate of a lost authority was kept")
	}
}

func TestKeysArePrivate(t *testing.T) {
	dir := t.TempDir()
	issue(t, open(t, dir, "ca"), dir, "a", Request{CommonName: "a", Client: ByClients})
	if err := SigningKey(filepath.Join(dir, "sa.key")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "a.key", "sa.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
}

func TestSigningKeyIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sa.key")
	if err := SigningKey(path); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".pub"); err != nil {
		t.Fatal(err)
	}
	if err := SigningKey(path); err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(path)
	again, _ := os.ReadFile(path + ".pub")
	if !bytes.Equal(first, second) || !bytes.Equal(public, again) {
		t.Error("the signing key changed: all tokens would be void")
	}
}
