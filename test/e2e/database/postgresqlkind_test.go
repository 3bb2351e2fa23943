// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// appPassword has characters that a URI, a shell or a statement could trip over.
const appPassword = `a'p\p "p$w%d@/:`

var app = framework.Login{User: "app", Password: appPassword, Database: "shop"}

// postgresqlOfItsKind asks for a primary and a replica, and for what is inside.
func postgresqlOfItsKind(name string) *databasev1.PostgreSQL {
	from := func(key string) *platformv1.SecretKeyReference {
		return &platformv1.SecretKeyReference{Name: "users", Key: key}
	}
	return &databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta(name), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: framework.PostgreSQLVersion,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("96Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
			},
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "32MB", "max_slot_wal_keep_size": "64MB"},
			Service: &platformv1.ServiceExposure{
				ServiceSettings: platformv1.ServiceSettings{Annotations: map[string]string{"example.com/team": "shop"}}},
			Scheduling:          &platformv1.Scheduling{NodeSelector: map[string]string{corev1.LabelOSStable: "linux"}},
			PodDisruptionBudget: &platformv1.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(1))},
			DeletionPolicy:      platformv1.DeletionPolicyDelete,
		},
		Replicas: 1,
		Synchronous: &databasev1.PostgreSQLSynchronous{Replicas: new(int32(1)), Method: databasev1.SynchronousFirst,
			Shortage: platformv1.ShortageContinue},
		Failover: &databasev1.Failover{Mode: platformv1.FailoverAuto, After: &metav1.Duration{Duration: 3 * time.Second}},
		Roles: []databasev1.PostgreSQLRole{
			{Name: "app", PasswordFrom: from("app"), ConnectionLimit: new(int32(7))},
			{Name: "reader", PasswordFrom: from("reader"), MemberOf: []string{"pg_read_all_data"},
				Grants: []databasev1.PostgreSQLGrant{
					{Database: "shop", Privileges: []databasev1.PostgreSQLPrivilege{"TEMPORARY", "CONNECT"}}}},
		},
		Databases: []databasev1.PostgreSQLDatabase{
			{Name: "shop", Owner: "app", ConnectionLimit: new(int32(15)),
				Extensions: []databasev1.PostgreSQLExtension{{Name: "hstore"}}},
			{Name: "gone", DeletionPolicy: platformv1.EntityDelete},
		},
	}}
}

// TestPostgreSQLOfItsKind takes a PostgreSQL of two members through its life with a real client, which is told no more
// than the binding says.
func TestPostgreSQLOfItsKind(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgkind")
	s.Create(postgresqlOfItsKind("db"))
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.ExpectNotReady(platformv1.ReasonSecretNotFound, `credential "app"`, `Secret "users"`)
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"),
		StringData: map[string]string{"app": appPassword, "reader": "reads"}})
	t.Logf("Secret made to Ready: %s", framework.FormatSeconds(p.WaitReady()))
	p.WaitForReplicas(1)
	for _, part := range []struct {
		name string
		run  func(*framework.PostgreSQLInstance)
	}{
		{"status, columns and binding say what is there", checkPostgreSQLStatus},
		{"fields are read back", checkFields},
		{"roles and databases are as declared", checkInside},
		{"parameters and replicas change under writes", checkChanges},
		{"a pooler comes and goes", checkPooler},
		{"what is declared no more goes, or stays", checkTakenOut},
		{"it is stopped, speaks TLS and is started", checkTLS},
		{"bad changes are refused", checkRefused},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(p.In(t)) }) {
			return
		}
	}
}

