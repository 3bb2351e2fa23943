// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

const (
	// single is the kind of the objects that become a MySQLCluster.
	single      = "MySQL"
	fieldAdopts = "spec.adoptMySQL"
	// tablesReplicable is the condition of the plugin that says whether a group takes writes to all tables.
	tablesReplicable = "TablesReplicable"
)

// Adopted implements typed.Adopter.
func (Kind) Adopted(m *databasev1.MySQLCluster) typed.Adopted {
	if m.Spec.AdoptMySQL == "" {
		return typed.Adopted{}
	}
	return typed.Adopted{Kind: single, Name: m.Spec.AdoptMySQL, Field: fieldAdopts}
}

// Adoptable implements typed.Adopter: a group could not take writes to some tables, and takes no other version in.
func (Kind) Adoptable(m *databasev1.MySQLCluster, app *platformv1.Application) string {
	tables := meta.FindStatusCondition(app.Status.Conditions, tablesReplicable)
	switch {
	case app.Spec.Version != m.Spec.Version:
		return fmt.Sprintf("%s %q has version %s, and this object asks for %s: ask for the same one",
			single, m.Spec.AdoptMySQL, app.Spec.Version, m.Spec.Version)
	case app.Spec.TLS.On() != m.Spec.TLS.On():
		return fmt.Sprintf("tls.enabled is not that of %s %q: ask for the same, and change it while the instance is stopped",
			single, m.Spec.AdoptMySQL)
	case tables == nil || tables.Status == metav1.ConditionUnknown:
		return fmt.Sprintf("%s %q does not say yet whether a group takes writes to all of its tables: "+
			"it looks once a minute", single, m.Spec.AdoptMySQL)
	case tables.Status == metav1.ConditionFalse:
		return fmt.Sprintf("%s %q would lose writes to some tables: %s", single, m.Spec.AdoptMySQL, tables.Message)
	}
	return ""
}

// ReferredKinds implements typed.Referrer.
func (Kind) ReferredKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{databasev1.GroupVersion.WithKind(single)}
}

// References implements typed.Referrer. The MySQL is deleted once it is taken over.
func (Kind) References(m *databasev1.MySQLCluster) []typed.Reference {
	if m.Spec.AdoptMySQL == "" {
		return nil
	}
	return []typed.Reference{{
		GVK: databasev1.GroupVersion.WithKind(single), Name: m.Spec.AdoptMySQL, Field: fieldAdopts, Optional: true,
	}}
}

// CompileWith implements typed.Referrer.
func (k Kind) CompileWith(m *databasev1.MySQLCluster, _ typed.Referents) (*typed.Output, error) {
	return k.Compile(m)
}
