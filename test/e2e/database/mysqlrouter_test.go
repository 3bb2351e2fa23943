// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLRouter has clients come to one address: statements go to where they belong, an election is followed, and
// nothing is lost that was acknowledged. Routers come and go beside servers that run.
func TestMySQLRouter(t *testing.T) {
	g := newMySQLTrials(t, "mysqlrouter")
	// Pods are others with metrics than without.
	g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Monitoring = &platformv1.Monitoring{Enabled: true} })
	before := g.application().ProcessStarts()
	g.update(func(spec *databasev1.MySQLClusterSpec) {
		spec.Router = &databasev1.MySQLRouter{Replicas: 2, Parameters: platformv1.Parameters{"max_total_connections": "200"}}
	})
	for pod, starts := range g.application().ProcessStarts() {
		if was, member := before[pod]; member && was != starts {
			t.Errorf("for a router %s is %s, and was %s", pod, starts, was)
		}
	}
	checkMySQLRouterStatus(g)
	checkMySQLRouterRoutes(g)
	checkMySQLRouterMetrics(g)
	b := g.binding()
	for _, route := range []string{"router-rw", "router"} {
		// In the second round the API server is away for a short time.
		for _, fault := range mysqlFaults(1) {
			t.Run(fmt.Sprintf("%s through %s", fault.name, route), func(t *testing.T) {
				fault.tried(g.in(t), b[route+"-host"], b[route+"-port"], fault.name+", through "+route)
			})
		}
	}
	t.Run("all members gone at once", func(t *testing.T) {
		g := g.in(t)
		trial := g.startTrial(b["router-host"], b["router-port"])
		for _, pod := range g.members() {
			g.Delete(&pod, framework.GraceZero)
		}
		trial.end("all members gone, through router", framework.AnyGap)
	})
	g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Router.Replicas = 1 })
	g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Router = nil })
	g.Eventually(framework.SettleTimeout, "nothing tells of routers any more", func() error {
		s := g.object().Status
		if _, told := g.binding()["router-host"]; told || s.Routers != "" || s.RouterEndpoint != "" {
			return fmt.Errorf("the status says %q, %q, and the binding names them: %t", s.Routers, s.RouterEndpoint, told)
		}
		return nil
	})
}

// checkMySQLRouterMetrics has each Router tell what goes through it.
func checkMySQLRouterMetrics(g *mysqlGroup) {
	g.Helper()
	for _, name := range []string{"0", "1"} {
		pod := &corev1.Pod{}
		g.MustGet(g.application().Name+"-router-main-"+name, pod)
		for _, route := range []string{"primary", "replicas", "split"} {
			g.application().WaitForSample(pod, mysqlMetricsPort, 1, "mysql_router_route_alive", `route="`+route+`"`)
		}
		g.application().WaitForSample(pod, mysqlMetricsPort, 200, "mysql_router_max_connections")
		for _, query := range []string{"routes", "health", "limits", "pools", "members"} {
			g.application().WaitForSample(pod, mysqlMetricsPort, 1, "mysql_query_success", `query="`+query+`"`)
		}
	}
}

func checkMySQLRouterStatus(g *mysqlGroup) {
	b := g.binding()
	g.Eventually(framework.SettleTimeout, "the status tells of the routers", func() error {
		s := g.object().Status
		if s.Routers != "2/2" || s.RouterEndpoint != net.JoinHostPort(b["router-host"], b["router-port"]) ||
			s.Ready != "5/5" || len(s.Members) != 3 {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	for key, port := range map[string]string{"router-port": "6450", "router-rw-port": "6446", "router-ro-port": "6447"} {
		if b[key] != port {
			g.Errorf("%s is %q, want %s", key, b[key], port)
		}
	}
}

// checkMySQLRouterRoutes has each port lead to where it is said to.
func checkMySQLRouterRoutes(g *mysqlGroup) {
	b := g.binding()
	const where = "SELECT @@hostname"
	primary := g.primaryPod().Name
	for route, expected := range map[string]func(name string) bool{
		"router-rw": func(name string) bool { return name == primary },
		"router-ro": func(name string) bool { return name != primary },
		// A read, by itself, belongs to a replica.
		"router": func(name string) bool { return name != primary },
	} {
		db := g.external(b[route+"-host"], b[route+"-port"])
		g.Eventually(framework.SettleTimeout, route+" leads to where it is to", func() error {
			name, err := g.asks(db, where)
			if err == nil && !expected(name) {
				err = fmt.Errorf("it leads to %q, and %q is the primary", name, primary)
			}
			return err
		})
	}
	split := g.external(b["router-host"], b["router-port"])
	g.exec(split, "INSERT INTO numbers VALUES (-1)")
	tx, err := split.BeginTx(g.Ctx, nil)
	if err != nil {
		g.Fatal(err)
	}
	var name string
	if err := tx.QueryRowContext(g.Ctx, where).Scan(&name); err != nil || name != primary {
		g.Errorf("a transaction that may write begins at %q, %v; the primary is %q", name, err, primary)
	}
	if err := tx.Rollback(); err != nil {
		g.Error(err)
	}
	replica := g.externalConfig(b["router-ro-host"], b["router-ro-port"])
	replica.RejectReadOnly = false
	g.expectRefused(g.open(replica), "read-only", "INSERT INTO numbers VALUES (-2)")
}
