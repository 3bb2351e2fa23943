// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// clusterResources is where cert-manager looks for the Secrets of ClusterIssuers.
	clusterResources = "cert-manager"
	// tlsScript gets the URI in the first line and the certificate of the CA in the others.
	tlsScript = `IFS= read -r URI
cat >/tmp/ca.crt
exec timeout 10 redis-cli -e --no-auth-warning -u "$URI" --cacert /tmp/ca.crt "$@"`
)

func speaksTLS(issuer *platformv1.IssuerReference) setting {
	return func(spec *databasev1.RedisSpec) { spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer} }
}

// TestTLS has a Redis with a CA of its own and one with an issuer that is there already speak TLS, and renews a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "tls")
	own := s.redis("own", speaksTLS(nil))
	named := s.redis("named", speaksTLS(s.clusterIssuer()))
	for _, i := range []*instance{own, named} {
		t.Run(i.name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			i.becomesReady()
			i.eventually(spreadIn, "a client that trusts the CA gets an answer", func() error {
				out, err := i.secure("PING")
				if err == nil && out != "PONG" {
					err = fmt.Errorf("it is %q", out)
				}
				return err
			})
			a := i.account()
			if !strings.HasPrefix(a.uri, "rediss://") {
				t.Errorf("the URI of the binding is not one of TLS")
			}
			a.ca = ""
			if out, err := i.redisCLI(a, "PING"); err == nil {
				t.Errorf("without TLS the answer is %q", out)
			}
			if got := i.served().DNSNames; len(got) == 0 {
				t.Error("the certificate has no names")
			}
		})
	}
	lost := s.redis("lost", speaksTLS(&platformv1.IssuerReference{Name: "nobody"}))
	lost.stalled(stall{reason: platformv1.ReasonIssuerNotReady, texts: []string{`Issuer "nobody"`, "tls.issuerRef", "create it, or name another one"}})
	lost.update(speaksTLS(named.object().Spec.TLS.IssuerRef))
	own.wantOthersRefused(named)
	lost.becomesReady()
	own.renewed()
	own.turned()
}

// clusterIssuer makes a CA for this test and a ClusterIssuer that signs with it.
func (s *space) clusterIssuer() *platformv1.IssuerReference {
	s.Helper()
	make := func(kind, namespace, name string, spec map[string]any) {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": kind, "spec": spec}}
		object.SetName(name)
		object.SetNamespace(namespace)
		if err := world.client.Create(s.ctx, object); err != nil {
			s.Fatalf("cannot make %s %q: %v", kind, name, err)
		}
		s.Cleanup(func() {
			if err := world.client.Delete(context.Background(), object); err != nil && !apierrors.IsNotFound(err) {
				s.T.Error(err)
			}
		})
	}
	root, ca := s.name+"-root", s.name+"-ca"
	make("ClusterIssuer", "", root, map[string]any{"selfSigned": map[string]any{}})
	make("Certificate", clusterResources, ca, map[string]any{
		"isCA": true, "commonName": ca, "secretName": ca, "privateKey": map[string]any{"algorithm": "ECDSA", "size": int64(256)},
		"issuerRef": map[string]any{"name": root, "kind": "ClusterIssuer"},
	})
	make("ClusterIssuer", "", ca, map[string]any{"ca": map[string]any{"secretName": ca}})
	return &platformv1.IssuerReference{Name: ca, Kind: "ClusterIssuer"}
}

// secure runs a command over TLS with nothing but what the binding says.
func (i *instance) secure(arguments ...string) (string, error) {
	i.Helper()
	command := append([]string{"sh", "-c", tlsScript, "redis-cli"}, arguments...)
	return run(i.ctx, i.space.name, i.clientPod(), clientName, i.account().uri+"\n"+string(i.ca()), command...)
}

// ca is the certificate of the CA that the binding carries.
func (i *instance) ca() []byte {
	i.Helper()
	secret := &corev1.Secret{}
	i.mustGet(i.object().Status.BindingName, secret)
	if len(secret.Data["ca.crt"]) == 0 {
		i.Fatalf("the binding of %q has no ca.crt", i.name)
	}
	return secret.Data["ca.crt"]
}

// served is the certificate that the server shows, which must be good for the Service under the CA of the binding.
func (i *instance) served() *x509.Certificate {
	i.Helper()
	return i.mustShow(i.forward(i.space.name, i.podName(), 6379), i.account().host, i.ca())
}

func (i *instance) trying(ca []byte) (*x509.Certificate, error) {
	i.Helper()
	return shownAt(i.forward(i.space.name, i.podName(), 6379), i.account().host, ca)
}

// wantOthersRefused: each instance has a CA of its own.
func (i *instance) wantOthersRefused(other *instance) {
	i.Helper()
	if _, err := i.trying(other.ca()); err == nil {
		i.Errorf("the certificate of %q is good under the CA of %q", i.name, other.name)
	}
}

// renewed has cert-manager issue another certificate, and waits until the same process serves it.
func (i *instance) renewed() {
	i.Helper()
	before, pod, process := i.served(), i.pod(), i.secureRun()
	name := platformv1.CertificateNameFor(i.application(), redisComponent)
	i.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.space.name, Name: name}})
	took := i.eventually(renewalIn, "the renewed certificate is served", func() error {
		certificate, err := i.trying(i.ca())
		if err == nil && certificate.SerialNumber.Cmp(before.SerialNumber) == 0 {
			err = fmt.Errorf("it is still the one with serial number %s", before.SerialNumber)
		}
		return err
	})
	i.Logf("served %s after its Secret was deleted", took.Round(time.Second))
	after := i.pod()
	if after.UID != pod.UID || fmt.Sprint(restarts(after)) != fmt.Sprint(restarts(pod)) || i.secureRun() != process {
		i.Errorf("the pod or the process is another one")
	}
	i.becomesReady()
	i.eventually(settleIn, "the Component says that every pod serves it", func() error {
		component := &platformv1.Component{}
		if err := i.get(platformv1.ComponentNameFor(i.application(), redisComponent), component); err != nil {
			return err
		}
		for _, condition := range component.Status.Conditions {
			if condition.Type == platformv1.CertificateServedCondition && condition.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("it has %s", describe(component.Status.Conditions))
	})
}

// secureRun is redis-server's own name of its present run.
func (i *instance) secureRun() string {
	i.Helper()
	return infoField(i.answered(func() (string, error) { return i.secure("INFO", "server") }), "run_id")
}

// turned has TLS turned off and on again: other pods, the same data.
func (i *instance) turned() {
	i.Helper()
	i.answered(func() (string, error) { return i.secure("SET", "kept", "yes") })
	before := i.pod().UID
	i.update(func(spec *databasev1.RedisSpec) { spec.TLS = nil })
	i.ready()
	if got := i.must("GET", "kept"); got != "yes" {
		i.Errorf("without TLS the value is %q", got)
	}
	between := i.pod().UID
	i.update(speaksTLS(nil))
	i.becomesReady()
	i.eventually(spreadIn, "TLS is back", func() error {
		out, err := i.secure("GET", "kept")
		if err == nil && out != "yes" {
			err = fmt.Errorf("the value is %q", out)
		}
		return err
	})
	if after := i.pod().UID; before == between || between == after {
		i.Error("the pod was not replaced")
	}
}
