// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/certmanager"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// namedAuthority signs certificates for tests.
type namedAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

var authorities struct {
	sync.Mutex
	by map[string]*namedAuthority
}

// authorityNamed is the same one for the same name.
func authorityNamed(t *testing.T, name string) *namedAuthority {
	t.Helper()
	authorities.Lock()
	defer authorities.Unlock()
	if a := authorities.by[name]; a != nil {
		return a
	}
	a := &namedAuthority{}
	a.certificate, a.key = a.signs(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	if authorities.by == nil {
		authorities.by = map[string]*namedAuthority{}
	}
	authorities.by[name] = a
	return a
}

// signs a certificate; that of the authority itself while it has none.
func (a *namedAuthority) signs(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, with := a.certificate, a.key
	if parent == nil {
		parent, with = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// issues a certificate of a process, as PEM.
func (a *namedAuthority) issues(t *testing.T) []byte {
	t.Helper()
	certificate, _ := a.signs(t, &x509.Certificate{Subject: pkix.Name{CommonName: "process"}})
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

// issueAuthority plays cert-manager for the CA that the instance has of its own.
func issueAuthority(t *testing.T, namespace, authority string) *corev1.Secret {
	t.Helper()
	a := authorityNamed(t, authority)
	return issueAs(t, namespace, "redis-a-ca", a.pem, a.pem)
}

// namesIn are the names of the certificates in PEM.
func namesIn(data []byte) string {
	var names []string
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		name := "none"
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			name = certificate.Subject.CommonName
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// serves has a pod report that its process serves the certificate in a Secret.
func serves(t *testing.T, pod *corev1.Pod, leaf *corev1.Secret) {
	t.Helper()
	said, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	said.CertificateDigest = certmanager.Digest(leaf)
	reported := pod.DeepCopy()
	reported.Annotations[platformv1.ReportAnnotation] = said.String()
	if err := env.Client.Patch(t.Context(), reported, client.MergeFrom(pod)); err != nil {
		t.Fatal(err)
	}
}

// allServe has all pods of a component serve the certificate in a Secret.
func allServe(t *testing.T, app *platformv1.Application, component string, leaf *corev1.Secret) {
	t.Helper()
	pods := podsOf(t, app, component)
	for i := range pods {
		serves(t, &pods[i], leaf)
	}
}

// podsOf are the pods of a component; of all where that is empty.
func podsOf(t *testing.T, app *platformv1.Application, component string) []corev1.Pod {
	t.Helper()
	labels := client.MatchingLabels{platformv1.ApplicationLabel: app.Name}
	if component != "" {
		labels[platformv1.ComponentLabel] = component
	}
	var pods corev1.PodList
	if err := env.Client.List(t.Context(), &pods, client.InNamespace(app.Namespace), labels); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		t.Fatalf("component %q has no pods", component)
	}
	return pods.Items
}

// wantTrust waits until all pods are given these authorities, and clients as well.
func wantTrust(t *testing.T, app *platformv1.Application, names string) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: platformv1.TrustNameFor(app.Name)},
	}
	testkit.WaitFor(t, env.Client, secret, "has the authorities "+names, func() error {
		if got := namesIn(secret.Data["ca.crt"]); got != names {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	wantBinding(t, app, names, "rediss://")
}

// TestCertificatesFollowAReplacedAuthority: the CA of an instance gets another key, as when its Secret is deleted, and
// the certificates of the components follow one by one. Until the last pod serves one of the new CA, all pods and
// clients trust both, also through a restart of the operator; no pod is replaced.
func TestCertificatesFollowAReplacedAuthority(t *testing.T) {
	namespace := env.Namespace(t)
	installCertManager(t)
	node(t, namespace)
	_, _, stop := run(t, -1)
	app := application(namespace)
	app.Spec.Topology, app.Spec.TLS = "sentinel", &platformv1.TLS{Enabled: true}
	create(t, app)
	issueAuthority(t, namespace, "before")
	for _, component := range []string{"redis", "sentinel"} {
		issue(t, namespace, platformv1.CertificateNameFor(app.Name, component), "before")
	}
	testkit.WaitForReady(t, env.Client, app)
	for _, component := range []string{"redis", "sentinel"} {
		secret := secretNamed(t, app, platformv1.CertificateNameFor(app.Name, component))
		allServe(t, app, component, secret)
	}
	wantTrust(t, app, "before")
	pods := mounting(t, app)

	issueAuthority(t, namespace, "after")
	wantTrust(t, app, "after,before")
	stop()
	leaf := issue(t, namespace, "redis-a-redis-tls", "after")
	run(t, -1)
	wantOutdated(t, app, "redis-a-redis-tls")
	allServe(t, app, "redis", leaf)
	testkit.WaitFor(t, env.Client, app, "knows who serves the new certificate", func() error {
		return servedBy(t, app, "redis")
	})
	wantTrust(t, app, "after,before")
	leaf = issue(t, namespace, "redis-a-sentinel-tls", "after")
	wantOutdated(t, app, "redis-a-sentinel-tls")
	wantTrust(t, app, "after,before")
	allServe(t, app, "sentinel", leaf)
	wantTrust(t, app, "after")
	testkit.WaitForReady(t, env.Client, app)
	if now := mounting(t, app); !maps.Equal(now, pods) {
		t.Errorf("the pods were %v and are %v", pods, now)
	}
}

// wantOutdated waits until the Application knows that pods serve a certificate from before the one in a Secret.
func wantOutdated(t *testing.T, app *platformv1.Application, secret string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "says that pods serve a former certificate", func() error {
		served := conditions.Get(app, platformv1.CertificateServedCondition)
		if served == nil || served.Status != metav1.ConditionFalse || !strings.Contains(served.Message, secret) {
			return fmt.Errorf("it has %v", app.Status.Conditions)
		}
		return nil
	})
}

// servedBy says whether all pods of a component serve its present certificate.
func servedBy(t *testing.T, app *platformv1.Application, component string) error {
	key := client.ObjectKey{Namespace: app.Namespace, Name: platformv1.ComponentNameFor(app.Name, component)}
	live := &platformv1.Component{}
	if err := env.Client.Get(t.Context(), key, live); err != nil {
		return err
	}
	present := certmanager.Digest(secretNamed(t, app, platformv1.CertificateNameFor(app.Name, component)))
	for _, pod := range live.Status.Pods {
		if pod.CertificateDigest != present {
			return fmt.Errorf("pod %s serves %q", pod.Name, pod.CertificateDigest)
		}
	}
	return nil
}

// mounting are the pods of an Application, all of which have the authorities beside their certificate.
func mounting(t *testing.T, app *platformv1.Application) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	for _, pod := range podsOf(t, app, "") {
		uids[pod.Name] = pod.UID
		found := false
		for _, volume := range pod.Spec.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				found = found || source.Secret != nil && source.Secret.Name == platformv1.TrustNameFor(app.Name)
			}
		}
		if !found {
			t.Errorf("pod %s does not mount the authorities", pod.Name)
		}
	}
	return uids
}
