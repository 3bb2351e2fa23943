// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
	"github.com/zeroinfra/agents/internal/testpki"
)

// TestAListenerThatAsksForACertificate is spoken with by who has one of the authority, and by nobody else.
func TestAListenerThatAsksForACertificate(t *testing.T) {
	c := testkafka.New(t, 1, "listener.name.client.ssl.client.auth=required")
	options := kafka.Options{Address: c.Nodes[0].Address, CAFile: c.CAFile, Username: testkafka.Admin,
		Password: func() (string, error) { return testkafka.AdminPassword, nil }}
	without := &server{c, kafka.New(options)}
	if rows, err := without.ask(driver.ReadOnly, "status"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without a certificate: %v, %v", rows, err)
	}
	options.CertificateFile, options.KeyFile = c.ClientCertificate()
	with := &server{c, kafka.New(options)}
	if alive := with.query("status")[0]["alive"]; alive != "1" {
		t.Errorf("with a certificate %q are alive", alive)
	}
}

// shown is the serial number of the certificate that a listener shows.
func shown(t *testing.T, address string) string {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestBrokersShowEachOtherCertificates: followers copy from a leader that asks them for one, as the plugin has them
// log in, and go on doing so when all have been given others. The listener for controllers shows the other one, too.
func TestBrokersShowEachOtherCertificates(t *testing.T) {
	folder, authority := t.TempDir(), testpki.New(t)
	file := func(name string, parts ...[]byte) string {
		path := filepath.Join(folder, name)
		var all []byte
		for _, part := range parts {
			all = append(all, part...)
		}
		if err := os.WriteFile(path, all, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	issue := func() string {
		certificate, key := authority.Issue(t,
			testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
		return file("node.pem", key, certificate)
	}
	const plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
	keystore := issue()
	s := newServer(t, 2, "min.insync.replicas=2",
		"listener.security.protocol.map=CLIENT:SASL_SSL,INTERNAL:SASL_SSL,CONTROLLER:SSL",
		"ssl.keystore.type=PEM", "ssl.keystore.location="+keystore,
		"ssl.truststore.type=PEM", "ssl.truststore.location="+file("ca.pem", authority.PEM()),
		"sasl.mechanism.inter.broker.protocol=PLAIN",
		"listener.name.internal.sasl.enabled.mechanisms=PLAIN",
		"listener.name.internal.plain.sasl.jaas.config="+plain+
			` username="internal" password="secret" user_internal="secret";`,
		"listener.name.internal.ssl.client.auth=required",
		"super.users=User:ANONYMOUS;User:admin;User:internal")
	s.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "4", "replication-factor", "2"))
	s.produce("orders", 40)
	former := shown(t, s.Nodes[0].Controller)
	issue()
	for _, node := range []string{"1", "2"} {
		if err := s.driver.SetOwn(t.Context(), node,
			map[string]string{"listener.name.internal.ssl.keystore.location": keystore,
				"listener.name.controller.ssl.keystore.location": keystore}); err != nil {
			t.Fatal(err)
		}
	}
	s.until("the listener for controllers shows the other certificate", func(map[string]string) bool {
		return shown(t, s.Nodes[0].Controller) != former && shown(t, s.Nodes[1].Controller) != former
	}, "cluster")
	s.Nodes[1].Kill()
	s.Nodes[1].Start()
	s.Nodes[1].Ready()
	s.until("all are in sync again", func(row map[string]string) bool { return row["underReplicated"] == "0" }, "cluster")
	s.produce("orders", 40)
	if got := s.count("orders"); got != 80 {
		t.Errorf("%d of 80 messages are there", got)
	}
}
