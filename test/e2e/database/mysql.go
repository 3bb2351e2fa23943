// SPDX-License-Identifier: Apache-2.0

package database

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// mysqlVersion is that of the MySQL of a test: 8.0, or what E2E_MYSQL_VERSION says.
var mysqlVersion = cmp.Or(os.Getenv("E2E_MYSQL_VERSION"), "8.0")

// mysqlMemory is the least limit of a group of each version.
var mysqlMemory = map[string]string{"8.0": "768Mi", "9.7": "1Gi"}

// mysqlOther is the version that mysqlVersion is not.
var mysqlOther = map[string]string{"8.0": "9.7", "9.7": "8.0"}[mysqlVersion]

const (
	// mysqlLater is the version that the dump of a test is restored into as well.
	mysqlLater = "9.7"
	// mysqlSum says whether rows are the same.
	mysqlSum = "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT(n, s)))) FROM orders.kept"
	// mysqlFilled says whether the rows of fill are the same.
	mysqlFilled = "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT(n, s)))) FROM app.filled"
)

// mysqlSpec asks for a small server of a version.
func mysqlSpec(version string) databasev1.MySQLSpec {
	return databasev1.MySQLSpec{InstanceSpec: platformv1.InstanceSpec{
		Version: version,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
				corev1.ResourceMemory: resource.MustParse("512Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(mysqlMemory[version])},
		},
		Storage:        platformv1.InstanceStorage{Size: resource.MustParse("1Gi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "innodb_redo_log_capacity": "32M"},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}}
}

// errNotYet says that something is not as it is to be yet.
var errNotYet = errors.New("it is not so yet")

// mysqlInstance is one MySQL of a test, or one MySQLCluster.
type mysqlInstance struct {
	*framework.Namespace
	name string
	ways *framework.PortForwards
	// kind of the object; MySQL when empty.
	kind string
	// adopted is the Application that it took over from another object; empty for one of its own.
	adopted string
}

// newMySQL makes a small MySQL, and waits until it is ready.
func newMySQL(s *framework.Namespace, name string) *mysqlInstance {
	s.Helper()
	s.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta(name), Spec: mysqlSpec(mysqlVersion)})
	m := &mysqlInstance{Namespace: s, name: name, ways: s.NewPortForwards()}
	m.waitReady()
	return m
}

// in returns the same instance for a subtest.
func (m *mysqlInstance) in(t *testing.T) *mysqlInstance {
	return &mysqlInstance{Namespace: m.Namespace.In(t), name: m.name, ways: m.ways, kind: m.kind, adopted: m.adopted}
}

func (m *mysqlInstance) object() *databasev1.MySQL {
	m.Helper()
	obj := &databasev1.MySQL{}
	m.MustGet(m.name, obj)
	return obj
}

func (m *mysqlInstance) application() *framework.Application {
	return &framework.Application{Namespace: m.Namespace,
		Name: cmp.Or(m.adopted, platformv1.ApplicationNameFor(m.reference().Kind, m.name))}
}

// reference names the instance as the target of an Operation.
func (m *mysqlInstance) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: databasev1.GroupVersion.String(), Kind: cmp.Or(m.kind, "MySQL"),
		Name: m.name}
}

// tryUpdate changes the spec as "kubectl patch" does.
func (m *mysqlInstance) tryUpdate(change func(*databasev1.MySQLSpec)) error {
	m.Helper()
	obj := m.object()
	before := obj.DeepCopy()
	change(&obj.Spec)
	return framework.Cluster.Client.Patch(m.Ctx, obj, client.MergeFrom(before))
}

// update is tryUpdate for what has to be accepted. It waits until the instance is ready with that.
func (m *mysqlInstance) update(change func(*databasev1.MySQLSpec)) {
	m.Helper()
	if err := m.tryUpdate(change); err != nil {
		m.Fatalf("cannot change MySQL %q: %v", m.name, err)
	}
	m.waitReady()
}

// read gets the object, of either kind, with the status that all kinds have.
func (m *mysqlInstance) read() (platformv1.Conditioned, *platformv1.InstanceStatus, error) {
	if m.kind == "" {
		obj := &databasev1.MySQL{}
		err := m.Get(m.name, obj)
		return obj, &obj.Status.InstanceStatus, err
	}
	obj := &databasev1.MySQLCluster{}
	err := m.Get(m.name, obj)
	return obj, &obj.Status.InstanceStatus, err
}

// waitReady waits until the instance is ready at its present generation. It returns how long that took.
func (m *mysqlInstance) waitReady() time.Duration {
	m.Helper()
	return m.Eventually(framework.ReadyTimeout, fmt.Sprintf("%s %q becomes ready", m.reference().Kind, m.name),
		func() error {
			obj, status, err := m.read()
			if err != nil {
				return err
			}
			return framework.ReadyNow(obj, status.ObservedGeneration)
		})
}

