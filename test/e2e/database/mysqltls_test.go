// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"testing"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLClusterOverTLS has a group and its routers speak TLS once it was stopped, and renews its certificates while
// a client writes: servers are not started anew, and a member that is killed is let in by the others.
func TestMySQLClusterOverTLS(t *testing.T) {
	g := newMySQLTrials(t, "mysqltls")
	g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Router = &databasev1.MySQLRouter{Replicas: 2} })
	w := g.startWriter(g.bound(), int(framework.Written.Add(mysqlRound)))
	w.waitForAll("without TLS")
	overTLS := &platformv1.TLS{Enabled: true}
	g.ExpectRefused(g.tryUpdate(func(spec *databasev1.MySQLClusterSpec) { spec.TLS = overTLS }),
		"cannot change while it runs")
	g.Create(framework.NewOperation("stop", "Stop", g.reference()))
	g.WaitForOperation("stop")
	// Until it is known that no pod is left, this is refused.
	g.Eventually(framework.SettleTimeout, "TLS is taken", func() error {
		return g.tryUpdate(func(spec *databasev1.MySQLClusterSpec) { spec.TLS = overTLS })
	})
	g.Create(framework.NewOperation("start", "Start", g.reference()))
	g.WaitForOperation("start")
	g.waitReady()
	w.finish("turned to TLS", g.bound())
	g.expectTLSAlone()
	g.renewsCertificates()
}

// expectTLSAlone has the Services of servers and routers show certificates that are good for them, and refuse a client
// that speaks no TLS.
func (g *mysqlGroup) expectTLSAlone() {
	g.Helper()
	b := g.binding()
	for _, way := range []string{"", "router-"} {
		host, port := b[way+"host"], b[way+"port"]
		g.serial(host, port)
		plain := g.externalConfig(host, port)
		plain.TLS = nil
		db := g.open(plain)
		g.Eventually(framework.EndpointTimeout, host+" refuses a client without TLS", func() error {
			if _, err := g.asks(db, "SELECT 1"); err == nil {
				g.Errorf("%s answers a client without TLS", host)
			} else if !isMySQLError(err) {
				return err
			}
			return nil
		})
	}
}

// renewsCertificates has cert-manager issue others for the servers under load.
func (g *mysqlGroup) renewsCertificates() {
	g.Helper()
	b := g.binding()
	before, starts := g.serials(), g.memberStarts()
	trial := g.startTrial(b["host"], b["port"])
	g.application().Reissue(mysqlComponent)
	g.Eventually(framework.RenewalTimeout, "each member shows a renewed certificate", func() error {
		for pod, now := range g.serials() {
			if now == before[pod] {
				return fmt.Errorf("%s still shows the one with serial number %s", pod, now)
			}
		}
		return nil
	})
	g.application().WaitForServedCertificate()
	trial.end("certificates renewed", framework.AnyGap)
	g.wholeGroup(3)
	if now := g.memberStarts(); !maps.Equal(starts, now) {
		g.Errorf("for a renewed certificate processes were started: since %v, and since %v", starts, now)
	}
	trial = g.startTrial(b["host"], b["port"])
	g.signal(g.primaryPod().Name, "KILL")
	trial.end("process killed, with renewed certificates", framework.AnyGap)
	g.wholeGroup(3)
	g.waitForSameTransactions()
}

// memberStarts are when the processes of the servers were started, by pod.
func (g *mysqlGroup) memberStarts() map[string]string {
	g.Helper()
	all, starts := g.application().ProcessStarts(), map[string]string{}
	for _, pod := range g.members() {
		starts[pod.Name] = fmt.Sprint(all[pod.Name])
	}
	return starts
}

// serials are the serial numbers of the certificates that members show, by pod.
func (g *mysqlGroup) serials() map[string]string {
	g.Helper()
	all := map[string]string{}
	for _, pod := range g.members() {
		all[pod.Name] = g.serial(g.hostOf(pod.Name), "3306")
	}
	return all
}

// serial is the serial number of the certificate that a server shows, which has to be good for its name.
func (g *mysqlGroup) serial(host, port string) (serial string) {
	g.Helper()
	config := g.externalConfig(host, port)
	if config.TLS == nil {
		g.Fatalf("the binding has no CA to verify %s by", host)
	}
	config.TLS.VerifyConnection = func(state tls.ConnectionState) error {
		serial = state.PeerCertificates[0].SerialNumber.String()
		return nil
	}
	db := g.open(config)
	defer db.Close()
	g.Eventually(framework.EndpointTimeout, host+" shows a certificate that is good for it", func() error {
		if _, err := g.asks(db, "SELECT 1"); err != nil {
			return err
		}
		if serial == "" {
			return errors.New("it has answered without one")
		}
		return nil
	})
	return serial
}
