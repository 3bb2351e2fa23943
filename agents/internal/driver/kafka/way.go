// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// way is how a session gets to a cluster, and who it is there.
type way struct {
	// addresses of brokers, of which the first that answers is asked.
	addresses []string
	// username is empty where the listener asks for no login.
	username, password string
	mechanism          sarama.SASLMechanism
	// elsewhere says that others look after the brokers.
	elsewhere bool
	// secure has a connection to an address speak TLS; nil where it does not.
	secure func(connection net.Conn, address string) net.Conn
}

// as is the way of somebody else, who logs in by SCRAM-SHA-512.
func (w way) as(username, password string) way {
	w.username, w.password, w.mechanism = username, password, sarama.SASLTypeSCRAMSHA512
	return w
}

// Options of a driver for the broker of the pod.
type Options struct {
	// Address of the broker: host and port.
	Address string
	// CAFile is what certificates of brokers must lead to; empty where the listener does not speak TLS.
	CAFile string
	// CertificateFile and KeyFile are what it shows to a listener that asks for a certificate; both are read then.
	CertificateFile, KeyFile string
	// Username and Password that it logs in with by SCRAM-SHA-512; an empty name where the listener asks for none. The
	// password is read for each call, since it can change.
	Username string
	Password func() (string, error)
}

// New returns a driver for the broker of the pod, by which it gets to the others.
func New(options Options) *Driver { return newDriver(options.way) }

func (o Options) way() (way, error) {
	password, err := o.Password()
	if err != nil {
		return way{}, err
	}
	w := way{addresses: []string{o.Address}}.as(o.Username, password)
	config, err := driver.TLS(o.CAFile)
	if err != nil || config == nil {
		return w, err
	}
	if o.CertificateFile != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(o.CertificateFile, o.KeyFile)
			return &certificate, err
		}
	}
	// A certificate is for the host that was asked for, and that of the pod's own broker for a Service.
	w.secure = func(connection net.Conn, address string) net.Conn {
		if address == o.Address {
			return tls.Client(connection, config)
		}
		return tls.Client(connection, driver.Named(config, address))
	}
	return w, nil
}

// External is a cluster that is not in the pod, and that others look after.
type External struct {
	// Settings say where it is: those of plan.ProtocolKafkaExternal.
	Settings map[string]string
	// Account, Key and CA are the name of the account, its password, and the authority of the brokers' certificates as
	// PEM: those of the image where CA is nil. They are looked up at each call, since they can change.
	Account, Key, CA *plan.SecretRef
	Secret           configfile.Lookup
}

// NewExternal returns a driver for a cluster that is not in the pod.
func NewExternal(external External) *Driver { return newDriver(external.way) }

// ErrAccount says that a cluster answers, and refuses who asks.
var ErrAccount = errors.New("kafka answers, and rejects the account or its password: correct them in their Secret")

// Check asks the cluster for its brokers. The error says why it does not answer, or, with ErrAccount, that it does not
// take the account.
func (d *Driver) Check(ctx context.Context) error {
	err := d.with(ctx, func(s *session) error {
		_, err := s.brokers()
		return err
	})
	if errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
		return ErrAccount
	}
	return err
}

func (e External) way() (way, error) {
	texts, err := driver.Texts(e.Secret, e.Account, e.Key, e.CA)
	if err != nil {
		return way{}, err
	}
	w := way{addresses: strings.Split(e.Settings[plan.SettingBootstrap], ","), username: texts[e.Account],
		password: texts[e.Key], mechanism: sarama.SASLMechanism(e.Settings[plan.SettingMechanism]), elsewhere: true}
	if w.username == "" {
		return way{}, errors.New("the Secret of the account has no user name: put it there")
	}
	switch security := e.Settings[plan.SettingSecurity]; security {
	case "SASL_PLAINTEXT":
		return w, nil
	case "SASL_SSL":
	default:
		return way{}, fmt.Errorf("the setting %s is %q: it must be SASL_SSL or SASL_PLAINTEXT", plan.SettingSecurity,
			security)
	}
	var roots *x509.CertPool
	if e.CA != nil {
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM([]byte(texts[e.CA])) {
			return way{}, errors.New("the Secret with the authority of the brokers' certificates has no certificate: put it " +
				"there as PEM")
		}
	}
	w.secure = func(connection net.Conn, address string) net.Conn {
		host, _, _ := net.SplitHostPort(address)
		return tls.Client(connection, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: host})
	}
	return w, nil
}
