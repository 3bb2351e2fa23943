// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/x509"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestTLSOfReplicas has a Redis with replicas speak TLS: to clients, among its servers, and in all that the engine asks
// them. Certificates are renewed while it runs, and a replica takes over.
func TestTLSOfReplicas(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "tlsreplicas")
	i := s.CreateRedis("db", framework.WithFsyncAlways(), framework.WithReplicas(1), speaksTLS(nil))
	i.WaitForReplicas(1)
	i.MustDo("EVAL", "for n=1,tonumber(ARGV[1]) do redis.call('SET','k:'..n,n) end", "0", fmt.Sprint(manyKeys))
	for _, m := range i.Object().Status.Members {
		a := i.AccountAt(m.Name)
		a.CA = ""
		if out, err := i.RedisCLI(a, "PING"); err == nil {
			t.Errorf("%s answers %q without TLS", m.Name, out)
		}
	}
	wantEverywhere(i, "tls-replication", "yes")
	wantEverywhere(i, "port", "0")

	before, runs := certificates(i), runIDs(i)
	i.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name,
		Name: platformv1.CertificateNameFor(i.Application(), framework.RedisComponent)}})
	took := i.Eventually(framework.RenewalTimeout, "each server serves the renewed certificate", func() error {
		for pod, old := range before {
			now, err := framework.ServerCertificate(i.PortForward(s.Name, pod, 6379), i.Account().Host, ca(i))
			if err != nil {
				return err
			}
			if now.SerialNumber.Cmp(old.SerialNumber) == 0 {
				return fmt.Errorf("%s still serves the one with serial number %s", pod, old.SerialNumber)
			}
		}
		return nil
	})
	t.Logf("served by all after %s", framework.FormatSeconds(took))
	// Another connection of the replica shows and is shown the new ones.
	i.MustDo("CLIENT", "KILL", "TYPE", "replica")
	i.WaitForReplicas(1)
	if after := runIDs(i); fmt.Sprint(after) != fmt.Sprint(runs) {
		t.Errorf("the processes were %v and are %v", runs, after)
	}

	primary := i.Object().Status.Primary
	pod := &corev1.Pod{}
	i.MustGet(primary, pod)
	i.Delete(pod, framework.GraceZero)
	i.Eventually(framework.SettleTimeout, "the replica takes over", func() error {
		if now := i.Object().Status.Primary; now == "" || now == primary {
			return fmt.Errorf("%q writes", now)
		}
		return nil
	})
	i.WaitForReplicas(1)
	if got := i.MustDo("DBSIZE"); got != fmt.Sprint(manyKeys) {
		t.Errorf("there are %s keys, want %d", got, manyKeys)
	}
}

// certificates are those that each pod serves.
func certificates(i *framework.Instance) map[string]*x509.Certificate {
	i.Helper()
	all := map[string]*x509.Certificate{}
	for _, m := range i.Object().Status.Members {
		all[m.Name] = i.MustServerCertificate(i.PortForward(i.Namespace.Name, m.Name, 6379), i.Account().Host, ca(i))
	}
	return all
}

// runIDs are the servers' own names of their present runs.
func runIDs(i *framework.Instance) map[string]string {
	i.Helper()
	all := map[string]string{}
	for _, m := range i.Object().Status.Members {
		out := i.MustRunClientCommand(func() (string, error) { return i.RedisCLI(i.AccountAt(m.Name), "INFO", "server") })
		all[m.Name] = framework.InfoField(out, "run_id")
	}
	return all
}