func checkPostgreSQLStatus(p *framework.PostgreSQLInstance) {
	obj, b := p.Object(), p.Binding()
	resource := databasev1.GroupVersion.WithResource("postgresqls")
	p.Logf("%v", p.TableColumns(resource, p.Name))
	p.ExpectTableColumns(resource, p.Name, "Version", "Pods", "Primary", "Replicas", "Durability", "Phase", "Endpoint",
		"Read-Only", "Message", "Age")
	p.Eventually(framework.SettleTimeout, "commits wait for the replica", func() error {
		if obj = p.Object(); obj.Status.Durability != platformv1.DurabilitySynchronous {
			return fmt.Errorf("durability is %q", obj.Status.Durability)
		}
		return nil
	})
	for what, pair := range map[string][2]string{
		"ready":            {obj.Status.Ready, "2/2"},
		"phase":            {string(obj.Status.Phase), string(platformv1.PhaseReady)},
		"endpoint":         {obj.Status.Endpoint, b["host"] + ":" + b["port"]},
		"readOnlyEndpoint": {obj.Status.ReadOnlyEndpoint, b["host-ro"] + ":" + b["port"]},
		"application":      {obj.Status.Application, p.Application().Name},
		"binding type":     {b["type"], "postgresql"},
		"binding username": {b["username"], "app"},
		"binding password": {b["password"], appPassword},
		"binding database": {b["database"], "app"},
	} {
		if pair[0] != pair[1] {
			p.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	if window := obj.Status.LossWindowSeconds; window == nil || *window != 0 || obj.Status.Term < 1 ||
		len(obj.Status.Members) != 2 {
		p.Errorf("the status is %+v", obj.Status)
	}
	p.WaitForAnswer(p.Pool(framework.Login{}), "false", "SELECT pg_is_in_recovery()::text")
	p.WaitForAnswer(p.Pool(framework.Login{ReadOnly: true}), "true", "SELECT pg_is_in_recovery()::text")
	bound := p.Pool(framework.Login{Bound: true})
	p.WaitForAnswer(bound, "app owns app",
		"SELECT current_user || ' owns ' || datname FROM pg_database WHERE datdba = current_user::regrole AND datname = "+
			"current_database()")
	p.Exec(bound, "CREATE TABLE own (n int)", "DROP TABLE own")
	p.ExpectStatementRefused(bound, "permission denied", "SELECT pg_switch_wal()::text")
	p.WaitForAnswer(p.Pool(framework.Login{}), obj.Status.Version,
		"SELECT split_part(current_setting('server_version'), ' ', 1)")
	p.ExpectStatementRefused(p.Pool(framework.Login{User: "postgres", Password: "guess"}),
		"password authentication failed", "SELECT 1::text")
}

// checkFields reads back what nothing else of the test shows.
func checkFields(p *framework.PostgreSQLInstance) {
	super := p.Pool(framework.Login{})
	p.WaitForAnswer(super, `FIRST 1 ("`+role(p, "replica")+`")`, "SELECT current_setting('synchronous_standby_names')")
	p.WaitForAnswer(super, "sync", "SELECT string_agg(sync_state, ' ') FROM pg_stat_replication")
	set := &platformv1.WorkloadSet{}
	p.MustGet(platformv1.WorkloadSetNameFor(p.Application().Name, framework.PostgreSQLComponent, platformv1.DefaultSet),
		set)
	if f := set.Spec.Failover; f.After == nil || f.After.Duration != 3*time.Second || f.SynchronousReplicas != 1 ||
		f.Shortage != platformv1.ShortageContinue {
		p.Errorf("the engine goes by %+v", f)
	}
	service := &corev1.Service{}
	p.MustGet(p.Application().Name, service)
	if service.Spec.Type != corev1.ServiceTypeClusterIP || service.Annotations["example.com/team"] != "shop" {
		p.Errorf("the Service is of type %s with annotations %v", service.Spec.Type, service.Annotations)
	}
	for _, pod := range p.Application().Pods() {
		limit := resource.MustParse("384Mi")
		for _, c := range pod.Spec.Containers {
			if given := c.Resources.Limits[corev1.ResourceMemory]; c.Name == framework.PostgreSQLComponent &&
				!given.Equal(limit) {
				p.Errorf("pod %s has %s of memory", pod.Name, given.String())
			}
		}
		if pod.Spec.NodeSelector[corev1.LabelOSStable] != "linux" {
			p.Errorf("pod %s has node selector %v", pod.Name, pod.Spec.NodeSelector)
		}
	}
	for name, claim := range p.Application().Claims() {
		if size := claim.Spec.Resources.Requests.Storage().String(); size != "512Mi" {
			p.Errorf("claim %s asks for %s", name, size)
		}
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := framework.Cluster.Client.List(p.Ctx, &budgets, client.InNamespace(p.Namespace.Name)); err != nil ||
		len(budgets.Items) != 1 {
		p.Errorf("there are %d budgets, want 1: %v", len(budgets.Items), err)
	}
}

// role is the one member of a role.
func role(p *framework.PostgreSQLInstance, role string) string {
	p.Helper()
	found := ""
	for _, m := range p.Object().Status.Members {
		if m.Role == role {
			found += m.Name
		}
	}
	return found
}

func checkInside(p *framework.PostgreSQLInstance) {
	owner := p.Pool(app)
	p.WaitForAnswer(owner, "1", "WITH h AS (SELECT 'a=>1'::public.hstore AS h) SELECT h->'a' FROM h")
	p.Exec(owner, "CREATE TABLE goods (n int)", "INSERT INTO goods SELECT generate_series(1, 1000)")
	reader := p.Pool(framework.Login{User: "reader", Password: "reads", Database: "shop"})
	p.WaitForAnswer(reader, "1000", "SELECT count(*)::text FROM goods")
	p.ExpectStatementRefused(reader, "permission denied", "DELETE FROM goods RETURNING n::text")
	super := p.Pool(framework.Login{})
	p.WaitForAnswer(super, "7 15", "SELECT rolconnlimit || ' ' || datconnlimit FROM pg_roles, pg_database WHERE rolname "+
		"= 'app' AND datname = 'shop'")
	p.WaitForAnswer(super, "reader=Tc/app",
		"SELECT acl::text FROM pg_database, unnest(datacl) acl WHERE datname = 'shop' AND acl::text LIKE 'reader=%'")
	p.WaitForAnswer(super, "false", "SELECT rolsuper::text FROM pg_roles WHERE rolname = 'app'")
	// Another password of a role is taken over, and nothing is started anew for it.
	before := p.ProcessStarts()
	secret := &corev1.Secret{}
	p.MustGet("users", secret)
	changed := secret.DeepCopy()
	changed.Data["reader"] = []byte("reads anew")
	if err := framework.Cluster.Client.Patch(p.Ctx, changed, client.MergeFrom(secret)); err != nil {
		p.Fatal(err)
	}
	p.WaitForAnswer(p.Pool(framework.Login{User: "reader", Password: "reads anew", Database: "shop"}), "1000",
		"SELECT count(*)::text FROM goods")
	p.ExpectStatementRefused(p.Pool(framework.Login{User: "reader", Password: "reads", Database: "shop"}),
		"password authentication failed", "SELECT 1::text")
	if after := p.ProcessStarts(); !maps.Equal(before, after) {
		p.Errorf("the processes ran since %v, and since %v", before, after)
	}
}

func checkChanges(p *framework.PostgreSQLInstance) {
	owner := p.Pool(app)
	p.Exec(owner, "CREATE TABLE numbers (n int PRIMARY KEY)")
	w := p.StartWriter(owner)
	uids, starts := p.PodUIDs(), p.ProcessStarts()

	// A reload takes this over.
	p.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["work_mem"] = "7MB" })
	p.WaitForAnswerEverywhere("7MB", "SELECT current_setting('work_mem')")
	if now := p.ProcessStarts(); !maps.Equal(starts, now) {
		p.Errorf("for a parameter that a reload takes over processes were started: since %v, and since %v", starts, now)
	}

	// This takes another start, of the replica first.
	p.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["max_connections"] = "55" })
	p.WaitForAnswerEverywhere("55", "SELECT current_setting('max_connections')")
	now := p.ProcessStarts()
	for member, since := range starts {
		if now[member] == since {
			p.Errorf("%s was not started anew for max_connections", member)
		}
	}
	if after := p.PodUIDs(); !maps.Equal(uids, after) {
		p.Errorf("for a parameter pods were replaced: %v, and now %v", uids, after)
	}

	// The primary handed over for that.
	p.Eventually(framework.SettleTimeout, "the status tells of that", func() error {
		if s := p.Object().Status; len(s.Changes) == 0 || s.Changes[len(s.Changes)-1].To != s.Primary ||
			s.Changes[len(s.Changes)-1].Term != s.Term {
			return fmt.Errorf("%s is the primary in term %d, and the changes are %+v", s.Primary, s.Term, s.Changes)
		}
		return nil
	})

	// One more member, by an Operation that counts pods. It is on record in the object itself.
	p.Create(framework.NewOperation("more", "HorizontalScale", p.Reference(), "replicas", "3"))
	p.ExpectOperationSucceeded("more")
	if got := p.Object().Spec.Replicas; got != 2 {
		p.Errorf("the PostgreSQL declares %d replicas, want 2", got)
	}
	p.WaitForReplicas(2)
	p.WaitForAnswer(p.Pool(framework.Login{}), "2",
		"SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'")
	w.StopAndVerify("parameters and a member more", framework.FailoverGapLimit)
	p.ExpectOperationRefused(framework.NewOperation("none", "HorizontalScale", p.Reference(), "replicas", "0"),
		"a PostgreSQL has 1 at least")
}

