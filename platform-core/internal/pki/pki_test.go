// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// clock is a time that a test moves by hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newAuthority(t *testing.T, c *clock) *Authority {
	t.Helper()
	data, err := Generate("database", c.t)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := Parse("database", data, WithClock(c.now))
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func startClock() *clock { return &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func TestServerCertificateIsGoodForItsNameOnly(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	name := AgentServerName("redis-a-main-0", "team")
	certPEM, keyPEM, notAfter, err := authority.IssueServer([]string{name}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	if want := c.t.Add(ServerLife); !notAfter.Equal(want) {
		t.Errorf("notAfter is %v, want %v", notAfter, want)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Errorf("certificate and key do not belong together: %v", err)
	}
	if err := authority.VerifyServer(certPEM, name, c.t); err != nil {
		t.Error(err)
	}
	if err := authority.VerifyServer(certPEM, AgentServerName("redis-a-main-1", "team"), c.t); err == nil {
		t.Error("the certificate of pod 0 is accepted for pod 1")
	}
	if err := authority.VerifyServer(certPEM, name, notAfter.Add(time.Second)); err == nil {
		t.Error("an expired certificate is accepted")
	}
	if err := newAuthority(t, c).VerifyServer(certPEM, name, c.t); err == nil {
		t.Error("the certificate of another authority is accepted")
	}
	if _, _, _, err := authority.IssueServer(nil, c.t); err == nil {
		t.Error("a certificate without a name was issued")
	}
}

func TestRenewAtIsTwoThirdsOfTheLife(t *testing.T) {
	c := startClock()
	certPEM, _, _, err := newAuthority(t, c).IssueServer([]string{"a.b"}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	got, err := RenewAt(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	if want := c.t.Add(60 * 24 * time.Hour); got.Sub(want).Abs() > backdate {
		t.Errorf("renewal at %v, want about %v", got, want)
	}
	if _, err := RenewAt([]byte("nothing")); err == nil {
		t.Error("text without a certificate has a time of renewal")
	}
}

// Agents of a set call each other. What an earlier version issued for a server only is renewed at once.
func TestServerCertificateIsGoodForAClient(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	certPEM, _, _, err := authority.IssueServer([]string{AgentServerName("redis-a-main-0", "team")}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := parseCertificates(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	options := x509.VerifyOptions{Roots: authority.holds().pool, CurrentTime: c.t, KeyUsages: usages}
	if _, err := certificates[0].Verify(options); err != nil {
		t.Error(err)
	}
	if at, err := RenewAgentAt(certPEM); err != nil || !at.After(c.t) {
		t.Errorf("it is renewed at %v, %v", at, err)
	}
	template := &x509.Certificate{DNSNames: []string{"before"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	before, _, err := authority.issue(authority.holds(), template, ServerLife, c.t)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := RenewAgentAt(encodeCertificate(before)); err != nil || at.After(c.t) {
		t.Errorf("a certificate for a server only is renewed at %v, %v; want at once", at, err)
	}
}

func TestClientCertificateIsKeptAndRenewed(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	config := authority.ClientTLS("a.b")
	read := func() *x509.Certificate {
		t.Helper()
		certificate, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return certificate.Leaf
	}
	first := read()
	if got := first.URIs[0].String(); got != "spiffe://zeroinfra.github.com/operator/database" {
		t.Errorf("URI is %q", got)
	}
	c.t = c.t.Add(ClientLife / 2)
	if !read().Equal(first) {
		t.Error("the certificate changed at half of its life")
	}
	c.t = c.t.Add(ClientLife / 4)
	second := read()
	if second.Equal(first) {
		t.Error("the certificate is still the first one after 3/4 of its life")
	}
	if !second.NotAfter.After(first.NotAfter) {
		t.Errorf("renewed until %v, the first one was good until %v", second.NotAfter, first.NotAfter)
	}
}

func TestLeafNeverOutlivesTheAuthority(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	end := c.t.Add(AuthorityLife)
	_, _, notAfter, err := authority.IssueServer([]string{"a.b"}, end.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if notAfter.After(end) {
		t.Errorf("good until %v, the authority until %v", notAfter, end)
	}
	_, _, _, err = authority.IssueServer([]string{"a.b"}, end.Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "database-agent-ca") {
		t.Errorf("an expired authority gave error %v, want one that names its Secret", err)
	}
}

func TestParseRefusesWhatCannotBeUsed(t *testing.T) {
	c := startClock()
	good, err := Generate("database", c.t)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Generate("database", c.t)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _, _, err := newAuthority(t, c).IssueServer([]string{"a.b"}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	later := &clock{c.t.Add(AuthorityLife + time.Hour)}
	cases := []struct {
		name      string
		cert, key []byte
		at        *clock
		want      string
	}{
		{"no certificate", nil, good[corev1.TLSPrivateKeyKey], c, "there is no certificate"},
		{"no key", good[corev1.TLSCertKey], nil, c, "there is no PEM block"},
		{"foreign key", good[corev1.TLSCertKey], other[corev1.TLSPrivateKeyKey], c, "not the key of the first certificate"},
		{"not an authority", leaf, good[corev1.TLSPrivateKeyKey], c, "not an authority's"},
		{"expired", good[corev1.TLSCertKey], good[corev1.TLSPrivateKeyKey], later, "it expired"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			data := map[string][]byte{corev1.TLSCertKey: tc.cert, corev1.TLSPrivateKeyKey: tc.key}
			_, err := Parse("database", data, WithClock(tc.at.now))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestBundleHoldsEveryTrustedCertificate(t *testing.T) {
	c := startClock()
	present, err := Generate("database", c.t)
	if err != nil {
		t.Fatal(err)
	}
	old, err := Generate("database", c.t)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{
		corev1.TLSCertKey:       append(bytes.Clone(present[corev1.TLSCertKey]), old[corev1.TLSCertKey]...),
		corev1.TLSPrivateKeyKey: present[corev1.TLSPrivateKeyKey],
		DigestKeyKey:            present[DigestKeyKey],
	}
	authority, err := Parse("database", data, WithClock(c.now))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for block, rest := pem.Decode(authority.Bundle()); block != nil; block, rest = pem.Decode(rest) {
		blocks++
	}
	if blocks != 2 {
		t.Errorf("the bundle has %d certificates, want 2", blocks)
	}
	previous, err := Parse("database", old, WithClock(c.now))
	if err != nil {
		t.Fatal(err)
	}
	served, _, _, err := previous.IssueServer([]string{"a.b"}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.VerifyServer(served, "a.b", c.t); err != nil {
		t.Errorf("a certificate of the previous authority is refused while that is published: %v", err)
	}
}

// handshake lets a client and a server of the given configurations meet and returns what each thinks of it.
func handshake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() {
		peer := tls.Server(far, server)
		err := peer.Handshake()
		if err == nil {
			_, err = peer.Write([]byte("."))
		}
		_ = far.Close()
		done <- err
	}()
	peer := tls.Client(near, client)
	clientErr = peer.Handshake()
	if clientErr == nil {
		_, clientErr = peer.Read(make([]byte, 1))
	}
	_ = near.Close()
	return clientErr, <-done
}

func TestMutualTLS(t *testing.T) {
	c := startClock()
	authority, foreign := newAuthority(t, c), newAuthority(t, c)
	name := AgentServerName("pod-0", "team")
	certPEM, keyPEM, _, err := authority.IssueServer([]string{name}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Bundle())
	server := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, Time: c.now}

	if clientErr, serverErr := handshake(t, authority.ClientTLS(name), server); clientErr != nil || serverErr != nil {
		t.Errorf("the right client is refused: client %v, server %v", clientErr, serverErr)
	}
	bare := authority.ClientTLS(name)
	bare.GetClientCertificate = nil
	for _, tc := range []struct {
		name   string
		client *tls.Config
	}{
		{"no certificate", bare},
		{"foreign authority", foreign.ClientTLS(name)},
		{"wrong server name", authority.ClientTLS(AgentServerName("pod-1", "team"))},
	} {
		if clientErr, _ := handshake(t, tc.client, server); clientErr == nil {
			t.Errorf("%s: the handshake succeeds", tc.name)
		}
	}
}

func TestDigestTellsTextsApartAndOutlivesTheCertificates(t *testing.T) {
	first, err := Generate("database", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := Generate("database", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for name, data := range map[string]map[string][]byte{
		"first":       first,
		"another key": renewed,
		"renewed, key is kept": {"tls.crt": renewed["tls.crt"], "tls.key": renewed["tls.key"],
			DigestKeyKey: first[DigestKeyKey]},
	} {
		a, err := Parse("database", data)
		if err != nil {
			t.Fatal(err)
		}
		one, again, other := a.Digest("a"), a.Digest("a"), a.Digest("b")
		if one == other || one != again {
			t.Errorf("%s: digests %s, %s and %s", name, one, again, other)
		}
		digests[name] = one
	}
	if digests["first"] != digests["renewed, key is kept"] || digests["first"] == digests["another key"] {
		t.Errorf("digests: %v", digests)
	}
	delete(first, DigestKeyKey)
	if _, err := Parse("database", first); err == nil {
		t.Error("an authority without a digest key was taken")
	}
}
