// SPDX-License-Identifier: Apache-2.0

package database

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

func podOf(p *framework.PostgreSQLApplication) string {
	return p.Name + "-" + framework.PostgreSQLComponent + "-main-0"
}

// server is the process that answers: since when it runs, and which data it has.
func server(p *framework.PostgreSQLApplication) (since, system string) {
	p.Helper()
	since, system, _ = strings.Cut(p.SQL("postgres",
		"SELECT pg_postmaster_start_time(), system_identifier FROM pg_control_system()"), "|")
	return since, system
}

// TestPostgreSQL proves with psql that a plugin without a line of Go gives a server that keeps what it was told.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "postgresql")
	p := &framework.PostgreSQLApplication{
		Application: s.CreateApplication("shop", framework.NewPostgreSQLApplication(framework.PostgreSQLVersion)),
		Client:      "psql"}
	t.Logf("apply to Ready: %s", framework.FormatSeconds(p.WaitReady()))
	p.RunClient(p.Client, "zeroinfra/postgresql:"+framework.PostgreSQLVersion)
	p.SQL("postgres", "CREATE TABLE kept (n int); INSERT INTO kept SELECT generate_series(1, 1000)")
	for _, part := range []struct {
		name string
		run  func(*framework.PostgreSQLApplication)
	}{
		{"the binding and the status say what is there", checkBinding},
		{"roles, databases, extensions and grants are kept", checkEntities},
		{"metrics come from queries", checkMetrics},
		{"parameters are reloaded, or restart the process", checkParameters},
		{"an Operation asks the server", checkOperation},
		{"the server is killed", checkKill},
		{"the password is another one", checkPassword},
		{"it is stopped and started", checkStop},
		{"data that is gone is not made anew", checkDataGone},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(p.In(t)) })
	}
}

func checkBinding(p *framework.PostgreSQLApplication) {
	b := p.Binding()
	if b["type"] != "postgresql" || b["username"] != "app" || b["database"] != "app" || b["port"] != "5432" ||
		b["host"] != p.Name+"."+p.Namespace.Name+".svc" || len(b["password"]) != 32 {
		p.Errorf("the binding has type %q, username %q, database %q, host %q and port %q", b["type"], b["username"],
			b["database"], b["host"], b["port"])
	}
	if version := p.Object().Status.Version; !strings.HasPrefix(version, framework.PostgreSQLVersion+".") {
		p.Errorf("the status says version %q", version)
	}
	if out, err := p.PSQL("postgres", "guess", "postgres", "SELECT 1"); err == nil {
		p.Errorf("with another password it says %q", out)
	}
}

// entityOf is an Entity of this server.
func entityOf(p *framework.PostgreSQLApplication, kind, object, name string, parameters platformv1.Parameters,
	password *platformv1.SecretKeyReference) *platformv1.Entity {
	return &platformv1.Entity{ObjectMeta: framework.ObjectMeta(object), Spec: platformv1.EntitySpec{
		ApplicationRef: platformv1.ApplicationReference{Name: p.Name}, Type: kind, Name: name, Parameters: parameters,
		PasswordFrom: password, DeletionPolicy: platformv1.EntityDelete,
	}}
}

// entityReadyIn bounds the time until an object is as asked that needs others, and is tried again when these are there.
const entityReadyIn = 5 * time.Minute

// areReady waits until these Entities are.
func areReady(p *framework.PostgreSQLApplication, names ...string) {
	p.Helper()
	for _, name := range names {
		p.Eventually(entityReadyIn, name+" is ready", func() error {
			entity := &platformv1.Entity{}
			if err := p.Get(name, entity); err != nil {
				return err
			}
			return framework.ReadyNow(entity, entity.Status.ObservedGeneration)
		})
	}
}

