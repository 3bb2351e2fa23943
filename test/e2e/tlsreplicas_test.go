// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/x509"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestTLSOfReplicas has a Redis with replicas speak TLS: to clients, among its servers, and in all that the engine asks them. Certificates are
// renewed while it runs, and a replica takes over.
func TestTLSOfReplicas(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "tlsreplicas")
	i := s.redis("db", safe(), withReplicas(1), speaksTLS(nil))
	i.following(1)
	i.must("EVAL", "for n=1,tonumber(ARGV[1]) do redis.call('SET','k:'..n,n) end", "0", fmt.Sprint(manyKeys))
	for _, m := range i.object().Status.Members {
		a := i.at(m.Name)
		a.ca = ""
		if out, err := i.redisCLI(a, "PING"); err == nil {
			t.Errorf("%s answers %q without TLS", m.Name, out)
		}
	}
	i.wantEverywhere("tls-replication", "yes")
	i.wantEverywhere("port", "0")

	before, runs := i.certificates(), i.runIDs()
	i.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: platformv1.CertificateNameFor(i.application(), redisComponent)}})
	took := i.eventually(renewalIn, "each server serves the renewed certificate", func() error {
		for pod, old := range before {
			now, err := shownAt(i.forward(s.name, pod, 6379), i.account().host, i.ca())
			if err != nil {
				return err
			}
			if now.SerialNumber.Cmp(old.SerialNumber) == 0 {
				return fmt.Errorf("%s still serves the one with serial number %s", pod, old.SerialNumber)
			}
		}
		return nil
	})
	t.Logf("served by all after %s", seconds(took))
	// Another connection of the replica shows and is shown the new ones.
	i.must("CLIENT", "KILL", "TYPE", "replica")
	i.following(1)
	if after := i.runIDs(); fmt.Sprint(after) != fmt.Sprint(runs) {
		t.Errorf("the processes were %v and are %v", runs, after)
	}

	primary := i.object().Status.Primary
	pod := &corev1.Pod{}
	i.mustGet(primary, pod)
	i.delete(pod, graceZero)
	i.eventually(settleIn, "the replica takes over", func() error {
		if now := i.object().Status.Primary; now == "" || now == primary {
			return fmt.Errorf("%q writes", now)
		}
		return nil
	})
	i.following(1)
	if got := i.must("DBSIZE"); got != fmt.Sprint(manyKeys) {
		t.Errorf("there are %s keys, want %d", got, manyKeys)
	}
}

// certificates are those that each pod serves.
func (i *instance) certificates() map[string]*x509.Certificate {
	i.Helper()
	all := map[string]*x509.Certificate{}
	for _, m := range i.object().Status.Members {
		all[m.Name] = i.mustShow(i.forward(i.space.name, m.Name, 6379), i.account().host, i.ca())
	}
	return all
}

// runIDs are the servers' own names of their present runs.
func (i *instance) runIDs() map[string]string {
	i.Helper()
	all := map[string]string{}
	for _, m := range i.object().Status.Members {
		out := i.answered(func() (string, error) { return i.redisCLI(i.at(m.Name), "INFO", "server") })
		all[m.Name] = infoField(out, "run_id")
	}
	return all
}
