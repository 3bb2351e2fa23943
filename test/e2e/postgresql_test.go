// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// postgresql is a PostgreSQL of a test, with a pod of the same image that is its client.
type postgresql struct {
	*application
	client string
}

func postgresqlApplication(version string) platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "postgresql", PluginVersion: "1.0.0", Version: version, Topology: "standalone", DeletionPolicy: platformv1.DeletionPolicyDelete,
		Components: []platformv1.ApplicationComponent{{
			Name:       postgresqlComponent,
			Monitoring: &platformv1.Monitoring{Enabled: true},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			Storage:    &platformv1.Storage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"shared_preload_libraries": "pg_stat_statements", "max_connections": "40"},
		}},
	}
}

// in returns the same server for a subtest.
func (p *postgresql) in(t *testing.T) *postgresql {
	return &postgresql{application: &application{space: p.space.in(t), name: p.name}, client: p.client}
}

func (p *postgresql) pod() string { return p.name + "-" + postgresqlComponent + "-main-0" }

// binding is what the Secret for clients has.
func (p *postgresql) binding() map[string]string {
	p.Helper()
	app := p.object()
	if app.Status.Binding == nil {
		p.Fatal("the status names no binding")
	}
	secret := &corev1.Secret{}
	p.mustGet(app.Status.Binding.Name, secret)
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values
}

// psql runs statements through the Service with a password, each in a transaction of its own.
func (p *postgresql) psql(user, password, database string, statements ...string) (string, error) {
	command := []string{"env", "PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=5", "/usr/lib/postgresql/" + postgresqlVersion + "/bin/psql",
		"-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", p.name, "-U", user, "-d", database}
	for _, statement := range statements {
		command = append(command, "-c", statement)
	}
	return run(p.ctx, p.space.name, p.client, p.client, "", command...)
}

// sql runs a statement as the superuser, and has to succeed.
func (p *postgresql) sql(database, statement string) string {
	p.Helper()
	return strings.TrimSpace(p.answered(func() (string, error) { return p.psql("postgres", p.binding()["password"], database, statement) }))
}

// answers waits until a statement of the superuser gives what is wanted.
func (p *postgresql) answers(want, statement string) {
	p.Helper()
	p.eventually(settleIn, statement+" gives "+want, func() error {
		out, err := p.psql("postgres", p.binding()["password"], "postgres", statement)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("it gives %q", out)
		}
		return err
	})
}

// server is the process that answers: since when it runs, and which data it has.
func (p *postgresql) server() (since, system string) {
	p.Helper()
	since, system, _ = strings.Cut(p.sql("postgres", "SELECT pg_postmaster_start_time(), system_identifier FROM pg_control_system()"), "|")
	return since, system
}

// TestPostgreSQL proves with psql that a plugin without a line of Go gives a server that keeps what it was told.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "postgresql")
	p := &postgresql{application: s.apply("shop", postgresqlApplication(postgresqlVersion)), client: "psql"}
	t.Logf("apply to Ready: %s", seconds(p.ready()))
	p.runClient(p.client, "zeroinfra/postgresql:"+postgresqlVersion)
	p.sql("postgres", "CREATE TABLE kept (n int); INSERT INTO kept SELECT generate_series(1, 1000)")
	for _, part := range []struct {
		name string
		run  func(*postgresql)
	}{
		{"the binding and the status say what is there", (*postgresql).checkBinding},
		{"roles, databases, extensions and grants are kept", (*postgresql).checkEntities},
		{"metrics come from queries", (*postgresql).checkMetrics},
		{"parameters are reloaded, or restart the process", (*postgresql).checkParameters},
		{"an Operation asks the server", (*postgresql).checkOperation},
		{"the server is killed", (*postgresql).checkKill},
		{"the password is another one", (*postgresql).checkPassword},
		{"it is stopped and started", (*postgresql).checkStop},
		{"data that is gone is not made anew", (*postgresql).checkDataGone},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(p.in(t)) })
	}
}

func (p *postgresql) checkBinding() {
	b := p.binding()
	if b["type"] != "postgresql" || b["username"] != "postgres" || b["port"] != "5432" || b["host"] != p.name+"."+p.space.name+".svc" || len(b["password"]) != 32 {
		p.Errorf("the binding has type %q, host %q and port %q", b["type"], b["host"], b["port"])
	}
	if version := p.object().Status.Version; !strings.HasPrefix(version, postgresqlVersion+".") {
		p.Errorf("the status says version %q", version)
	}
	if out, err := p.psql("postgres", "guess", "postgres", "SELECT 1"); err == nil {
		p.Errorf("with another password it says %q", out)
	}
}

