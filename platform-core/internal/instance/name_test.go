// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// declared is an Application that an object of a domain API declares.
func declared(name, kind, by string, labels map[string]string) *platformv1.Application {
	return &platformv1.Application{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "database.zeroinfra.github.com/v1", Kind: kind, Name: by, UID: "1", Controller: new(true),
		}},
	}}
}

// TestNameOfATarget, also where its Application was that of another object: references lead both ways.
func TestNameOfATarget(t *testing.T) {
	scheme := testkit.Scheme(t, platformv1.AddToScheme)
	took := declared("mysql-orders", "MySQLCluster", "orders",
		map[string]string{platformv1.DeclaredAsLabel: "mysqlcluster-orders"})
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(took,
		declared("mysqlcluster-bills", "MySQLCluster", "bills", nil)).Build()
	for title, test := range map[string]struct{ kind, name, want string }{
		"one of its own":      {"MySQLCluster", "bills", "mysqlcluster-bills"},
		"taken over":          {"MySQLCluster", "orders", "mysql-orders"},
		"who had it before":   {"MySQL", "orders", "mysql-orders"},
		"one that is not yet": {"MySQLCluster", "stock", "mysqlcluster-stock"},
	} {
		t.Run(title, func(t *testing.T) {
			target, refusal := opsflow.ParseTarget(platformv1.TargetReference{
				APIVersion: "database.zeroinfra.github.com/v1", Kind: test.kind, Name: test.name})
			if refusal != nil {
				t.Fatal(refusal.Message)
			}
			name, err := NameOf(t.Context(), reader, "shop", target)
			if err != nil || name != test.want {
				t.Errorf("it is %q: %v", name, err)
			}
			if owns := target.Owns(took); owns != (title == "taken over") {
				t.Errorf("it owns what was taken over: %v", owns)
			}
		})
	}
	if _, by := opsflow.DeclaredBy(took); by.Kind != "MySQLCluster" || by.Name != "orders" {
		t.Errorf("it is declared by %+v", by)
	}
}
