// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

var postgresqlFolder = filepath.Join("..", "..", "..", "database-operator", "plugins", "postgresql", "1.0.0")

func loadPostgreSQL(t *testing.T) *Bundle {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(postgresqlFolder), "postgresql")
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	return b
}

// serverSetting is what pg_settings of a real server lists.
type serverSetting struct{ Name, Unit, Context, Default string }

// serverSettings reads what the server of a version lists.
func serverSettings(t *testing.T, version string) []serverSetting {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(postgresqlFolder, "testdata", "settings-"+version+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var server []serverSetting
	if err := json.Unmarshal(data, &server); err != nil {
		t.Fatal(err)
	}
	if len(server) < 350 {
		t.Fatalf("%s: the server lists %d parameters", version, len(server))
	}
	return server
}

// What pg_settings of the real servers lists is in the schema, with a default that it allows and in force when the
// servers say so, or reserved with a reason; and the schema has nothing that the server does not know.
func TestPostgreSQLParametersAreComplete(t *testing.T) {
	b := loadPostgreSQL(t)
	c, _ := b.Component("postgresql")
	parameters := b.Parameters(c)
	// One that a server takes over only when it starts is no dynamic one, whatever another version does.
	started := map[string]bool{}
	for _, version := range b.Manifest.SupportedVersions {
		for _, setting := range serverSettings(t, version) {
			started[setting.Name] = started[setting.Name] || setting.Context == "postmaster"
		}
	}
	for _, version := range b.Manifest.SupportedVersions {
		known := map[string]bool{}
		for _, setting := range serverSettings(t, version) {
			known[setting.Name] = true
			if parameters.reserved(setting.Name) != "" {
				continue
			}
			if !slices.Contains(parameters.Names(version), setting.Name) {
				t.Errorf("%s: nothing is said of %q", version, setting.Name)
				continue
			}
			if dynamic := !started[setting.Name]; parameters.Dynamic(setting.Name) != dynamic {
				t.Errorf("%s: a reload takes %q over: %v", version, setting.Name, dynamic)
			}
			if message := parameters.check(version, setting.Name, setting.withUnit()); message != "" {
				t.Errorf("%s: %s", version, message)
			}
		}
		for _, name := range parameters.Names(version) {
			if !known[name] && !strings.Contains(name, ".") {
				t.Errorf("%s: the schema has %q, which the server does not know", version, name)
			}
			if allowed := parameters.Allowed(version, name); allowed == "" || strings.Contains(allowed, "_|_") {
				t.Errorf("%s: what %q takes is described as %q", version, name, allowed)
			}
		}
	}
}

// withUnit is the default, which the server lists without its unit.
func (s serverSetting) withUnit() string {
	number, err := strconv.Atoi(s.Default)
	switch {
	case s.Default == "0" || s.Default == "-1":
		return s.Default
	case s.Unit == "8kB" && err == nil:
		return fmt.Sprintf("%dkB", 8*number)
	}
	return s.Default + s.Unit
}

// A dump is not the default, goes into later versions and to no point in time; all files stay with their version.
func TestPostgreSQLMethodsOfBackups(t *testing.T) {
	c, _ := loadPostgreSQL(t).Component("postgresql")
	for name, want := range map[string]struct {
		byDefault, toATime bool
		versions           schema.RestoreVersions
	}{"base": {true, true, ""}, "dump": {false, false, schema.VersionsLater}} {
		m, found := c.BackupMethod(name)
		if !found || m.Default != want.byDefault || m.Restore == nil || m.Restore.Versions != want.versions ||
			(m.Restore.Target != nil) != want.toATime || m.Verify == nil {
			t.Errorf("%s is %+v", name, m)
		}
	}
}

// What an Operation upgrades from is known after its version was set, too, and the way back leads there.
func TestPostgreSQLUpgradesBetweenAllVersions(t *testing.T) {
	b := loadPostgreSQL(t)
	variables := map[string]any{
		"parameters": map[string]string{"version": "18", "acceptDataLoss": "true"},
		// It is 18 already where the steps after the edit look.
		"target": map[string]any{"application": "postgresql-shop", "version": "18", "members": `[["db-0"]]`},
		"steps": map[string]any{
			"check": map[string]any{"outputs": map[string]any{"from": "17"}},
			"look":  map[string]any{"outputs": map[string]any{"from": "17", "to": "18"}},
		},
	}
	for name, steps := range map[string]map[string]string{
		"UpgradePaaS": {"version": "18", "convert": "convert 17 18", "former-data": "undo 17 18", "former-version": "17"},
		"RollBackUpgrade": {"version": "17", "put-back": "rollback 17 18", "later-data": "forward 17 18",
			"later-version": "18"},
	} {
		template, _ := b.Operation(name)
		for step, want := range steps {
			s, ok := template.Step(step)
			if !ok {
				t.Fatalf("%s has no step %q", name, step)
			}
			var words []string
			if s.Engine != nil {
				words = []string{s.Engine.With["version"]}
			} else {
				words = slices.Clone(s.Job.Command[1:])
				if want := "zeroinfra/postgresql-upgrade:18"; s.Job.Image != want {
					t.Errorf("%s: step %q has the image %s, want %s", name, step, s.Job.Image, want)
				}
			}
			for i, word := range words {
				text, err := template.Text(step, word, variables)
				if err != nil {
					t.Fatalf("%s: step %q: %v", name, step, err)
				}
				words[i] = text
			}
			if got := strings.Join(words, " "); got != want {
				t.Errorf("%s: step %q is %q, want %q", name, step, got, want)
			}
		}
	}
}

// The driver can do what the plugin promises.
func TestPostgreSQLEntities(t *testing.T) {
	b := loadPostgreSQL(t)
	if got := strings.Join(b.EntityTypes(), " "); got != "database extension grant role" {
		t.Errorf("the types are %s", got)
	}
	for kind, names := range map[string]map[string]bool{
		"role": {"app": true, "App_1": true, "postgres": false, "pg_monitor": false, "a/b": false, "a b": false,
			`a"b`: false},
		"database": {"shop": true, "postgres": false, "template0": false, "shop/x": false},
		"extension": {"shop/hstore": true, "shop/uuid-ossp": true, "shop/plpython3u": false, "hstore": false,
			"template1/hstore": false},
		"grant": {"app/shop": true, "app/shop/public": true, "app/shop/public/goods": true, "app": false,
			"pg_monitor/shop": false, "app/shop/public/goods/id": false},
	} {
		e, roles, ok := b.Entity(kind)
		if !ok || strings.Join(roles, " ") != "primary" {
			t.Fatalf("%s is asked for at %v", kind, roles)
		}
		for name, fine := range names {
			if err := e.CheckEntityName(name); (err == nil) != fine {
				t.Errorf("%s %q: got %v", kind, name, err)
			}
		}
	}
	c, _ := b.Component("postgresql")
	values := sampleValues(c, "standalone", "17", 1<<30)
	values.Component.Monitoring = true
	var err error
	if values.Params, err = b.ParametersInForce(c, values, nil); err != nil {
		t.Fatal(err)
	}
	p, err := b.RenderPlan("postgresql", values)
	if err != nil || p.Driver.Protocol != plan.ProtocolPostgreSQL || p.Metrics == nil {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	if got, err := b.ParametersInForce(c, values, platformv1.Parameters{}); err != nil ||
		got["shared_buffers"] != "256MB" {
		t.Errorf("got %v, %v", got, err)
	}
}

// What SHOW CONFIG of the real PgBouncer lists is in the schema, with its default and in force at a reload when the
// program says so, or reserved.
func TestPoolerParametersAreComplete(t *testing.T) {
	b := loadPostgreSQL(t)
	c, _ := b.Component("pooler")
	parameters := b.Parameters(c)
	data, err := os.ReadFile(filepath.Join(postgresqlFolder, "testdata", "pgbouncer-1.24.json"))
	if err != nil {
		t.Fatal(err)
	}
	var program []struct {
		Name, Default string
		Changeable    bool
	}
	if err := json.Unmarshal(data, &program); err != nil {
		t.Fatal(err)
	}
	if len(program) < 90 {
		t.Fatalf("the program lists %d parameters", len(program))
	}
	for _, version := range b.Manifest.SupportedVersions {
		known := map[string]bool{}
		for _, setting := range program {
			known[setting.Name] = true
			if parameters.reserved(setting.Name) != "" {
				continue
			}
			if !slices.Contains(parameters.Names(version), setting.Name) {
				t.Errorf("%s: nothing is said of %q", version, setting.Name)
				continue
			}
			if parameters.Dynamic(setting.Name) != setting.Changeable {
				t.Errorf("%s: a reload takes %q over: %v", version, setting.Name, setting.Changeable)
			}
			// It does not tell all of them.
			if message := parameters.check(version, setting.Name, setting.Default); message != "" && setting.Default != "" {
				t.Errorf("%s: %s", version, message)
			}
		}
		for _, name := range parameters.Names(version) {
			if !known[name] {
				t.Errorf("%s: the schema has %q, which the program does not know", version, name)
			}
		}
	}
	for _, topology := range b.Components.Topologies {
		if !topology.Has("pooler") || topology.Always("pooler") {
			t.Errorf("in topology %s a pooler is not there on request", topology.Name)
		}
	}
}

// What is wrong with an archive is said in the order of how bad it is, and all of it.
func TestPostgreSQLSaysHowArchivingGoes(t *testing.T) {
	c, _ := loadPostgreSQL(t).Component("postgresql")
	condition := c.Conditions[0]
	for _, want := range []struct {
		archive, reason, level, gap string
		says                        string
	}{
		{says: ""},
		{archive: "Archiving", says: "True Archived the log is archived"},
		{archive: "Waiting", says: "False NothingArchivedYet nothing is archived yet"},
		{archive: "Failing", reason: "no bucket", says: "False ArchivingFails the log cannot be archived: no bucket"},
		{archive: "Failing", says: "False ArchivingFails the log cannot be archived: the log of the pod says why"},
		{archive: "Archiving", gap: "segments A to B",
			says: "False ArchiveHasGap the log is archived; segments A to B: nothing after that"},
		{archive: "Archiving", level: "Warning", says: "False VolumeFillsUp log that is not archived fills the volume"},
		{archive: "Failing", reason: "no bucket", level: "Critical", gap: "segments A to B",
			says: "False VolumeNearlyFull log that is not archived fills the volume"},
	} {
		attributes := map[string]string{"archive": want.archive, "archiveReason": want.reason, "archiveLevel": want.level,
			"archiveGap": want.gap}
		var texts []string
		for _, source := range []string{condition.Status, condition.Reason, condition.Message} {
			text, err := reportexpr.Text(source, "primary", attributes)
			if err != nil {
				t.Fatal(err)
			}
			if texts = append(texts, text); texts[0] == "" {
				break
			}
		}
		if got := strings.Join(texts, " "); !strings.HasPrefix(got, want.says) || (want.says == "") != (got == "") {
			t.Errorf("%v: %s", attributes, got)
		}
	}
}