func checkEntities(p *framework.PostgreSQLApplication) {
	p.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"),
		StringData: map[string]string{"seller": "first's", "reader": "other"}})
	from := func(key string) *platformv1.SecretKeyReference {
		return &platformv1.SecretKeyReference{Name: "users", Key: key}
	}
	// In no order: what needs something else is tried again.
	p.Create(entityOf(p, "grant", "reader-connects", "reader/shop", platformv1.Parameters{"privileges": "CONNECT"}, nil))
	p.Create(entityOf(p, "extension", "shop-hstore", "shop/hstore", nil, nil))
	p.Create(entityOf(p, "database", "shop", "shop", platformv1.Parameters{"owner": "seller"}, nil))
	p.Create(entityOf(p, "role", "seller", "seller", platformv1.Parameters{"connection-limit": "10"}, from("seller")))
	p.Create(entityOf(p, "role", "reader", "reader", platformv1.Parameters{"member-of": "pg_read_all_data"},
		from("reader")))
	areReady(p, "seller", "reader", "shop", "shop-hstore", "reader-connects")
	if out, err := p.RunClientCommand(func() (string, error) {
		return p.PSQL("seller", "first's", "shop",
			"CREATE TABLE goods (h public.hstore); INSERT INTO goods VALUES ('a=>1'); SELECT h->'a' FROM goods")
	}); err != nil || out != "1" {
		p.Errorf("the owner says %q, %v", out, err)
	}
	if out, err := p.RunClientCommand(func() (string, error) {
		return p.PSQL("reader", "other", "shop", "SELECT count(*) FROM goods")
	}); err != nil || out != "1" {
		p.Errorf("the reader says %q, %v", out, err)
	}
	if out, err := p.PSQL("reader", "other", "shop", "DELETE FROM goods"); err == nil {
		p.Errorf("the reader writes: %q", out)
	}
	unknown := entityOf(p, "extension", "unknown", "shop/plpython3u", nil, nil)
	unknown.Namespace = p.Namespace.Name
	for _, says := range []string{"of extensions there are", "pgcrypto"} {
		p.WaitForRefusal(says, func() error {
			return framework.Cluster.Client.Create(p.Ctx, unknown.DeepCopy(), client.DryRunAll)
		})
	}
	if log, err := framework.Logs(p.Ctx, p.Namespace.Name, podOf(p), framework.PostgreSQLComponent); err != nil ||
		strings.Contains(log, "first's") || strings.Contains(log, p.SuperuserPassword()) {
		p.Errorf("a password is in the log: %v", err)
	}
}

