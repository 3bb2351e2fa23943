// SPDX-License-Identifier: Apache-2.0

package e2e

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
	*pgInstance
	storage *objectStorage
	pool    *pgxpool.Pool
}

// TestPostgreSQLPointInTime has instances begin with the data of another one at times before and after its primary changed: they have exactly what was
// committed until then, and go on by themselves. What cannot be reached is refused, and nothing is begun.
func TestPostgreSQLPointInTime(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgtime")
	s.storageOperatorServes()
	issuer := s.clusterIssuer()
	s.create(&corev1.Secret{ObjectMeta: named(keeper), StringData: map[string]string{"accessKey": keeper, "secretKey": "key-of-the-keeper"}})
	o := s.objectStorage("store", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Storage.Size = resource.MustParse("1Gi")
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: backupBucket}, {Name: logBucket}}
		spec.Users = []storagev1.ObjectStorageUser{{Name: keeper, SecretKeyFrom: platformv1.SecretKeyReference{Name: keeper, Key: "secretKey"},
			Grants: []storagev1.ObjectStorageGrant{{Bucket: backupBucket, Access: storagev1.GrantReadWrite}, {Bucket: logBucket, Access: storagev1.GrantReadWrite}}}}
	})
	o.ready()
	o.repository("cloud", keeper)
	s.repositorySays("cloud", metav1.ConditionTrue)
	m := &timeMachine{pgInstance: &pgInstance{space: s, name: "db", ways: s.ways()}, storage: o}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: m.spec("source")})
	m.following(1)
	m.pool = m.pgInstance.pool(login{database: "shop"})
	m.exec(m.pool, "CREATE TABLE kept (n int PRIMARY KEY)")
	m.writes(1)
	s.create(backupOf("base", "cloud", m.reference()))
	s.whole("base")
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
	m.answers(m.pool, "1 2 3 4 5", "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
}

// spec of a PostgreSQL that archives in a folder of the bucket.
func (m *timeMachine) spec(prefix string) databasev1.PostgreSQLSpec {
	m.Helper()
	return databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Replicas: 1, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("1Gi")},
		Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "64MB"},
		Databases:  []databasev1.PostgreSQLDatabase{{Name: "shop"}},
		Archive: &databasev1.PostgreSQLArchive{Endpoint: m.storage.binding()["endpoint"], Bucket: logBucket, Prefix: prefix, Addressing: databasev1.ArchiveAddressingPath, AccessKey: keeper,
			SecretKeyFrom: platformv1.SecretKeyReference{Name: keeper, Key: "secretKey"}, CAFrom: m.authority(), Timeout: &metav1.Duration{Duration: 10 * time.Second}},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}
}

func (m *timeMachine) authority() *platformv1.SecretKeyReference {
	return &platformv1.SecretKeyReference{Name: m.storage.object().Status.BindingName, Key: "ca.crt"}
}

// restoring is a spec that begins at a time.
func (m *timeMachine) restoring(at string) databasev1.PostgreSQLSpec {
	m.Helper()
	// Its archive is at the place of the source's, where it has a folder of its own.
	spec := m.spec("source")
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "base-backup", Target: &platformv1.RestoreTarget{
		Time: at,
		Parameters: map[string]platformv1.ParameterValue{"archive.endpoint": platformv1.ParameterValue(spec.Archive.Endpoint), "archive.bucket": logBucket, "archive.prefix": "source",
			"archive.addressing": "path", "archive.accessKey": keeper},
		Credentials: []platformv1.Credential{{Name: "archive", PasswordFrom: spec.Archive.SecretKeyFrom}, {Name: "archive-ca", PasswordFrom: *m.authority()}},
	}}
	return spec
}

func (m *timeMachine) at(name, at string) *pgInstance {
	m.Helper()
	m.create(&databasev1.PostgreSQL{ObjectMeta: named(name), Spec: m.restoring(at)})
	return &pgInstance{space: m.space, name: name, ways: m.ways}
}