// checkPooler has clients log in by way of a pooler, as the roles that are declared.
func checkPooler(p *framework.PostgreSQLInstance) {
	before := p.ProcessStarts()
	p.Update(func(spec *databasev1.PostgreSQLSpec) {
		spec.Pooler = &databasev1.PostgreSQLPooler{Replicas: 1, Parameters: platformv1.Parameters{"default_pool_size": "3"}}
	})
	p.Eventually(framework.SettleTimeout, "status and binding name the pooler", func() error {
		b, s := p.Binding(), p.Object().Status
		if b["pooler-host"] == "" || s.Poolers != "1/1" || s.PoolerEndpoint != b["pooler-host"]+":"+b["pooler-port"] {
			return fmt.Errorf("the status has poolers %q at %q, and the binding says %s:%s", s.Poolers, s.PoolerEndpoint,
				b["pooler-host"], b["pooler-port"])
		}
		return nil
	})
	pooled := app
	pooled.Pooled = true
	p.WaitForAnswer(p.Pool(pooled), "app 1000", "SELECT current_user || ' ' || count(*) FROM goods")
	pooled.Password = "guess"
	p.ExpectStatementRefused(p.Pool(pooled), "password authentication failed", "SELECT 1::text")
	p.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Pooler = nil })
	p.Eventually(framework.SettleTimeout, "the pooler is gone", func() error {
		if pods := p.Application().Pods(); len(pods) != 3 {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return framework.ErrUnlessNotFound(p.Get(p.Application().Name+"-pooler", &corev1.Service{}))
	})
	p.Eventually(framework.SettleTimeout, "the status names no pooler", func() error {
		if s := p.Object().Status; s.Poolers != "" || s.PoolerEndpoint != "" {
			return fmt.Errorf("it says %q at %q", s.Poolers, s.PoolerEndpoint)
		}
		return nil
	})
	if after := p.ProcessStarts(); !maps.Equal(before, after) {
		p.Errorf("for a pooler servers were started anew: since %v, and since %v", before, after)
	}
}