func checkMetrics(p *framework.PostgreSQLApplication) {
	pod := &corev1.Pod{}
	p.MustGet(podOf(p), pod)
	p.Eventually(framework.SettleTimeout, "the metrics of all queries are there", func() error {
		out, err := framework.Run(p.Ctx, p.Namespace.Name, p.Client, p.Client, "", "wget", "-q", "-O", "-", "http://"+
			pod.Status.PodIP+":9187/metrics")
		if err != nil {
			return err
		}
		for _, line := range []string{`postgresql_max_connections 40`, `postgresql_database_size_bytes{datname="postgres"} `,
			`postgresql_in_recovery 0`, "postgresql_wal_position_bytes "} {
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
func set(p *framework.PostgreSQLApplication, parameters platformv1.Parameters) {
	p.Helper()
	p.Update(framework.WithComponent(framework.PostgreSQLComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = maps.Clone(c.Parameters)
		maps.Copy(c.Parameters, parameters)
	}))
	p.WaitReady()
}

func checkParameters(p *framework.PostgreSQLApplication) {
	uids := p.UIDs()
	since, system := server(p)
	set(p, platformv1.Parameters{"work_mem": "7MB", "log_min_duration_statement": "3s"})
	p.WaitForAnswer("7MB|3s", "SELECT current_setting('work_mem'), current_setting('log_min_duration_statement')")
	if now, _ := server(p); now != since {
		p.Error("a parameter that a reload takes over restarted the server")
	}
	set(p, platformv1.Parameters{"max_connections": "55"})
	p.WaitForAnswer("55", "SELECT current_setting('max_connections')")
	now, same := server(p)
	if now == since || same != system {
		p.Errorf("the server runs since %s, before %s; its data is %s, before %s", now, since, same, system)
	}
	if !maps.Equal(p.UIDs(), uids) {
		p.Error("a parameter replaced the pod")
	}
	for parameters, says := range map[string]string{"fsync=off": "keeps the data safe as it is",
		"work_mem=7 MB": "it must be a size", "wal_level=minimal": "wal_level",
		"shared_bufers=1GB": `did you mean "shared_buffers"`} {
		key, value, _ := strings.Cut(parameters, "=")
		p.WaitForRefusal(says, func() error {
			return p.TryUpdate(framework.WithComponent(framework.PostgreSQLComponent, func(c *platformv1.ApplicationComponent) {
				c.Parameters = platformv1.Parameters{key: platformv1.ParameterValue(value)}
			}), client.DryRunAll)
		})
	}
	kept(p)
}

// kept holds that all that was written is there.
func kept(p *framework.PostgreSQLApplication) {
	p.Helper()
	p.WaitForAnswer("1000|500500", "SELECT count(*), sum(n) FROM kept")
}

func reference(p *framework.PostgreSQLApplication) platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application", Name: p.Name}
}

func checkOperation(p *framework.PostgreSQLApplication) {
	before := p.SQL("postgres", "SELECT checkpoint_lsn FROM pg_control_checkpoint()")
	p.SQL("postgres", "INSERT INTO kept SELECT 0 WHERE false; CREATE TABLE more (n int)")
	p.Create(&platformv1.Operation{ObjectMeta: framework.ObjectMeta("checkpoint"),
		Spec: platformv1.OperationSpec{TemplateRef: "Checkpoint", TargetRef: reference(p)}})
	p.ExpectOperationSucceeded("checkpoint")
	if after := p.SQL("postgres", "SELECT checkpoint_lsn FROM pg_control_checkpoint()"); after == before {
		p.Errorf("there was no checkpoint since %s", before)
	}
	since, _ := server(p)
	p.Create(framework.NewRestartOperation("restart", reference(p)))
	p.ExpectOperationSucceeded("restart")
	kept(p)
	if now, _ := server(p); now == since {
		p.Error("the server was not restarted")
	}
}

func checkKill(p *framework.PostgreSQLApplication) {
	uids := p.UIDs()
	since, system := server(p)
	if _, err := framework.Run(p.Ctx, p.Namespace.Name, podOf(p), framework.PostgreSQLComponent, "", "sh", "-c",
		"kill -9 $(head -n 1 /data/pgdata/postmaster.pid)"); err != nil {
		p.Fatal(err)
	}
	begin := time.Now()
	kept(p)
	p.Logf("kill -9 to the first answer: %s", framework.FormatSeconds(time.Since(begin)))
	now, same := server(p)
	if now == since || same != system || !maps.Equal(p.UIDs(), uids) {
		p.Errorf("the server runs since %s, before %s; its data is %s, before %s", now, since, same, system)
	}
}

func checkPassword(p *framework.PostgreSQLApplication) {
	old := p.SuperuserPassword()
	p.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("mine"),
		StringData: map[string]string{"password": `it's mine\"`}})
	p.Update(func(spec *platformv1.ApplicationSpec) {
		spec.Credentials = []platformv1.Credential{
			{Name: "superuser", PasswordFrom: platformv1.SecretKeyReference{Name: "mine", Key: "password"}}}
	})
	p.Eventually(framework.SettleTimeout, "the new password is taken", func() error {
		out, err := p.PSQL("postgres", `it's mine\"`, "postgres", "SELECT count(*) FROM kept")
		if err == nil && out != "1000" {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	p.WaitReady()
	if _, err := p.PSQL("postgres", old, "postgres", "SELECT 1"); err == nil {
		p.Error("the old password does, too")
	}
	if log, err := framework.Logs(p.Ctx, p.Namespace.Name, podOf(p), framework.PostgreSQLComponent); err != nil ||
		strings.Contains(log, "mine") {
		p.Errorf("the password is in the log: %v", err)
	}
}

func checkStop(p *framework.PostgreSQLApplication) {
	_, system := server(p)
	p.Update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(false) })
	p.Eventually(framework.SettleTimeout, "no pod is left", func() error {
		if pods := p.Pods(); len(pods) > 0 {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	p.Update(func(spec *platformv1.ApplicationSpec) { spec.Running = nil })
	p.WaitReady()
	kept(p)
	if _, same := server(p); same != system {
		p.Errorf("its data is %s, before %s", same, system)
	}
}

// checkDataGone comes last: a folder that was removed by mistake is not taken for a new volume.
func checkDataGone(p *framework.PostgreSQLApplication) {
	if _, err := framework.Run(p.Ctx, p.Namespace.Name, podOf(p), framework.PostgreSQLComponent, "", "mv", "/data/pgdata",
		"/data/elsewhere"); err != nil {
		p.Fatal(err)
	}
	p.Create(framework.NewRestartOperation("without-data", reference(p)))
	p.Eventually(framework.SettleTimeout, "the server says what is missing", func() error {
		log, err := framework.Logs(p.Ctx, p.Namespace.Name, podOf(p), framework.PostgreSQLComponent)
		if err == nil && !strings.Contains(log, "there was data here, and /data/pgdata is gone") {
			err = errors.New("it does not")
		}
		return err
	})
	if out, err := framework.Run(p.Ctx, p.Namespace.Name, podOf(p), framework.PostgreSQLComponent, "", "sh", "-c",
		"ls -d /data/pgdata || mv /data/elsewhere /data/pgdata"); err != nil || out != "" {
		p.Fatalf("got %q, %v", out, err)
	}
	kept(p)
	p.WaitReady()
}

// TestPostgreSQLOverTLS has clients, the driver and those who read metrics speak TLS, and nobody come in without.
func TestPostgreSQLOverTLS(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "postgresqltls")
	spec := framework.NewPostgreSQLApplication("15")
	spec.TLS = &platformv1.TLS{Enabled: true}
	p := &framework.PostgreSQLApplication{Application: s.CreateApplication("shop", spec), Client: "psql"}
	p.WaitReady()
	p.RunClient(p.Client, "zeroinfra/postgresql:"+framework.PostgreSQLVersion)
	b := p.Binding()
	if b["ca.crt"] == "" {
		t.Fatal("it is Ready, and its binding has no ca.crt")
	}
	// On a busy machine an exec can end before its input has come.
	s.Eventually(framework.SettleTimeout, "the client has the CA", func() error {
		_, err := framework.Run(p.Ctx, s.Name, p.Client, p.Client, b["ca.crt"], "sh", "-c",
			"cat >/tmp/ca.crt && test -s /tmp/ca.crt")
		return err
	})
	connect := func(mode string) (string, error) {
		return p.RunClientCommand(func() (string, error) {
			return framework.Run(p.Ctx, s.Name, p.Client, p.Client, "", "env", "PGPASSWORD="+b["password"],
				"/usr/lib/postgresql/"+framework.PostgreSQLVersion+"/bin/psql", "-X", "-A", "-t", "-c",
				"SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
				"host="+b["host"]+" user="+b["username"]+" dbname="+b["database"]+
					" connect_timeout=5 sslrootcert=/tmp/ca.crt sslmode="+mode)
		})
	}
	if out, err := connect("verify-full"); err != nil || strings.TrimSpace(out) != "t" {
		t.Errorf("over TLS it says %q, %v", out, err)
	}
	if out, err := connect("disable"); err == nil || !strings.Contains(err.Error(), "no encryption") {
		t.Errorf("without TLS it says %q, %v", out, err)
	}
	s.Create(entityOf(p, "role", "seller", "seller", nil, nil))
	areReady(p, "seller")
	// As a Prometheus reads them, by the PodMonitor.
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b["ca.crt"]))
	reader := &http.Client{Timeout: framework.SettleTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: p.Name + "-" +
			framework.PostgreSQLComponent + "-headless." + s.Name + ".svc.cluster.local"}}}
	way := s.PortForward(s.Name, podOf(p), 9187)
	s.Eventually(framework.SettleTimeout, "the metrics are there over TLS", func() error {
		response, err := reader.Get("https://" + way + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if out, err := io.ReadAll(response.Body); err != nil ||
			!strings.Contains(string(out), "\npostgresql_in_recovery 0\n") {
			return fmt.Errorf("they are %q: %w", out, err)
		}
		return nil
	})
}