// entityOf is an Entity of this server.
func (p *postgresql) entityOf(kind, object, name string, parameters platformv1.Parameters, password *platformv1.SecretKeyReference) *platformv1.Entity {
	return &platformv1.Entity{ObjectMeta: named(object), Spec: platformv1.EntitySpec{
		ApplicationRef: platformv1.ApplicationReference{Name: p.name}, Type: kind, Name: name, Parameters: parameters, PasswordFrom: password, DeletionPolicy: platformv1.EntityDelete,
	}}
}

// entityReadyIn bounds the time until an object is as asked that needs others, and is tried again when these are there.
const entityReadyIn = 5 * time.Minute

// areReady waits until these Entities are.
func (p *postgresql) areReady(names ...string) {
	p.Helper()
	for _, name := range names {
		p.eventually(entityReadyIn, name+" is ready", func() error {
			entity := &platformv1.Entity{}
			if err := p.get(name, entity); err != nil {
				return err
			}
			return readyNow(entity, entity.Status.ObservedGeneration)
		})
	}
}

func (p *postgresql) checkEntities() {
	p.create(&corev1.Secret{ObjectMeta: named("users"), StringData: map[string]string{"app": "first's", "reader": "other"}})
	from := func(key string) *platformv1.SecretKeyReference {
		return &platformv1.SecretKeyReference{Name: "users", Key: key}
	}
	// In no order: what needs something else is tried again.
	p.create(p.entityOf("grant", "reader-connects", "reader/shop", platformv1.Parameters{"privileges": "CONNECT"}, nil))
	p.create(p.entityOf("extension", "shop-hstore", "shop/hstore", nil, nil))
	p.create(p.entityOf("database", "shop", "shop", platformv1.Parameters{"owner": "app"}, nil))
	p.create(p.entityOf("role", "app", "app", platformv1.Parameters{"connection-limit": "10"}, from("app")))
	p.create(p.entityOf("role", "reader", "reader", platformv1.Parameters{"member-of": "pg_read_all_data"}, from("reader")))
	p.areReady("app", "reader", "shop", "shop-hstore", "reader-connects")
	if out, err := p.told(func() (string, error) {
		return p.psql("app", "first's", "shop", "CREATE TABLE goods (h public.hstore); INSERT INTO goods VALUES ('a=>1'); SELECT h->'a' FROM goods")
	}); err != nil || out != "1" {
		p.Errorf("the owner says %q, %v", out, err)
	}
	if out, err := p.told(func() (string, error) { return p.psql("reader", "other", "shop", "SELECT count(*) FROM goods") }); err != nil || out != "1" {
		p.Errorf("the reader says %q, %v", out, err)
	}
	if out, err := p.psql("reader", "other", "shop", "DELETE FROM goods"); err == nil {
		p.Errorf("the reader writes: %q", out)
	}
	unknown := p.entityOf("extension", "unknown", "shop/plpython3u", nil, nil)
	unknown.Namespace = p.space.name
	for _, says := range []string{"of extensions there are", "pgcrypto"} {
		p.refusedAtLast(says, func() error { return world.client.Create(p.ctx, unknown.DeepCopy(), client.DryRunAll) })
	}
	if log, err := logs(p.ctx, p.space.name, p.pod(), postgresqlComponent); err != nil || strings.Contains(log, "first's") || strings.Contains(log, p.binding()["password"]) {
		p.Errorf("a password is in the log: %v", err)
	}
}

func (p *postgresql) checkMetrics() {
	pod := &corev1.Pod{}
	p.mustGet(p.pod(), pod)
	p.eventually(settleIn, "the metrics of all queries are there", func() error {
		out, err := run(p.ctx, p.space.name, p.client, p.client, "", "wget", "-q", "-O", "-", "http://"+pod.Status.PodIP+":9187/metrics")
		if err != nil {
			return err
		}
		for _, line := range []string{`postgresql_max_connections 40`, `postgresql_database_size_bytes{datname="postgres"} `, `postgresql_in_recovery 0`, "postgresql_wal_position_bytes "} {
			if !strings.Contains(out, "\n"+line) {
				return fmt.Errorf("there is no %q", line)
			}
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "postgresql_query_success{") && !strings.HasSuffix(line, " 1\n") {
				return fmt.Errorf("a query fails: %s", line)
			}
		}
		return nil
	})
}

