// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// PostgreSQLApplication is a PostgreSQL of a test, with a pod of the same image that is its client.
type PostgreSQLApplication struct {
	*Application
	Client string
}

// NewPostgreSQLApplication returns an Application of the plugin postgresql.
func NewPostgreSQLApplication(version string) platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "postgresql", PluginVersion: "1.0.0", Version: version, Topology: "standalone",
		DeletionPolicy: platformv1.DeletionPolicyDelete,
		Components: []platformv1.ApplicationComponent{{
			Name:       PostgreSQLComponent,
			Monitoring: &platformv1.Monitoring{Enabled: true},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
					corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			Storage:    &platformv1.Storage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"shared_preload_libraries": "pg_stat_statements", "max_connections": "40"},
		}},
	}
}

// In returns the same server for a subtest.
func (p *PostgreSQLApplication) In(t *testing.T) *PostgreSQLApplication {
	return &PostgreSQLApplication{Application: &Application{Namespace: p.Namespace.In(t), Name: p.Name}, Client: p.Client}
}

// Binding is what the Secret for clients has.
func (p *PostgreSQLApplication) Binding() map[string]string {
	p.Helper()
	app := p.Object()
	if app.Status.Binding == nil {
		p.Fatal("the status names no binding")
	}
	return p.BindingData(app.Status.Binding.Name)
}

// SuperuserPassword is in a Secret that clients have no need of.
func (p *PostgreSQLApplication) SuperuserPassword() string {
	p.Helper()
	return p.Password("superuser")
}

// PSQL runs statements through the Service with a password, each in a transaction of its own.
func (p *PostgreSQLApplication) PSQL(user, password, database string, statements ...string) (string, error) {
	command := []string{"env", "PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=5", "/usr/lib/postgresql/" +
		PostgreSQLVersion + "/bin/psql",
		"-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", p.Name, "-U", user, "-d", database}
	for _, statement := range statements {
		command = append(command, "-c", statement)
	}
	return Run(p.Ctx, p.Namespace.Name, p.Client, p.Client, "", command...)
}

// SQL runs a statement as the superuser, and has to succeed.
func (p *PostgreSQLApplication) SQL(database, statement string) string {
	p.Helper()
	return strings.TrimSpace(p.MustRunClientCommand(
		func() (string, error) { return p.PSQL(superuser, p.SuperuserPassword(), database, statement) }))
}

// WaitForAnswer waits until a statement of the superuser gives what is wanted.
func (p *PostgreSQLApplication) WaitForAnswer(want, statement string) {
	p.Helper()
	p.Eventually(SettleTimeout, statement+" gives "+want, func() error {
		out, err := p.PSQL(superuser, p.SuperuserPassword(), superuser, statement)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("it gives %q", out)
		}
		return err
	})
}
