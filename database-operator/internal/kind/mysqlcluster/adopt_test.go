// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// adopting is a MySQLCluster that takes a MySQL over.
func adopting() *databasev1.MySQLCluster {
	m := &databasev1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	m.Spec.Version, m.Spec.AdoptMySQL = "9.7", "orders"
	return m
}

// TestAnAdoptedInstanceKeepsItsName, since that is in the addresses of clients.
func TestAnAdoptedInstanceKeepsItsName(t *testing.T) {
	out, err := typed.Register(Kind{}).Compile(adopting(), "database")
	if err != nil {
		t.Fatal(err)
	}
	app := out.Application
	label := app.Labels[platformv1.DeclaredAsLabel]
	if app.Name != "mysql-orders" || app.Spec.Topology != "group" || label != "mysqlcluster-orders" {
		t.Errorf("it is %s of topology %s with the labels %v", app.Name, app.Spec.Topology, app.Labels)
	}
}

func TestAdoptable(t *testing.T) {
	tables := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: tablesReplicable, Status: status, Message: "app.keyless. Add a primary key"}}
	}
	for title, test := range map[string]struct {
		change     func(*platformv1.ApplicationSpec)
		conditions []metav1.Condition
		want       string
	}{
		"as it is": {conditions: tables(metav1.ConditionTrue)},
		"another version": {func(s *platformv1.ApplicationSpec) { s.Version = "8.0" }, tables(metav1.ConditionTrue),
			"has version 8.0"},
		"tls": {func(s *platformv1.ApplicationSpec) { s.TLS = &platformv1.TLS{Enabled: true} },
			tables(metav1.ConditionTrue), "tls.enabled is not that of"},
		"nobody looked yet": {want: "does not say yet"},
		"it is not known":   {conditions: tables(metav1.ConditionUnknown), want: "does not say yet"},
		"a table":           {conditions: tables(metav1.ConditionFalse), want: "app.keyless"},
	} {
		t.Run(title, func(t *testing.T) {
			app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Version: "9.7"}}
			app.Status.Conditions = test.conditions
			if test.change != nil {
				test.change(&app.Spec)
			}
			got := Kind{}.Adoptable(adopting(), app)
			if got == "" && test.want != "" || !strings.Contains(got, test.want) {
				t.Errorf("it says %q", got)
			}
		})
	}
}
