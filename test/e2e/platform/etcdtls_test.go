// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestEtcdTLS has an etcd cluster speak TLS with its clients and between its members, through the loss of the leader, a
// renewal, and a change of TLS.
func TestEtcdTLS(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "etcdtls")
	spec := etcdApplication()
	spec.TLS = &platformv1.TLS{Enabled: true}
	e := &etcd{Application: s.CreateApplication("vault", spec), scheme: "https"}
	t.Logf("apply to Ready of three members: %s", framework.FormatSeconds(e.WaitReady()))
	for _, part := range []struct {
		name string
		run  func(*etcd)
	}{
		{"every member has what one was told", (*etcd).checkMembers},
		{"strangers are refused", (*etcd).checkStrangers},
		{"the leader is killed", (*etcd).checkKill},
		{"the certificate is renewed", (*etcd).checkRenewal},
		{"TLS changes while it is stopped only", (*etcd).checkTurn},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(e.in(t)) })
	}
}

// checkStrangers tries without TLS, with another CA, and as a member that has no certificate.
func (e *etcd) checkStrangers() {
	leader, _ := e.led()
	for what, arguments := range map[string][]string{
		"without TLS":  {"etcdctl", "--endpoints=http://127.0.0.1:2379", "--command-timeout=2s", "get", "kept"},
		"without a CA": {"etcdctl", "--endpoints=" + e.local(), "--command-timeout=2s", "get", "kept"},
		"with another CA": {"etcdctl", "--endpoints=" + e.local(), "--cacert=/zeroinfra/tls/ca.crt", "--command-timeout=2s",
			"get", "kept"},
	} {
		if out, err := framework.Run(e.Ctx, e.Namespace.Name, leader, etcdComponent, "", arguments...); err == nil {
			e.Errorf("%s the answer is %q", what, out)
		}
	}
	// The name is checked elsewhere; here a client without a certificate is to be turned away.
	way := e.PortForward(e.Namespace.Name, leader, 2380)
	e.Eventually(framework.SettleTimeout, "a member without a certificate is told that it needs one", func() error {
		err := e.readsWithoutCertificate(way)
		if err == nil {
			e.Fatal("a member without a certificate is answered")
		}
		if !strings.Contains(err.Error(), "certificate") {
			return err
		}
		return nil
	})
}

// readsWithoutCertificate waits for a byte of a server over TLS.
func (e *etcd) readsWithoutCertificate(address string) error {
	e.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: framework.EndpointTimeout}, "tcp", address,
		&tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		e.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// checkRenewal: members and clients go on, the processes are the same, and a member that is new to the others is let in
// by its renewed certificate.
func (e *etcd) checkRenewal() {
	leader, followers := e.led()
	uids, processes, before := e.UIDs(), e.processes(), e.Certificates(2379)
	w := e.startWriter(followers[0])
	start := time.Now()
	e.Reissue(etcdComponent)
	e.ReplaceCertificate(before)
	e.Logf("served by all %s after the Secret was deleted", time.Since(start).Round(time.Second))
	if after := e.processes(); !maps.Equal(processes, after) {
		e.Errorf("the processes were %v and are %v: a renewal restarts none", processes, after)
	}
	if _, err := framework.Run(e.Ctx, e.Namespace.Name, followers[1], etcdComponent, "", "busybox", "killall", "-9",
		"etcd"); err != nil {
		e.Fatal(err)
	}
	e.Eventually(framework.SettleTimeout, "the killed member is let in by the others", func() error {
		_, err := e.ctl(followers[1], e.local(), "endpoint", "health")
		return err
	})
	w.acknowledgedAgain()
	w.stop(framework.FailoverGapLimit)
	e.WaitReady()
	if out := e.mustCtl(leader, e.service(), "member", "list"); strings.Count(out, "started") != 3 {
		e.Errorf("the members are not three:\n%s", out)
	}
	if after := e.UIDs(); !maps.Equal(uids, after) {
		e.Errorf("the pods were %v and are %v: a renewal replaces none", uids, after)
	}
}

// processes are the numbers of etcd by pod.
func (e *etcd) processes() map[string]string {
	e.Helper()
	numbers := map[string]string{}
	for _, pod := range e.Pods() {
		out, err := framework.Run(e.Ctx, e.Namespace.Name, pod.Name, etcdComponent, "", "busybox", "pidof", "etcd")
		if err != nil {
			e.Fatal(err)
		}
		numbers[pod.Name] = out
	}
	return numbers
}

// checkTurn turns TLS off: not while members run, but while they are stopped. What they know stays.
func (e *etcd) checkTurn() {
	uids := e.UIDs()
	off := func(spec *platformv1.ApplicationSpec) { spec.TLS = nil }
	rejects(e.Application, off, platformv1.ReasonInvalidSpec, etcdComponent, "cannot change while it runs",
		"running to false")
	if after := e.UIDs(); !maps.Equal(uids, after) {
		e.Errorf("the pods were %v and are %v: what is refused must touch nothing", uids, after)
	}
	e.Update(func(spec *platformv1.ApplicationSpec) { spec.TLS = &platformv1.TLS{Enabled: true} })
	e.WaitReady()
	e.Update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(false) })
	e.WaitForPods()
	// Until it is known that no pod is left, this is refused.
	e.Eventually(framework.SettleTimeout, "TLS is given up", func() error { return e.TryUpdate(off) })
	e.WaitReady()
	e.Update(func(spec *platformv1.ApplicationSpec) { spec.Running = nil })
	e.WaitReady()
	e.scheme = "http"
	leader, _ := e.led()
	if out := e.mustCtl(leader, e.service(), "get", "kept", "--print-value-only"); out != "yes" {
		e.Errorf("without TLS the value is %q, want yes", out)
	}
	names := []string{platformv1.AuthorityNameFor(e.Name), platformv1.CertificateNameFor(e.Name, etcdComponent)}
	e.Eventually(framework.SettleTimeout, "nothing is left of its certificates", func() error {
		for _, name := range names {
			if err := framework.ErrUnlessNotFound(e.Get(name, &corev1.Secret{})); err != nil {
				return fmt.Errorf("Secret %q: %w", name, err)
			}
		}
		return nil
	})
}
