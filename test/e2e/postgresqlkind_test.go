// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// appPassword has characters that a URI, a shell or a statement could trip over.
const appPassword = `a'p\p "p$w%d@/:`

var app = login{user: "app", password: appPassword, database: "shop"}

// postgresqlOfItsKind asks for a primary and a replica, and for what is inside.
func postgresqlOfItsKind(name string) *databasev1.PostgreSQL {
	from := func(key string) *platformv1.SecretKeyReference {
		return &platformv1.SecretKeyReference{Name: "users", Key: key}
	}
	return &databasev1.PostgreSQL{ObjectMeta: named(name), Spec: databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Replicas: 1,
		Synchronous: &databasev1.PostgreSQLSynchronous{Replicas: new(int32(1)), Method: databasev1.SynchronousFirst, Shortage: platformv1.ShortageContinue},
		Failover:    &databasev1.Failover{Mode: platformv1.FailoverAuto, After: &metav1.Duration{Duration: 3 * time.Second}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
		},
		Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Roles: []databasev1.PostgreSQLRole{
			{Name: "app", PasswordFrom: from("app"), ConnectionLimit: new(int32(7))},
			{Name: "reader", PasswordFrom: from("reader"), MemberOf: []string{"pg_read_all_data"},
				Grants: []databasev1.PostgreSQLGrant{{Database: "shop", Privileges: []databasev1.PostgreSQLPrivilege{"TEMPORARY", "CONNECT"}}}},
		},
		Databases: []databasev1.PostgreSQLDatabase{
			{Name: "shop", Owner: "app", ConnectionLimit: new(int32(15)), Extensions: []databasev1.PostgreSQLExtension{{Name: "hstore"}}},
			{Name: "gone", DeletionPolicy: platformv1.EntityDelete},
		},
		Parameters:          platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "32MB", "max_slot_wal_keep_size": "64MB"},
		Service:             &platformv1.ServiceExposure{Annotations: map[string]string{"example.com/team": "shop"}},
		Scheduling:          &platformv1.Scheduling{NodeSelector: map[string]string{corev1.LabelOSStable: "linux"}},
		PodDisruptionBudget: &platformv1.PodDisruptionBudget{MaxUnavailable: intstr.FromInt32(1)},
		DeletionPolicy:      platformv1.DeletionPolicyDelete,
	}}
}

// TestPostgreSQLOfItsKind takes a PostgreSQL of two members through its life with a real client, which is told no more than the binding says.
func TestPostgreSQLOfItsKind(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pgkind")
	s.create(postgresqlOfItsKind("db"))
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.notReadyFor(platformv1.ReasonSecretNotFound, `role "app"`, `Secret "users"`)
	s.create(&corev1.Secret{ObjectMeta: named("users"), StringData: map[string]string{"app": appPassword, "reader": "reads"}})
	t.Logf("Secret made to Ready: %s", seconds(p.ready()))
	p.following(1)
	for _, part := range []struct {
		name string
		run  func(*pgInstance)
	}{
		{"status, columns and binding say what is there", (*pgInstance).checkStatus},
		{"fields are read back", (*pgInstance).checkFields},
		{"roles and databases are as declared", (*pgInstance).checkInside},
		{"parameters and replicas change under writes", (*pgInstance).checkChanges},
		{"a pooler comes and goes", (*pgInstance).checkPooler},
		{"what is declared no more goes, or stays", (*pgInstance).checkTakenOut},
		{"it is stopped, speaks TLS and is started", (*pgInstance).checkTLS},
		{"bad changes are refused", (*pgInstance).checkRefused},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(p.in(t)) }) {
			return
		}
	}
}

