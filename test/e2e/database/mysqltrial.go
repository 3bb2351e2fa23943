// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/bench/faults"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// mysqlRound is more rows than a trial writes.
	mysqlRound = 1_000_000
)

// mysqlTrial is one fault of a group under load. The clients are on a machine of the cluster's network that no fault
// touches, and need no API server. Pods are watched, and each member is written to directly: two that are called the
// primary at once fail the test, and so do two that acknowledge writes as primaries at once, or members that have other
// transactions than the others in the end.
type mysqlTrial struct {
	*mysqlGroup
	writer *mysqlWriter
	stop   func()

	mu sync.Mutex
	// took are the writes that members acknowledged, and alone counts those that one outside of a group would have taken.
	took  []faults.Write
	alone map[string]int
}

// external is a client on a machine of the cluster's network, of one session, which connects anew where a server takes
// no writes.
func (g *mysqlGroup) external(host, port string) *sql.DB {
	g.Helper()
	db := g.open(g.externalConfig(host, port))
	db.SetMaxOpenConns(1)
	return db
}

func (g *mysqlGroup) externalConfig(host, port string) *mysql.Config {
	g.Helper()
	b := g.binding()
	config := g.config(b["username"], b["password"], b["database"])
	config.Addr = net.JoinHostPort(host, port)
	config.DialFunc = g.NewExternalClient().Dial
	config.Timeout, config.ReadTimeout, config.RejectReadOnly = framework.ClientTimeout, framework.ClientTimeout, true
	if config.TLS != nil {
		config.TLS.ServerName = host
	}
	return config
}

// startTrial begins to write to a Service, and to ask each member.
func (g *mysqlGroup) startTrial(host, port string) *mysqlTrial {
	g.Helper()
	b := g.binding()
	t := &mysqlTrial{mysqlGroup: g, alone: map[string]int{}}
	g.exec(g.external(b["host"], b["port"]), "CREATE TABLE IF NOT EXISTS "+mysqlProbes+
		" (n BIGINT PRIMARY KEY, view VARCHAR(64))")
	ctx, cancel := context.WithCancel(g.Ctx)
	var busy sync.WaitGroup
	t.stop = sync.OnceFunc(func() {
		cancel()
		busy.Wait()
	})
	g.Cleanup(t.stop)
	for _, pod := range g.members() {
		member := g.direct(pod.Name)
		busy.Go(func() { t.probe(ctx, pod.Name, member) })
	}
	events, err := framework.Cluster.Kube.CoreV1().Pods(g.Namespace.Name).Watch(ctx,
		metav1.ListOptions{LabelSelector: platformv1.ApplicationLabel + "=" + g.application().Name})
	if err != nil {
		g.Fatal(err)
	}
	busy.Go(func() { t.watchLabels(events) })
	t.writer = g.startWriter(g.external(host, port), int(framework.Written.Add(mysqlRound)))
	t.writer.waitForAll("before the fault")
	return t
}

// watchLabels has the test fail when two pods are called the primary at once.
func (t *mysqlTrial) watchLabels(events watch.Interface) {
	primaries := map[string]bool{}
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if event.Type == watch.Deleted || pod.Labels[platformv1.RoleLabel] != "primary" {
			delete(primaries, pod.Name)
			continue
		}
		if primaries[pod.Name] = true; len(primaries) > 1 {
			t.Errorf("%v are called the primary at once", primaries)
		}
	}
}

// end waits until the group is whole, and judges the fault.
func (t *mysqlTrial) end(fault string, limit time.Duration) {
	t.Helper()
	t.writer.waitForAll(fault)
	t.waitReady()
	// A session of before the fault may have stayed with the former primary, which has yet to copy what it lacks.
	b := t.binding()
	v := t.writer.finish(fault, t.external(b["host"], b["port"]))
	t.stop()
	v.Vacancy = t.judgeProbes(fault)
	t.waitForSameTransactions()
	v.Record("MySQL: " + fault)
	v.ExpectWithin(t.T, fault, limit)
}

// signal sends one to the server of a pod.
func (g *mysqlGroup) signal(pod, signal string) {
	g.Helper()
	if _, err := framework.Run(g.Ctx, g.Namespace.Name, pod, "mysql", "", "sh", "-c", framework.SignalScript+"exit 0",
		"signal", signal, "mysqld"); err != nil {
		g.Fatal(err)
	}
}

// waitForAnother waits until another pod than this one is called the primary.
func (g *mysqlGroup) waitForAnother(pod string) {
	g.Helper()
	g.Eventually(framework.ReadyTimeout, "another pod than "+pod+" is the primary", func() error {
		for _, other := range g.application().Pods() {
			if other.Name != pod && other.Labels[platformv1.RoleLabel] == "primary" {
				return nil
			}
		}
		return errNotYet
	})
}

// deleteClaim deletes the claim of a pod, which is gone when the pod is.
func (g *mysqlGroup) deleteClaim(pod string) {
	g.Helper()
	for name, claim := range g.application().Claims() {
		if strings.HasSuffix(name, pod) {
			g.Delete(&claim)
		}
	}
}