// set changes parameters and waits until that is done.
func (p *postgresql) set(parameters platformv1.Parameters) {
	p.Helper()
	p.update(component(postgresqlComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = maps.Clone(c.Parameters)
		maps.Copy(c.Parameters, parameters)
	}))
	p.ready()
}

func (p *postgresql) checkParameters() {
	uids := p.uids()
	since, system := p.server()
	p.set(platformv1.Parameters{"work_mem": "7MB", "log_min_duration_statement": "3s"})
	p.answers("7MB|3s", "SELECT current_setting('work_mem'), current_setting('log_min_duration_statement')")
	if now, _ := p.server(); now != since {
		p.Error("a parameter that a reload takes over restarted the server")
	}
	p.set(platformv1.Parameters{"max_connections": "55"})
	p.answers("55", "SELECT current_setting('max_connections')")
	now, same := p.server()
	if now == since || same != system {
		p.Errorf("the server runs since %s, before %s; its data is %s, before %s", now, since, same, system)
	}
	if !maps.Equal(p.uids(), uids) {
		p.Error("a parameter replaced the pod")
	}
	for parameters, says := range map[string]string{"fsync=off": "keeps the data safe as it is", "work_mem=7 MB": "it must be a size", "wal_level=minimal": "wal_level", "shared_bufers=1GB": `did you mean "shared_buffers"`} {
		key, value, _ := strings.Cut(parameters, "=")
		p.refusedAtLast(says, func() error {
			return p.tryUpdate(component(postgresqlComponent, func(c *platformv1.ApplicationComponent) {
				c.Parameters = platformv1.Parameters{key: platformv1.ParameterValue(value)}
			}), client.DryRunAll)
		})
	}
	p.kept()
}

// kept holds that all that was written is there.
func (p *postgresql) kept() {
	p.Helper()
	p.answers("1000|500500", "SELECT count(*), sum(n) FROM kept")
}

func (p *postgresql) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application", Name: p.name}
}

func (p *postgresql) checkOperation() {
	before := p.sql("postgres", "SELECT checkpoint_lsn FROM pg_control_checkpoint()")
	p.sql("postgres", "INSERT INTO kept SELECT 0 WHERE false; CREATE TABLE more (n int)")
	p.create(&platformv1.Operation{ObjectMeta: named("checkpoint"), Spec: platformv1.OperationSpec{TemplateRef: "Checkpoint", TargetRef: p.reference()}})
	p.succeeded("checkpoint")
	if after := p.sql("postgres", "SELECT checkpoint_lsn FROM pg_control_checkpoint()"); after == before {
		p.Errorf("there was no checkpoint since %s", before)
	}
	since, _ := p.server()
	p.create(restartOf("restart", p.reference()))
	p.succeeded("restart")
	p.kept()
	if now, _ := p.server(); now == since {
		p.Error("the server was not restarted")
	}
}

func (p *postgresql) checkKill() {
	uids := p.uids()
	since, system := p.server()
	if _, err := run(p.ctx, p.space.name, p.pod(), postgresqlComponent, "", "sh", "-c", "kill -9 $(head -n 1 /data/pgdata/postmaster.pid)"); err != nil {
		p.Fatal(err)
	}
	begin := time.Now()
	p.kept()
	p.Logf("kill -9 to the first answer: %s", seconds(time.Since(begin)))
	now, same := p.server()
	if now == since || same != system || !maps.Equal(p.uids(), uids) {
		p.Errorf("the server runs since %s, before %s; its data is %s, before %s", now, since, same, system)
	}
}