func (p *pgInstance) checkStatus() {
	obj, b := p.object(), p.binding()
	resource := databasev1.GroupVersion.WithResource("postgresqls")
	p.Logf("%v", p.columns(resource, p.name))
	p.wantColumns(resource, p.name, "Version", "Pods", "Primary", "Replicas", "Durability", "Phase", "Endpoint", "Read-Only", "Message", "Age")
	for what, pair := range map[string][2]string{
		"ready":            {obj.Status.Ready, "2/2"},
		"phase":            {string(obj.Status.Phase), string(platformv1.PhaseReady)},
		"endpoint":         {obj.Status.Endpoint, b["host"] + ":" + b["port"]},
		"readOnlyEndpoint": {obj.Status.ReadOnlyEndpoint, b["host-ro"] + ":" + b["port"]},
		"durability":       {string(obj.Status.Durability), string(platformv1.DurabilitySynchronous)},
		"application":      {obj.Status.Application, p.application().name},
		"binding type":     {b["type"], "postgresql"},
		"binding username": {b["username"], "postgres"},
	} {
		if pair[0] != pair[1] {
			p.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	if window := obj.Status.LossWindowSeconds; window == nil || *window != 0 || obj.Status.Term < 1 || len(obj.Status.Members) != 2 {
		p.Errorf("the status is %+v", obj.Status)
	}
	p.answers(p.pool(login{}), "false", "SELECT pg_is_in_recovery()::text")
	p.answers(p.pool(login{readOnly: true}), "true", "SELECT pg_is_in_recovery()::text")
	p.answers(p.pool(login{}), obj.Status.Version, "SELECT split_part(current_setting('server_version'), ' ', 1)")
	p.refuses(p.pool(login{user: "postgres", password: "guess"}), "password authentication failed", "SELECT 1::text")
}

// checkFields reads back what nothing else of the test shows.
func (p *pgInstance) checkFields() {
	super := p.pool(login{})
	p.answers(super, `FIRST 1 ("`+p.role("replica")+`")`, "SELECT current_setting('synchronous_standby_names')")
	p.answers(super, "sync", "SELECT string_agg(sync_state, ' ') FROM pg_stat_replication")
	set := &platformv1.WorkloadSet{}
	p.mustGet(platformv1.WorkloadSetNameFor(p.application().name, postgresqlComponent, platformv1.DefaultSet), set)
	if f := set.Spec.Failover; f.After == nil || f.After.Duration != 3*time.Second || f.Copies != 1 || f.Shortage != platformv1.ShortageContinue {
		p.Errorf("the engine goes by %+v", f)
	}
	service := &corev1.Service{}
	p.mustGet(p.application().name, service)
	if service.Spec.Type != corev1.ServiceTypeClusterIP || service.Annotations["example.com/team"] != "shop" {
		p.Errorf("the Service is of type %s with annotations %v", service.Spec.Type, service.Annotations)
	}
	for _, pod := range p.application().pods() {
		limit := resource.MustParse("384Mi")
		for _, c := range pod.Spec.Containers {
			if given := c.Resources.Limits[corev1.ResourceMemory]; c.Name == postgresqlComponent && !given.Equal(limit) {
				p.Errorf("pod %s has %s of memory", pod.Name, given.String())
			}
		}
		if pod.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
			p.Errorf("pod %s has node selector %v", pod.Name, pod.Spec.NodeSelector)
		}
	}
	for name, claim := range p.application().claims() {
		if size := claim.Spec.Resources.Requests.Storage().String(); size != "512Mi" {
			p.Errorf("claim %s asks for %s", name, size)
		}
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := world.client.List(p.ctx, &budgets, client.InNamespace(p.space.name)); err != nil || len(budgets.Items) != 1 {
		p.Errorf("there are %d budgets, want 1: %v", len(budgets.Items), err)
	}
}

// role is the one member of a role.
func (p *pgInstance) role(role string) string {
	p.Helper()
	found := ""
	for _, m := range p.object().Status.Members {
		if m.Role == role {
			found += m.Name
		}
	}
	return found
}

func (p *pgInstance) checkInside() {
	owner := p.pool(app)
	p.answers(owner, "1", "WITH h AS (SELECT 'a=>1'::public.hstore AS h) SELECT h->'a' FROM h")
	p.exec(owner, "CREATE TABLE goods (n int)", "INSERT INTO goods SELECT generate_series(1, 1000)")
	reader := p.pool(login{user: "reader", password: "reads", database: "shop"})
	p.answers(reader, "1000", "SELECT count(*)::text FROM goods")
	p.refuses(reader, "permission denied", "DELETE FROM goods RETURNING n::text")
	super := p.pool(login{})
	p.answers(super, "7 15", "SELECT rolconnlimit || ' ' || datconnlimit FROM pg_roles, pg_database WHERE rolname = 'app' AND datname = 'shop'")
	p.answers(super, "reader=Tc/app", "SELECT acl::text FROM pg_database, unnest(datacl) acl WHERE datname = 'shop' AND acl::text LIKE 'reader=%'")
	p.answers(super, "false", "SELECT rolsuper::text FROM pg_roles WHERE rolname = 'app'")
	// Another password of a role is taken over, and nothing is started anew for it.
	before := p.starts()
	secret := &corev1.Secret{}
	p.mustGet("users", secret)
	changed := secret.DeepCopy()
	changed.Data["reader"] = []byte("reads anew")
	if err := world.client.Patch(p.ctx, changed, client.MergeFrom(secret)); err != nil {
		p.Fatal(err)
	}
	p.answers(p.pool(login{user: "reader", password: "reads anew", database: "shop"}), "1000", "SELECT count(*)::text FROM goods")
	p.refuses(p.pool(login{user: "reader", password: "reads", database: "shop"}), "password authentication failed", "SELECT 1::text")
	if after := p.starts(); !maps.Equal(before, after) {
		p.Errorf("the processes ran since %v, and since %v", before, after)
	}
}

// exec runs statements that have to succeed.
func (p *pgInstance) exec(pool *pgxpool.Pool, statements ...string) {
	p.Helper()
	for _, statement := range statements {
		p.eventually(spreadIn, statement, func() error {
			_, err := pool.Exec(p.ctx, statement)
			// Who got no connection has told the server nothing.
			if unmade := (*pgconn.ConnectError)(nil); err != nil && !errors.As(err, &unmade) && !pgconn.SafeToRetry(err) {
				p.Fatalf("%s: %v", statement, err)
			}
			return err
		})
	}
}

func (p *pgInstance) checkChanges() {
	owner := p.pool(app)
	p.exec(owner, "CREATE TABLE numbers (n int PRIMARY KEY)")
	w := p.startWriter(owner)
	uids, starts := p.uids(), p.starts()

	// A reload takes this over.
	p.update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["work_mem"] = "7MB" })
	p.wantEverywhere("7MB", "SELECT current_setting('work_mem')")
	if now := p.starts(); !maps.Equal(starts, now) {
		p.Errorf("for a parameter that a reload takes over processes were started: since %v, and since %v", starts, now)
	}

	// This takes another start, of the replica first.
	p.update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["max_connections"] = "55" })
	p.wantEverywhere("55", "SELECT current_setting('max_connections')")
	now := p.starts()
	for member, since := range starts {
		if now[member] == since {
			p.Errorf("%s was not started anew for max_connections", member)
		}
	}
	if after := p.uids(); !maps.Equal(uids, after) {
		p.Errorf("for a parameter pods were replaced: %v, and now %v", uids, after)
	}

	// The primary handed over for that.
	p.eventually(settleIn, "the status tells of that", func() error {
		if s := p.object().Status; len(s.Changes) == 0 || s.Changes[len(s.Changes)-1].To != s.Primary || s.Changes[len(s.Changes)-1].Term != s.Term {
			return fmt.Errorf("%s is the primary in term %d, and the changes are %+v", s.Primary, s.Term, s.Changes)
		}
		return nil
	})

	// One more member, by an Operation that counts pods. It is on record in the object itself.
	p.create(operation("more", "HorizontalScale", p.reference(), "replicas", "3"))
	p.succeeded("more")
	if got := p.object().Spec.Replicas; got != 2 {
		p.Errorf("the PostgreSQL declares %d replicas, want 2", got)
	}
	p.following(2)
	p.answers(p.pool(login{}), "2", "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'")
	w.judge("parameters and a member more", failoverGap)
	p.refusedOperation(operation("none", "HorizontalScale", p.reference(), "replicas", "0"), "a PostgreSQL has 1 at least")
}

