// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// tlsScript gets the URI in the first line and the certificate of the CA in the others.
const tlsScript = `IFS= read -r URI
cat >/tmp/ca.crt
exec timeout 10 redis-cli -e --no-auth-warning -u "$URI" --cacert /tmp/ca.crt "$@"`

func speaksTLS(issuer *platformv1.IssuerReference) framework.Setting {
	return func(spec *databasev1.RedisSpec) { spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer} }
}

// TestTLS has a Redis with a CA of its own and one with an issuer that is there already speak TLS, and renews a
// certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "tls")
	own := s.CreateRedis("own", speaksTLS(nil))
	named := s.CreateRedis("named", speaksTLS(s.CreateClusterIssuer()))
	for _, i := range []*framework.Instance{own, named} {
		t.Run(i.Name, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			i.WaitReadyCondition()
			i.Eventually(framework.EndpointTimeout, "a client that trusts the CA gets an answer", func() error {
				out, err := secure(i, "PING")
				if err == nil && out != "PONG" {
					err = fmt.Errorf("it is %q", out)
				}
				return err
			})
			a := i.Account()
			if !strings.HasPrefix(a.URI, "rediss://") {
				t.Errorf("the URI of the binding is not one of TLS")
			}
			a.CA = ""
			if out, err := i.RedisCLI(a, "PING"); err == nil {
				t.Errorf("without TLS the answer is %q", out)
			}
			if got := served(i).DNSNames; len(got) == 0 {
				t.Error("the certificate has no names")
			}
		})
	}
	lost := s.CreateRedis("lost", speaksTLS(&platformv1.IssuerReference{Name: "nobody"}))
	lost.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonIssuerNotReady,
		Texts: []string{`Issuer "nobody"`, "tls.issuerRef", "create it, or name another one"}})
	lost.Update(speaksTLS(named.Object().Spec.TLS.IssuerRef))
	wantOthersRefused(own, named)
	lost.WaitReadyCondition()
	renewed(own)
	turned(own)
}

// secure runs a command over TLS with nothing but what the binding says.
func secure(i *framework.Instance, arguments ...string) (string, error) {
	i.Helper()
	command := append([]string{"sh", "-c", tlsScript, "redis-cli"}, arguments...)
	return framework.Run(i.Ctx, i.Namespace.Name, i.ClientPod(), framework.ClientPodName, i.Account().URI+"\n"+
		string(ca(i)), command...)
}

// ca is the certificate of the CA that the binding carries.
func ca(i *framework.Instance) []byte {
	i.Helper()
	secret := &corev1.Secret{}
	i.MustGet(i.Object().Status.BindingName, secret)
	if len(secret.Data["ca.crt"]) == 0 {
		i.Fatalf("the binding of %q has no ca.crt", i.Name)
	}
	return secret.Data["ca.crt"]
}

// served is the certificate that the server shows, which must be good for the Service under the CA of the binding.
func served(i *framework.Instance) *x509.Certificate {
	i.Helper()
	return i.MustServerCertificate(i.PortForward(i.Namespace.Name, i.PodName(), 6379), i.Account().Host, ca(i))
}

func trying(i *framework.Instance, ca []byte) (*x509.Certificate, error) {
	i.Helper()
	return framework.ServerCertificate(i.PortForward(i.Namespace.Name, i.PodName(), 6379), i.Account().Host, ca)
}

// wantOthersRefused: each instance has a CA of its own.
func wantOthersRefused(i *framework.Instance, other *framework.Instance) {
	i.Helper()
	if _, err := trying(i, ca(other)); err == nil {
		i.Errorf("the certificate of %q is good under the CA of %q", i.Name, other.Name)
	}
}

// renewed has cert-manager issue another certificate, and waits until the same process serves it.
func renewed(i *framework.Instance) {
	i.Helper()
	before, pod, process := served(i), i.Pod(), secureRun(i)
	name := platformv1.CertificateNameFor(i.Application(), framework.RedisComponent)
	i.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace.Name, Name: name}})
	took := i.Eventually(framework.RenewalTimeout, "the renewed certificate is served", func() error {
		certificate, err := trying(i, ca(i))
		if err == nil && certificate.SerialNumber.Cmp(before.SerialNumber) == 0 {
			err = fmt.Errorf("it is still the one with serial number %s", before.SerialNumber)
		}
		return err
	})
	i.Logf("served %s after its Secret was deleted", took.Round(time.Second))
	after := i.Pod()
	if after.UID != pod.UID || fmt.Sprint(framework.Restarts(after)) != fmt.Sprint(framework.Restarts(pod)) ||
		secureRun(i) != process {
		i.Errorf("the pod or the process is another one")
	}
	i.WaitReadyCondition()
	i.Eventually(framework.SettleTimeout, "the Component says that every pod serves it", func() error {
		component := &platformv1.Component{}
		if err := i.Get(platformv1.ComponentNameFor(i.Application(), framework.RedisComponent), component); err != nil {
			return err
		}
		for _, condition := range component.Status.Conditions {
			if condition.Type == platformv1.CertificateServedCondition && condition.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("it has %s", framework.Describe(component.Status.Conditions))
	})
}

// secureRun is redis-server's own name of its present run.
func secureRun(i *framework.Instance) string {
	i.Helper()
	return framework.InfoField(i.MustRunClientCommand(func() (string, error) { return secure(i, "INFO", "server") }),
		"run_id")
}

// turned has TLS turned off and on again: other pods, the same data.
func turned(i *framework.Instance) {
	i.Helper()
	i.MustRunClientCommand(func() (string, error) { return secure(i, "SET", "kept", "yes") })
	before := i.Pod().UID
	i.Update(func(spec *databasev1.RedisSpec) { spec.TLS = nil })
	i.WaitReady()
	if got := i.MustDo("GET", "kept"); got != "yes" {
		i.Errorf("without TLS the value is %q", got)
	}
	between := i.Pod().UID
	i.Update(speaksTLS(nil))
	i.WaitReadyCondition()
	i.Eventually(framework.EndpointTimeout, "TLS is back", func() error {
		out, err := secure(i, "GET", "kept")
		if err == nil && out != "yes" {
			err = fmt.Errorf("the value is %q", out)
		}
		return err
	})
	if after := i.Pod().UID; before == between || between == after {
		i.Error("the pod was not replaced")
	}
}