// waitForCondition waits until a condition has a status and a reason.
func (m *mysqlInstance) waitForCondition(condition string, status metav1.ConditionStatus, reason string) {
	m.Helper()
	m.Eventually(framework.ReadyTimeout, fmt.Sprintf("%s of %s is %s with %s", condition, m.name, status, reason),
		func() error {
			obj, _, err := m.read()
			if err != nil {
				return err
			}
			all := obj.GetConditions()
			if c := meta.FindStatusCondition(all, condition); c == nil || c.Status != status || c.Reason != reason {
				return fmt.Errorf("it says %s", framework.Describe(all))
			}
			return nil
		})
}

// credential is what the instance's Secret of a credential has.
func (m *mysqlInstance) credential(name string) map[string]string {
	m.Helper()
	return m.BindingData(platformv1.CredentialNameFor(m.application().Name, name))
}

// binding is what the Secret for clients has.
func (m *mysqlInstance) binding() map[string]string {
	m.Helper()
	return m.BindingData(m.application().Object().Status.Binding.Name)
}

// bound is a client that goes by the binding alone.
func (m *mysqlInstance) bound() *sql.DB {
	m.Helper()
	b := m.binding()
	return m.client(b["username"], b["password"], b["database"])
}

// client finds the instance by what the binding has, and reaches it as its Service leads.
func (m *mysqlInstance) client(user, password, database string) *sql.DB {
	m.Helper()
	db := m.open(m.config(user, password, database))
	db.SetMaxOpenConns(2)
	return db
}

// config leads to the instance.
func (m *mysqlInstance) config(user, password, database string) *mysql.Config {
	m.Helper()
	b := m.binding()
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(b["host"], b["port"])
	config.User, config.Passwd, config.DBName = user, password, database
	config.Timeout, config.ReadTimeout, config.Logger = 2*framework.AnswerTimeout, 2*framework.AnswerTimeout,
		&mysql.NopLogger{}
	config.DialFunc = m.ways.DialService
	if authority := b["ca.crt"]; authority != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(authority))
		config.TLS = &tls.Config{RootCAs: roots, ServerName: b["host"], MinVersion: tls.VersionTLS12}
	}
	return config
}

// open is a client until the test ends.
func (m *mysqlInstance) open(config *mysql.Config) *sql.DB {
	m.Helper()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		m.Fatal(err)
	}
	db := sql.OpenDB(connector)
	m.Cleanup(func() { _ = db.Close() })
	return db
}

func (m *mysqlInstance) asks(db *sql.DB, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(m.Ctx, 2*framework.AnswerTimeout)
	defer cancel()
	var value sql.NullString
	err := db.QueryRowContext(ctx, statement).Scan(&value)
	return value.String, err
}

// waitForAnswer waits until a statement gives what is wanted.
func (m *mysqlInstance) waitForAnswer(db *sql.DB, want, statement string) {
	m.Helper()
	m.Eventually(framework.SettleTimeout, statement+" gives "+want, func() error {
		got, err := m.asks(db, statement)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// isMySQLError says whether a server has refused, and not the way to it.
func isMySQLError(err error) bool {
	refused := (*mysql.MySQLError)(nil)
	return errors.As(err, &refused)
}

// exec runs statements, each until the server has taken it.
func (m *mysqlInstance) exec(db *sql.DB, statements ...string) {
	m.Helper()
	for _, statement := range statements {
		m.Eventually(framework.SettleTimeout, statement, func() error {
			_, err := db.ExecContext(m.Ctx, statement)
			if isMySQLError(err) {
				m.Fatalf("%s: %v", statement, err)
			}
			return err
		})
	}
}

// fill makes a table of a thousand rows, and returns what mysqlFilled gives of it.
func (m *mysqlInstance) fill() string {
	m.Helper()
	db := m.bound()
	m.exec(db, "CREATE TABLE filled (n INT PRIMARY KEY, s VARCHAR(40))",
		"INSERT INTO filled WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 1000) "+
			"SELECT n, MD5(n) FROM r")
	sum, err := m.asks(db, mysqlFilled)
	if err != nil {
		m.Fatal(err)
	}
	return sum
}

// beside returns another instance of the namespace, of the same kind.
func (m *mysqlInstance) beside(name string) *mysqlInstance {
	return &mysqlInstance{Namespace: m.Namespace, name: name, ways: m.ways, kind: m.kind}
}

// expectRefused has the test fail unless the server refuses a statement with a text.
func (m *mysqlInstance) expectRefused(db *sql.DB, text, statement string) {
	m.Helper()
	m.Eventually(framework.EndpointTimeout, statement+" is refused", func() error {
		got, err := m.asks(db, statement)
		if err != nil && !isMySQLError(err) {
			return err
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			m.Errorf("%s gives %q, %v; want a refusal with %q", statement, got, err, text)
		}
		return nil
	})
}
