// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// agentPort is where the process manager of a pod serves operators.
const agentPort = 4880

// callIn bounds one call to an agent.
const callIn = 30 * time.Second

// authority is a certificate with its key that signs others.
type authority struct {
	certificate *x509.Certificate
	key         any
}

// foreignAuthority makes an authority that nobody trusts.
func foreignAuthority(s *framework.Namespace) authority {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "foreign"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		s.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		s.Fatal(err)
	}
	return authority{certificate: certificate, key: key}
}

// operatorsAuthority reads the authority of the domain database, which only an administrator may.
func operatorsAuthority(s *framework.Namespace) authority {
	s.Helper()
	secret := &corev1.Secret{}
	if err := framework.Cluster.Client.Get(s.Ctx,
		client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "database-agent-ca"}, secret); err != nil {
		s.Fatal(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		s.Fatalf("cannot read the authority of the agents: %v", err)
	}
	return authority{certificate: pair.Leaf, key: pair.PrivateKey}
}

// client makes a client certificate for a URI, signed by the authority.
func (a authority) client(s *framework.Namespace, uri string) *tls.Certificate {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "e2e"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		parsed, err := url.Parse(uri)
		if err != nil {
			s.Fatal(err)
		}
		template.URIs = []*url.URL{parsed}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		s.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// agentName is the name that the server certificate of the instance's pod has to carry.
func agentName(i *framework.Instance) string {
	return i.PodName() + "." + i.Namespace.Name + ".agent.zeroinfra.github.com"
}

// callAgent asks the process manager of the instance for its status, with this certificate or none.
func callAgent(i *framework.Instance, trusted authority, certificate *tls.Certificate) (*agentv1.ProcessStatus, error) {
	i.Helper()
	// One port-forward for each call: a refused connection ends it.
	address := i.PortForward(i.Namespace.Name, i.PodName(), agentPort)
	pool := x509.NewCertPool()
	pool.AddCert(trusted.certificate)
	config := &tls.Config{RootCAs: pool, ServerName: agentName(i), MinVersion: tls.VersionTLS12}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		i.Fatal(err)
	}
	defer func() {
		if err := connection.Close(); err != nil {
			i.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(i.Ctx, callIn)
	defer cancel()
	return agentv1.NewProcessServiceClient(connection).GetStatus(ctx, &agentv1.GetStatusRequest{})
}