// checkPooler has clients log in by way of a pooler, as the roles that are declared.
func (p *pgInstance) checkPooler() {
	before := p.starts()
	p.update(func(spec *databasev1.PostgreSQLSpec) {
		spec.Pooler = &databasev1.PostgreSQLPooler{Replicas: 1, Parameters: platformv1.Parameters{"default_pool_size": "3"}}
	})
	p.eventually(settleIn, "status and binding name the pooler", func() error {
		b, s := p.binding(), p.object().Status
		if b["pooler-host"] == "" || s.Poolers != "1/1" || s.PoolerEndpoint != b["pooler-host"]+":"+b["pooler-port"] {
			return fmt.Errorf("the status has poolers %q at %q, and the binding says %s:%s", s.Poolers, s.PoolerEndpoint, b["pooler-host"], b["pooler-port"])
		}
		return nil
	})
	pooled := app
	pooled.pooled = true
	p.answers(p.pool(pooled), "app 1000", "SELECT current_user || ' ' || count(*) FROM goods")
	pooled.password = "guess"
	p.refuses(p.pool(pooled), "password authentication failed", "SELECT 1::text")
	p.update(func(spec *databasev1.PostgreSQLSpec) { spec.Pooler = nil })
	p.eventually(settleIn, "the pooler is gone", func() error {
		if pods := p.application().pods(); len(pods) != 3 {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return gone(p.get(p.application().name+"-pooler", &corev1.Service{}))
	})
	p.eventually(settleIn, "the status names no pooler", func() error {
		if s := p.object().Status; s.Poolers != "" || s.PoolerEndpoint != "" {
			return fmt.Errorf("it says %q at %q", s.Poolers, s.PoolerEndpoint)
		}
		return nil
	})
	if after := p.starts(); !maps.Equal(before, after) {
		p.Errorf("for a pooler servers were started anew: since %v, and since %v", before, after)
	}
}

func (p *pgInstance) checkTakenOut() {
	p.update(func(spec *databasev1.PostgreSQLSpec) {
		spec.Roles = spec.Roles[:1]
		spec.Databases = nil
		spec.Synchronous = nil
	})
	super := p.pool(login{})
	p.answers(super, "app", "SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolname IN ('app', 'reader')")
	p.answers(super, "shop", "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname IN ('shop', 'gone')")
	p.answers(p.pool(app), "hstore", "SELECT extname FROM pg_extension WHERE extname = 'hstore'")
	p.answers(p.pool(app), "1000", "SELECT count(*)::text FROM goods")
	// The plugin's own choice for three members.
	p.eventually(settleIn, "the default of three members", func() error {
		if got, err := asks(p.ctx, super, "SELECT current_setting('synchronous_standby_names')"); err != nil || !strings.HasPrefix(got, "ANY 1 (") {
			return fmt.Errorf("it waits for %q: %v", got, err)
		}
		return nil
	})
	p.ready()
}

func (p *pgInstance) checkTLS() {
	speaks := func(spec *databasev1.PostgreSQLSpec) { spec.TLS = &platformv1.TLS{Enabled: true} }
	if err := p.tryUpdate(speaks); err == nil {
		p.notReadyFor(platformv1.ReasonInvalidSpec, "set running to false first")
		p.update(func(spec *databasev1.PostgreSQLSpec) { spec.TLS = nil })
	} else {
		p.wantRefused(err, "set running to false first")
	}
	p.create(operation("stop", "Stop", p.reference()))
	p.succeeded("stop")
	if running := p.object().Spec.Running; running == nil || *running {
		p.Error("the PostgreSQL does not say that it is stopped")
	}
	// Until it is known that no pod is left, this waits.
	p.eventually(settleIn, "TLS is taken", func() error { return p.tryUpdate(speaks) })
	p.ready()
	p.create(operation("start", "Start", p.reference()))
	p.succeeded("start")
	p.following(2)
	secured := p.pool(login{mode: "verify-full"})
	p.answers(secured, "true", "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
	p.answers(secured, "2", "SELECT count(*)::text FROM pg_stat_replication JOIN pg_stat_ssl USING (pid) WHERE ssl")
	p.answers(p.pool(login{readOnly: true, mode: "verify-full"}), "true", "SELECT pg_is_in_recovery()::text")
	p.refuses(p.pool(login{mode: "disable"}), "no encryption", "SELECT 1::text")
	p.answers(p.pool(login{user: app.user, password: app.password, database: app.database, mode: "verify-full"}), "1000", "SELECT count(*)::text FROM goods")
}

func (p *pgInstance) checkRefused() {
	before := p.starts()
	for text, edit := range map[string]func(*databasev1.PostgreSQLSpec){
		"version cannot change":      func(s *databasev1.PostgreSQLSpec) { s.Version = "15" },
		"storage.size cannot shrink": func(s *databasev1.PostgreSQLSpec) { s.Storage.Size = resource.MustParse("256Mi") },
		"cannot be above replicas": func(s *databasev1.PostgreSQLSpec) {
			s.Synchronous = &databasev1.PostgreSQLSynchronous{Replicas: new(int32(3))}
		},
		"set spec.synchronous.method":   func(s *databasev1.PostgreSQLSpec) { s.Parameters["synchronous.method"] = "any" },
		"a role that logs in needs":     func(s *databasev1.PostgreSQLSpec) { s.Roles[0].PasswordFrom = nil },
		`did you mean "shared_buffers"`: func(s *databasev1.PostgreSQLSpec) { s.Parameters["shared_bufers"] = "1GB" },
		"keeps the data safe as it is":  func(s *databasev1.PostgreSQLSpec) { s.Parameters["fsync"] = "off" },
		"cannot be off or local where":  func(s *databasev1.PostgreSQLSpec) { s.Parameters["synchronous_commit"] = "off" },
		"must be at least 8":            func(s *databasev1.PostgreSQLSpec) { s.Parameters["max_wal_senders"] = "2" },
		"of extensions there are": func(s *databasev1.PostgreSQLSpec) {
			s.Databases = []databasev1.PostgreSQLDatabase{{Name: "more", Extensions: []databasev1.PostgreSQLExtension{{Name: "plpython3u"}}}}
		},
		"superuser_reserved_connections must": func(s *databasev1.PostgreSQLSpec) { s.Parameters["superuser_reserved_connections"] = "60" },
	} {
		p.refusedAtLast(text, func() error { return p.tryUpdate(edit, client.DryRunAll) })
	}
	p.ready()
	if after := p.starts(); !maps.Equal(before, after) {
		p.Errorf("the processes ran since %v, and since %v", before, after)
	}
}