func (p *postgresql) checkPassword() {
	old := p.binding()["password"]
	p.create(&corev1.Secret{ObjectMeta: named("mine"), StringData: map[string]string{"password": `it's mine\"`}})
	p.update(func(spec *platformv1.ApplicationSpec) {
		spec.Credentials = []platformv1.Credential{{Name: "superuser", PasswordFrom: platformv1.SecretKeyReference{Name: "mine", Key: "password"}}}
	})
	p.eventually(settleIn, "the new password is taken", func() error {
		out, err := p.psql("postgres", `it's mine\"`, "postgres", "SELECT count(*) FROM kept")
		if err == nil && out != "1000" {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	p.ready()
	if _, err := p.psql("postgres", old, "postgres", "SELECT 1"); err == nil {
		p.Error("the old password does, too")
	}
	if log, err := logs(p.ctx, p.space.name, p.pod(), postgresqlComponent); err != nil || strings.Contains(log, "mine") {
		p.Errorf("the password is in the log: %v", err)
	}
}

func (p *postgresql) checkStop() {
	_, system := p.server()
	p.update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(false) })
	p.eventually(settleIn, "no pod is left", func() error {
		if pods := p.pods(); len(pods) > 0 {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	p.update(func(spec *platformv1.ApplicationSpec) { spec.Running = nil })
	p.ready()
	p.kept()
	if _, same := p.server(); same != system {
		p.Errorf("its data is %s, before %s", same, system)
	}
}

// checkDataGone comes last: a folder that was removed by mistake is not taken for a new volume.
func (p *postgresql) checkDataGone() {
	if _, err := run(p.ctx, p.space.name, p.pod(), postgresqlComponent, "", "mv", "/data/pgdata", "/data/elsewhere"); err != nil {
		p.Fatal(err)
	}
	p.create(restartOf("without-data", p.reference()))
	p.eventually(settleIn, "the server says what is missing", func() error {
		log, err := logs(p.ctx, p.space.name, p.pod(), postgresqlComponent)
		if err == nil && !strings.Contains(log, "there was data here, and /data/pgdata is gone") {
			err = errors.New("it does not")
		}
		return err
	})
	if out, err := run(p.ctx, p.space.name, p.pod(), postgresqlComponent, "", "sh", "-c", "ls -d /data/pgdata || mv /data/elsewhere /data/pgdata"); err != nil || out != "" {
		p.Fatalf("got %q, %v", out, err)
	}
	p.kept()
	p.ready()
}

// TestPostgreSQLOverTLS has clients, the driver and those who read metrics speak TLS, and nobody come in without.
func TestPostgreSQLOverTLS(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "postgresqltls")
	spec := postgresqlApplication("15")
	spec.TLS = &platformv1.TLS{Enabled: true}
	p := &postgresql{application: s.apply("shop", spec), client: "psql"}
	p.ready()
	p.runClient(p.client, "zeroinfra/postgresql:"+postgresqlVersion)
	b := p.binding()
	if b["ca.crt"] == "" {
		t.Fatal("it is Ready, and its binding has no ca.crt")
	}
	// On a busy machine an exec can end before its input has come.
	s.eventually(settleIn, "the client has the CA", func() error {
		_, err := run(p.ctx, s.name, p.client, p.client, b["ca.crt"], "sh", "-c", "cat >/tmp/ca.crt && test -s /tmp/ca.crt")
		return err
	})
	connect := func(mode string) (string, error) {
		return p.told(func() (string, error) {
			return run(p.ctx, s.name, p.client, p.client, "", "env", "PGPASSWORD="+b["password"], "/usr/lib/postgresql/"+postgresqlVersion+"/bin/psql", "-X", "-A", "-t", "-c", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
				"host="+b["host"]+" user=postgres dbname=postgres connect_timeout=5 sslrootcert=/tmp/ca.crt sslmode="+mode)
		})
	}
	if out, err := connect("verify-full"); err != nil || strings.TrimSpace(out) != "t" {
		t.Errorf("over TLS it says %q, %v", out, err)
	}
	if out, err := connect("disable"); err == nil || !strings.Contains(err.Error(), "no encryption") {
		t.Errorf("without TLS it says %q, %v", out, err)
	}
	s.create(p.entityOf("role", "app", "app", nil, nil))
	p.areReady("app")
	// As a Prometheus reads them, by the PodMonitor.
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b["ca.crt"]))
	reader := &http.Client{Timeout: settleIn, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: p.name + "-" + postgresqlComponent + "-headless." + s.name + ".svc.cluster.local"}}}
	way := s.forward(s.name, p.pod(), 9187)
	s.eventually(settleIn, "the metrics are there over TLS", func() error {
		response, err := reader.Get("https://" + way + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if out, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(out), "\npostgresql_in_recovery 0\n") {
			return fmt.Errorf("they are %q: %w", out, err)
		}
		return nil
	})
}
