// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// logBucket is where PostgreSQLs archive their log.
	logBucket = "logs"
	// keeper is the account that may write there and where backups are.
	keeper = "keeper"
	// sayTime is the time of the server as a target has it.
	sayTime = `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
)

// timeMachine is a PostgreSQL that archives its log, with a Backup.
type timeMachine struct {
	*framework.PostgreSQLInstance
	storage *framework.ObjectStorage
	pool    *pgxpool.Pool
}

// TestPostgreSQLPointInTime has instances begin with the data of another one at times before and after its primary
// changed: they have exactly what was committed until then, and go on by themselves. What cannot be reached is refused,
// and nothing is begun.
func TestPostgreSQLPointInTime(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgtime")
	s.EnsureStorageOperator()
	issuer := s.CreateClusterIssuer()
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta(keeper),
		StringData: map[string]string{"accessKey": keeper, "secretKey": "key-of-the-keeper"}})
	o := s.CreateObjectStorage("store", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Storage.Size = resource.MustParse("1Gi")
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: framework.BackupBucket}, {Name: logBucket}}
		spec.Users = []storagev1.ObjectStorageUser{
			{Name: keeper, SecretKeyFrom: platformv1.SecretKeyReference{Name: keeper, Key: "secretKey"},
				Grants: []storagev1.ObjectStorageGrant{{Bucket: framework.BackupBucket, Access: "ReadWrite"},
					{Bucket: logBucket, Access: "ReadWrite"}}}}
	})
	o.WaitReady()
	o.CreateRepository("cloud", keeper)
	s.WaitForRepository("cloud", metav1.ConditionTrue)
	m := &timeMachine{PostgreSQLInstance: &framework.PostgreSQLInstance{Namespace: s, Name: "db",
		PortForwards: s.NewPortForwards()}, storage: o}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: m.spec("source")})
	m.WaitForReplicas(1)
	m.pool = m.PostgreSQLInstance.Pool(framework.Login{Database: "shop"})
	m.Exec(m.pool, "CREATE TABLE kept (n int PRIMARY KEY)")
	m.writes(1)
	s.Create(framework.NewBackupOperation("base", "cloud", m.Reference()))
	s.WaitForStoredBackup("base")
	m.writes(2)
	before := m.now()
	m.writes(3)
	m.turns()
	m.writes(4)
	after := m.now()
	m.writes(5)
	m.archives()

	first := m.at("before", before)
	second := m.at("after", after)
	m.begins(first, "1 2")
	m.begins(second, "1 2 3 4")
	m.refusesOthers()
	m.refusesInPlace()
	m.WaitForAnswer(m.pool, "1 2 3 4 5", "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
}

// spec of a PostgreSQL that archives in a folder of the bucket.
func (m *timeMachine) spec(prefix string) databasev1.PostgreSQLSpec {
	m.Helper()
	return databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: framework.PostgreSQLVersion,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("1Gi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "64MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Replicas:  1,
		Databases: []databasev1.PostgreSQLDatabase{{Name: "shop"}},
		Archive: &databasev1.LogArchive{Endpoint: m.storage.Binding()["endpoint"], Bucket: logBucket, Prefix: prefix,
			Addressing: databasev1.ArchiveAddressingPath, AccessKey: keeper,
			SecretKeyFrom: platformv1.SecretKeyReference{Name: keeper, Key: "secretKey"}, CAFrom: m.authority(),
			Timeout: &metav1.Duration{Duration: 10 * time.Second}},
	}
}

func (m *timeMachine) authority() *platformv1.SecretKeyReference {
	return &platformv1.SecretKeyReference{Name: m.storage.Object().Status.BindingName, Key: "ca.crt"}
}

// restoring is a spec that begins at a time.
func (m *timeMachine) restoring(at string) databasev1.PostgreSQLSpec {
	m.Helper()
	// Its archive is at the place of the source's, where it has a folder of its own.
	spec := m.spec("source")
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "base-backup", Target: &platformv1.RestoreTarget{
		Time: at,
		Parameters: map[string]platformv1.ParameterValue{"archive.endpoint": platformv1.ParameterValue(spec.Archive.Endpoint),
			"archive.bucket": logBucket, "archive.prefix": "source",
			"archive.addressing": "path", "archive.accessKey": keeper},
		Credentials: []platformv1.Credential{{Name: "archive", PasswordFrom: spec.Archive.SecretKeyFrom},
			{Name: "archive-ca", PasswordFrom: *m.authority()}},
	}}
	return spec
}

func (m *timeMachine) at(name, at string) *framework.PostgreSQLInstance {
	m.Helper()
	m.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta(name), Spec: m.restoring(at)})
	return &framework.PostgreSQLInstance{Namespace: m.Namespace, Name: name, PortForwards: m.PortForwards}
}

func (m *timeMachine) writes(n int) {
	m.Helper()
	m.Exec(m.pool, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n))
}

// now is the time of the primary.
func (m *timeMachine) now() string {
	m.Helper()
	at, err := framework.Asks(m.Ctx, m.pool, sayTime)
	if err != nil {
		m.Fatal(err)
	}
	return at
}

// turns has the other server take over, on a timeline of its own.
func (m *timeMachine) turns() {
	m.Helper()
	primary := m.Object().Status.Primary
	m.Create(framework.NewOperation("turn", "Switchover", m.Reference()))
	m.Eventually(framework.ReadyTimeout, "another server is the primary", func() error {
		if now := m.Object().Status.Primary; now == "" || now == primary {
			return fmt.Errorf("it is %q", now)
		}
		return nil
	})
	m.WaitForReplicas(1)
	m.pool = m.PostgreSQLInstance.Pool(framework.Login{Database: "shop"})
}

// archives waits until all that was written is archived.
func (m *timeMachine) archives() {
	m.Helper()
	segment, err := framework.Asks(m.Ctx, m.pool, "SELECT pg_walfile_name(pg_switch_wal())")
	if err != nil {
		m.Fatal(err)
	}
	m.Eventually(framework.ReadyTimeout, "the log is archived", func() error {
		last, err := framework.Asks(m.Ctx, m.pool, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")
		if err == nil && last < segment {
			err = fmt.Errorf("up to %s, and not to %s", last, segment)
		}
		return err
	})
}

// begins: the instance has these rows, its replica too, and its log goes to a folder of its own at the place of the
// source's.
func (m *timeMachine) begins(p *framework.PostgreSQLInstance, rows string) {
	m.Helper()
	p.WaitForReplicas(1)
	pool := p.Pool(framework.Login{Database: "shop"})
	p.WaitForAnswer(pool, rows, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
	p.WaitForAnswer(p.Pool(framework.Login{Database: "shop", ReadOnly: true}), rows,
		"SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
	app := &platformv1.Application{}
	m.MustGet(p.Application().Name, app)
	if from := app.Status.RestoredFrom; from == nil || from.Backup != "base-backup" || from.Time == "" {
		m.Errorf("its Application began with %+v", from)
	}
	p.Exec(pool, "INSERT INTO kept VALUES (0)", "SELECT pg_switch_wal()")
	m.Eventually(alarmIn, fmt.Sprintf("PostgreSQL %q archives", p.Name), func() error {
		c := meta.FindStatusCondition(p.Object().Status.Conditions, "Archiving")
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// refusesOthers: what is before the Backup, and what the log does not lead to.
func (m *timeMachine) refusesOthers() {
	m.Helper()
	early := &databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("early"), Spec: m.restoring("2020-01-01T00:00:00Z")}
	if err := m.TryCreate(early); err == nil {
		m.waits("early", platformv1.ReasonRestoreRefused, "name an earlier Backup")
	} else if !strings.Contains(err.Error(), "name an earlier Backup") {
		m.Errorf("a time before the Backup: %v", err)
	}
	m.at("late", time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	m.waits("late", platformv1.ReasonTargetOutOfRange, "when the last transaction ended that is archived")
}

// refusesInPlace: the log of restored data would lead on from no Backup, so that the instance goes on as it is.
func (m *timeMachine) refusesInPlace() {
	m.Helper()
	before := volumes(m.PostgreSQLInstance.Namespace, m.Application().Name)
	m.Create(framework.NewRestoreOperation("in-place", "base-backup", m.Reference()))
	if op := m.WaitForOperationEnd("in-place", framework.ReadyTimeout); op.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(op.Status.Error, "keeps its log in an archive") {
		m.Errorf("the Operation is %s: %s", op.Status.Phase, op.Status.Error)
	}
	if after := volumes(m.PostgreSQLInstance.Namespace, m.Application().Name); !slices.Equal(after, before) {
		m.Errorf("it has the volumes %v, and had %v", after, before)
	}
}

// waits: the instance says why it does not begin, and has no pod.
func (m *timeMachine) waits(name, reason, says string) {
	m.Helper()
	p := &framework.PostgreSQLInstance{Namespace: m.Namespace, Name: name, PortForwards: m.PortForwards}
	m.Eventually(framework.ReadyTimeout, fmt.Sprintf("PostgreSQL %q says %s", name, reason), func() error {
		c := meta.FindStatusCondition(p.Object().Status.Conditions, platformv1.ReadyCondition)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %s", framework.Describe(p.Object().Status.Conditions))
		}
		return nil
	})
	if err := m.Get(p.Application().Name+"-postgresql-main-0", &corev1.Pod{}); err == nil {
		m.Errorf("PostgreSQL %q has a pod", name)
	}
}