func checkTakenOut(p *framework.PostgreSQLInstance) {
	p.Update(func(spec *databasev1.PostgreSQLSpec) {
		spec.Roles = spec.Roles[:1]
		spec.Databases = nil
		spec.Synchronous = nil
	})
	super := p.Pool(framework.Login{})
	p.WaitForAnswer(super, "app", "SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolname IN ('app', 'reader')")
	p.WaitForAnswer(super, "shop", "SELECT string_agg(datname, ' ') FROM pg_database WHERE datname IN ('shop', 'gone')")
	p.WaitForAnswer(p.Pool(app), "hstore", "SELECT extname FROM pg_extension WHERE extname = 'hstore'")
	p.WaitForAnswer(p.Pool(app), "1000", "SELECT count(*)::text FROM goods")
	// The plugin's own choice for three members.
	p.Eventually(framework.SettleTimeout, "the default of three members", func() error {
		if got, err := framework.Asks(p.Ctx, super, "SELECT current_setting('synchronous_standby_names')"); err != nil ||
			!strings.HasPrefix(got, "ANY 1 (") {
			return fmt.Errorf("it waits for %q: %v", got, err)
		}
		return nil
	})
	p.WaitReady()
}

func checkTLS(p *framework.PostgreSQLInstance) {
	speaks := func(spec *databasev1.PostgreSQLSpec) { spec.TLS = &platformv1.TLS{Enabled: true} }
	if err := p.TryUpdate(speaks); err == nil {
		p.ExpectNotReady(platformv1.ReasonInvalidSpec, "set running to false first")
		p.Update(func(spec *databasev1.PostgreSQLSpec) { spec.TLS = nil })
	} else {
		p.ExpectRefused(err, "set running to false first")
	}
	p.Create(framework.NewOperation("stop", "Stop", p.Reference()))
	p.ExpectOperationSucceeded("stop")
	if running := p.Object().Spec.Running; running == nil || *running {
		p.Error("the PostgreSQL does not say that it is stopped")
	}
	// Until it is known that no pod is left, this waits.
	p.Eventually(framework.SettleTimeout, "TLS is taken", func() error { return p.TryUpdate(speaks) })
	p.WaitReady()
	p.Create(framework.NewOperation("start", "Start", p.Reference()))
	p.ExpectOperationSucceeded("start")
	p.WaitForReplicas(2)
	secured := p.Pool(framework.Login{Mode: "verify-full"})
	p.WaitForAnswer(secured, "true", "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
	p.WaitForAnswer(secured, "2", "SELECT count(*)::text FROM pg_stat_replication JOIN pg_stat_ssl USING (pid) WHERE ssl")
	p.WaitForAnswer(p.Pool(framework.Login{ReadOnly: true, Mode: "verify-full"}), "true",
		"SELECT pg_is_in_recovery()::text")
	p.ExpectStatementRefused(p.Pool(framework.Login{Mode: "disable"}), "no encryption", "SELECT 1::text")
	p.WaitForAnswer(p.Pool(framework.Login{User: app.User, Password: app.Password, Database: app.Database,
		Mode: "verify-full"}), "1000", "SELECT count(*)::text FROM goods")
}

func checkRefused(p *framework.PostgreSQLInstance) {
	before := p.ProcessStarts()
	for text, edit := range map[string]func(*databasev1.PostgreSQLSpec){
		"version cannot change":      func(s *databasev1.PostgreSQLSpec) { s.Version = "15" },
		"storage.size cannot shrink": func(s *databasev1.PostgreSQLSpec) { s.Storage.Size = resource.MustParse("256Mi") },
		"cannot be above replicas": func(s *databasev1.PostgreSQLSpec) {
			s.Synchronous = &databasev1.PostgreSQLSynchronous{Replicas: new(int32(3))}
		},
		"set spec.synchronous.method": func(s *databasev1.PostgreSQLSpec) { s.Parameters["synchronous.method"] = "any" },
		"a role that logs in needs": func(s *databasev1.PostgreSQLSpec) {
			s.Roles = append(s.Roles, databasev1.PostgreSQLRole{Name: "more"})
		},
		`did you mean "shared_buffers"`: func(s *databasev1.PostgreSQLSpec) { s.Parameters["shared_bufers"] = "1GB" },
		"keeps the data safe as it is":  func(s *databasev1.PostgreSQLSpec) { s.Parameters["fsync"] = "off" },
		"cannot be off or local where":  func(s *databasev1.PostgreSQLSpec) { s.Parameters["synchronous_commit"] = "off" },
		"must be at least 8":            func(s *databasev1.PostgreSQLSpec) { s.Parameters["max_wal_senders"] = "2" },
		"of extensions there are": func(s *databasev1.PostgreSQLSpec) {
			s.Databases = []databasev1.PostgreSQLDatabase{
				{Name: "more", Extensions: []databasev1.PostgreSQLExtension{{Name: "plpython3u"}}}}
		},
		"superuser_reserved_connections must": func(s *databasev1.PostgreSQLSpec) {
			s.Parameters["superuser_reserved_connections"] = "60"
		},
	} {
		p.WaitForRefusal(text, func() error { return p.TryUpdate(edit, client.DryRunAll) })
	}
	p.WaitReady()
	if after := p.ProcessStarts(); !maps.Equal(before, after) {
		p.Errorf("the processes ran since %v, and since %v", before, after)
	}
}
