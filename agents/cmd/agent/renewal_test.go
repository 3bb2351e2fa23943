// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// speakTLS has the server of a plan speak nothing else.
func (p *redisPod) speakTLS(pl *plan.Plan) *plan.Plan {
	secret := &plan.SecretRef{Credential: "default", Key: "password"}
	file := &pl.Files[0]
	for i := range file.Entries {
		if file.Entries[i].Key == "port" {
			file.Entries[i].Args = []string{"0"}
		}
	}
	for key, value := range map[string]string{"tls-port": p.port, "tls-auth-clients": "no",
		"tls-cert-file": p.path("certs/tls.crt"),
		"tls-key-file":  p.path("certs/tls.key"), "tls-ca-cert-file": p.path("certs/ca.crt")} {
		file.Entries = append(file.Entries, plan.Entry{Key: key, Args: []string{value}})
	}
	pl.Probe.Command = []string{"redis-cli", "-p", p.port, "--tls", "--cacert", p.path("certs/ca.crt"), "INFO"}
	pl.TLS = &plan.TLS{Reload: &plan.Reload{
		Command: []string{"redis-cli", "-e", "-p", p.port, "--tls", "--insecure", "--no-auth-warning", "CONFIG", "SET",
			"tls-cert-file", p.path("certs/tls.crt"),
			"tls-key-file", p.path("certs/tls.key"), "tls-ca-cert-file", p.path("certs/ca.crt")},
		Env: []plan.EnvVar{{Name: "REDISCLI_AUTH", Secret: secret}},
	}}
	return pl
}

// dial opens a connection that trusts the CA.
func (p *redisPod) dial(ca *testpki.Authority) (*tls.Conn, error) {
	return tls.Dial("tcp", "127.0.0.1:"+p.port, ca.ClientConfig(p.T, nil, testpki.Leaf{}))
}

// mountedDigest is that of the certificate in the folder.
func (p *redisPod) mountedDigest() string {
	p.Helper()
	data, err := os.ReadFile(p.path("certs/tls.crt"))
	if err != nil {
		p.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serves says what is wrong unless the server shows the certificate that is in the folder.
func (p *redisPod) serves(ca *testpki.Authority) error {
	conn, err := p.dial(ca)
	if err != nil {
		return err
	}
	defer conn.Close()
	sum := sha256.Sum256(pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw}))
	if got, want := "sha256:"+hex.EncodeToString(sum[:]), p.mountedDigest(); got != want {
		return fmt.Errorf("the server shows the certificate %s, want %s", got, want)
	}
	return nil
}

// wantAnswer has an open connection answer.
func wantAnswer(t *testing.T, conn *tls.Conn) {
	t.Helper()
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "-NOAUTH") {
		t.Errorf("the open connection answers %q, %v", answer[:n], err)
	}
}

func TestRedisTakesOverARenewedCertificate(t *testing.T) {
	p := newRedisPod(t)
	p.ca.Mount(t, p.path("certs"), p.ca)
	p.mount(p.speakTLS(p.plan(1, "50mb")))
	p.status()
	p.run()
	client := p.client()
	first := p.api.await(p.pod, "health",
		func(r report.Report) bool { return isHealthy(r) && r.CertificateDigest == p.mountedDigest() })
	if err := p.serves(p.ca); err != nil {
		t.Fatal(err)
	}
	open, err := p.dial(p.ca)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if said, err := p.cli("PING"); err == nil && strings.Contains(said, "PONG") {
		t.Errorf("without TLS the server answers %q", said)
	}
	before := p.await(client, "the process", isRunning)

	// The same CA, and then another one: what the server has until then is not to be trusted by what reloads it.
	for _, ca := range []*testpki.Authority{p.ca, testpki.New(t)} {
		ca.Mount(t, p.path("certs"), ca)
		eventually(t, func() error { return p.serves(ca) })
		p.api.await(p.pod, "the new certificate",
			func(r report.Report) bool { return isHealthy(r) && r.CertificateDigest == p.mountedDigest() })
		wantAnswer(t, open)
	}
	after := p.await(client, "the process",
		func(s *agentv1.ProcessStatus) bool { return s.GetCertificateDigest() == p.mountedDigest() })
	if after.GetPid() != before.GetPid() || after.GetStarts() != 1 || first.ConfigDigest != digest(1) {
		t.Errorf("the process was restarted: it was %v and is %v", before, after)
	}
}

func TestACertificateThatIsNotTakenOverIsNotReportedAsServed(t *testing.T) {
	p := newRedisPod(t)
	p.ca.Mount(t, p.path("certs"), p.ca)
	pl := p.speakTLS(p.plan(1, "50mb"))
	pl.TLS.Reload.Command = []string{"sh", "-c", "echo no >&2; exit 3"}
	p.mount(pl)
	p.run()
	client := p.client()
	was := p.mountedDigest()
	p.await(client, "the process", isRunning)
	p.ca.Mount(t, p.path("certs"), p.ca)
	eventually(t, func() error {
		if !strings.Contains(p.stderr.String(), "did not take over the renewed certificate") {
			return fmt.Errorf("nothing was tried; log:\n%s", p.stderr)
		}
		return nil
	})
	if got := p.await(client, "the process", isRunning); got.GetCertificateDigest() != was {
		t.Errorf("the status says %s, and the process serves %s", got.GetCertificateDigest(), was)
	}
}

// TestNginxTakesOverARenewedCertificate: a signal has new workers read the files.
func TestNginxTakesOverARenewedCertificate(t *testing.T) {
	p := newNginxPod(t)
	p.ca.Mount(t, p.path("certs"), p.ca)
	pl := p.plan(1, "1", "hello")
	lines := pl.Files[0].Entries[0].Args
	for i := range lines {
		if lines[i] == "listen "+p.address+";" {
			lines[i] = "listen " + p.address + " ssl;\nssl_certificate " + p.path("certs/tls.crt") + ";\nssl_certificate_key " +
				p.path("certs/tls.key") + ";"
		}
	}
	pl.TLS = &plan.TLS{Reload: &plan.Reload{Signal: "SIGHUP"}}
	p.mount(pl)
	p.run()
	client := p.client()
	before := p.await(client, "the process", isRunning)
	serial := func(ca *testpki.Authority) (string, error) {
		conn, err := tls.Dial("tcp", p.address, ca.ClientConfig(t, nil, testpki.Leaf{}))
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
	var first string
	eventually(t, func() (err error) { first, err = serial(p.ca); return err })
	p.ca.Mount(t, p.path("certs"), p.ca)
	eventually(t, func() error {
		now, err := serial(p.ca)
		if err == nil && now == first {
			err = fmt.Errorf("the certificate is still %s", first)
		}
		return err
	})
	after := p.await(client, "the new certificate", func(s *agentv1.ProcessStatus) bool {
		return s.GetCertificateDigest() != before.GetCertificateDigest()
	})
	if after.GetPid() != before.GetPid() || after.GetStarts() != 1 {
		t.Errorf("the process was restarted: it was %v and is %v", before, after)
	}
}