func (m *timeMachine) writes(n int) {
	m.Helper()
	m.exec(m.pool, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n))
}

// now is the time of the primary.
func (m *timeMachine) now() string {
	m.Helper()
	at, err := asks(m.ctx, m.pool, sayTime)
	if err != nil {
		m.Fatal(err)
	}
	return at
}

// turns has the other server take over, on a timeline of its own.
func (m *timeMachine) turns() {
	m.Helper()
	primary := m.object().Status.Primary
	m.create(operation("turn", "Switchover", m.reference()))
	m.eventually(readyIn, "another server is the primary", func() error {
		if now := m.object().Status.Primary; now == "" || now == primary {
			return fmt.Errorf("it is %q", now)
		}
		return nil
	})
	m.following(1)
	m.pool = m.pgInstance.pool(login{database: "shop"})
}

// archives waits until all that was written is archived.
func (m *timeMachine) archives() {
	m.Helper()
	segment, err := asks(m.ctx, m.pool, "SELECT pg_walfile_name(pg_switch_wal())")
	if err != nil {
		m.Fatal(err)
	}
	m.eventually(readyIn, "the log is archived", func() error {
		last, err := asks(m.ctx, m.pool, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")
		if err == nil && last < segment {
			err = fmt.Errorf("up to %s, and not to %s", last, segment)
		}
		return err
	})
}

// begins: the instance has these rows, its replica too, and its log goes to a folder of its own at the place of the source's.
func (m *timeMachine) begins(p *pgInstance, rows string) {
	m.Helper()
	p.following(1)
	pool := p.pool(login{database: "shop"})
	p.answers(pool, rows, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
	p.answers(p.pool(login{database: "shop", readOnly: true}), rows, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
	app := &platformv1.Application{}
	m.mustGet(p.application().name, app)
	if from := app.Status.RestoredFrom; from == nil || from.Backup != "base-backup" || from.Time == "" {
		m.Errorf("its Application began with %+v", from)
	}
	p.exec(pool, "INSERT INTO kept VALUES (0)", "SELECT pg_switch_wal()")
	m.eventually(alarmIn, fmt.Sprintf("PostgreSQL %q archives", p.name), func() error {
		c := meta.FindStatusCondition(p.object().Status.Conditions, "Archiving")
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// refusesOthers: what is before the Backup, and what the log does not lead to.
func (m *timeMachine) refusesOthers() {
	m.Helper()
	early := &databasev1.PostgreSQL{ObjectMeta: named("early"), Spec: m.restoring("2020-01-01T00:00:00Z")}
	if err := m.tryCreate(early); err == nil {
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
	before := m.volumes(m.application().name)
	m.create(restoreOf("in-place", "base-backup", m.reference()))
	if op := m.finished("in-place", readyIn); op.Status.Phase != platformv1.OperationFailed || !strings.Contains(op.Status.Error, "keeps its log in an archive") {
		m.Errorf("the Operation is %s: %s", op.Status.Phase, op.Status.Error)
	}
	if after := m.volumes(m.application().name); !slices.Equal(after, before) {
		m.Errorf("it has the volumes %v, and had %v", after, before)
	}
}

// waits: the instance says why it does not begin, and has no pod.
func (m *timeMachine) waits(name, reason, says string) {
	m.Helper()
	p := &pgInstance{space: m.space, name: name, ways: m.ways}
	m.eventually(readyIn, fmt.Sprintf("PostgreSQL %q says %s", name, reason), func() error {
		c := meta.FindStatusCondition(p.object().Status.Conditions, platformv1.ReadyCondition)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %s", describe(p.object().Status.Conditions))
		}
		return nil
	})
	if err := m.get(p.application().name+"-postgresql-main-0", &corev1.Pod{}); err == nil {
		m.Errorf("PostgreSQL %q has a pod", name)
	}
}
