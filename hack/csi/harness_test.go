// SPDX-License-Identifier: Apache-2.0

//go:build processes && linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/zeroinfra/hack/csi/internal/transport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// suite is a controller and nodes that run in this process.
type suite struct {
	t           *testing.T
	dir         string
	nodes       []string
	controller  csi.ControllerClient
	authority   *x509.Certificate
	key         *ecdsa.PrivateKey
	credentials string
}

// newSuite starts the driver's parts as the cluster does.
func newSuite(t *testing.T, nodes ...string) *suite {
	t.Helper()
	// Socket names have to be short.
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &suite{t: t, dir: dir, nodes: nodes}
	s.makeAuthority()
	s.credentials = s.issue("csi", transport.Peer)
	addresses := map[string]string{}
	for _, node := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[node] = l.Addr().String()
		l.Close()
		s.start("node", "--node="+node, "--root="+s.root(node), "--listen="+addresses[node],
			"--registration="+filepath.Join(dir, node, "reg"), "--socket="+s.socket(node), "--credentials="+s.credentials)
		s.await(addresses[node])
	}
	data, err := json.Marshal(addresses)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "nodes.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start("controller", "--nodes="+file, "--socket="+s.socket("controller"), "--credentials="+s.credentials)
	s.controller = csi.NewControllerClient(s.dial("controller"))
	return s
}

func (s *suite) root(node string) string   { return filepath.Join(s.dir, node, "store") }
func (s *suite) socket(part string) string { return filepath.Join(s.dir, part, "csi.sock") }

// start runs a part of the driver until the test ends, which it must survive.
func (s *suite) start(args ...string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%v ended with %v", args, err)
		}
	})
}

// await waits until somebody listens at an address. The controller does not wait for its nodes.
func (s *suite) await(address string) {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// dial returns a connection to a part's socket, and waits until it answers.
func (s *suite) dial(part string) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient("unix://"+s.socket(part), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if _, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true)); err != nil {
		s.t.Fatalf("%s does not answer: %v", part, err)
	}
	return conn
}

func (s *suite) makeAuthority() {
	s.t.Helper()
	var err error
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.key.Public(), s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.authority, err = x509.ParseCertificate(der); err != nil {
		s.t.Fatal(err)
	}
}

// issue makes a folder of credentials with a name of their own.
func (s *suite) issue(folder, name string) string {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.authority, key.Public(), s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	dir := filepath.Join(s.dir, "credentials", folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"ca.crt":  {Type: "CERTIFICATE", Bytes: s.authority.Raw},
		"csi.crt": {Type: "CERTIFICATE", Bytes: der},
		"csi.key": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return dir
}
