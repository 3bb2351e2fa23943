// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// compiled are what the kinds of the database operator make of the inputs of their tests.
func compiled(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "database-operator", "internal", "kind", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no %s (%v)", pattern, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".out.yaml")] = data
	}
	return all
}

// The plugins take all that the kinds compile to.
func TestWhatKindsCompileToIsTaken(t *testing.T) {
	loaded := map[string]Facts{}
	for _, kind := range []string{"redis", "rediscluster", "postgresql"} {
		for name, data := range compiled(t, kind+"/testdata/*.out.yaml") {
			t.Run(kind+"/"+name, func(t *testing.T) {
				app := &platformv1.Application{}
				if err := yaml.UnmarshalStrict(data, app); err != nil {
					t.Fatal(err)
				}
				app.Name, app.Namespace = kind+"-"+name, "shop"
				version := app.Spec.Plugin + " " + app.Spec.PluginVersion
				facts, known := loaded[version]
				if !known {
					facts = loadVersion(t, app.Spec.Plugin, app.Spec.PluginVersion)
					facts.Classes["fast"], loaded[version] = true, facts
				}
				says(t, "refusals", sentences(Judge(app, nil, func(*platformv1.Application) Facts { return facts }).Refused))
			})
		}
	}
}

// The plugin takes all that a PostgreSQL declares inside.
func TestWhatAPostgreSQLDeclaresInsideIsTaken(t *testing.T) {
	bundle := load(t, "postgresql").State.Bundle
	for name, data := range compiled(t, "postgresql/testdata/entities/*.out.yaml") {
		var specs []platformv1.EntitySpec
		if err := yaml.UnmarshalStrict(data, &specs); err != nil {
			t.Fatal(err)
		}
		for _, spec := range specs {
			_, refusals := Entity(&platformv1.Entity{Spec: spec}, postgresql(3), bundle)
			says(t, name+": "+spec.Type+" "+spec.Name, sentences(refusals))
		}
	}
}

// What is declared inside is refused where it is declared, and what was wrong before does not hold up what is edited
// beside it.
func TestJudgeInside(t *testing.T) {
	state := load(t, "postgresql").State
	extension := func(name string) platformv1.EntitySpec {
		return platformv1.EntitySpec{Type: "extension", Name: "shop/" + name}
	}
	role := platformv1.EntitySpec{Type: "role", Name: "app", Parameters: platformv1.Parameters{"attributes": "superuser"}}
	for name, test := range map[string]struct {
		before, now     []platformv1.EntitySpec
		state           plugin.State
		refused, warned []string
	}{
		"good": {now: []platformv1.EntitySpec{extension("hstore")}, state: state},
		"new and wrong": {now: []platformv1.EntitySpec{extension("hstore"), extension("plpython3u"), role}, state: state,
			refused: []string{`extension "shop/plpython3u": name`, `role "app": parameter "attributes"`}},
		"as before": {before: []platformv1.EntitySpec{role}, now: []platformv1.EntitySpec{extension("hstore"), role},
			state: state, warned: []string{`role "app": `}},
		"no such plugin": {now: []platformv1.EntitySpec{role}},
	} {
		t.Run(name, func(t *testing.T) {
			v := JudgeInside(test.now, test.before, postgresql(3), test.state)
			says(t, "refusals", sentences(v.Refused), test.refused...)
			says(t, "warnings", v.Warnings, test.warned...)
		})
	}
}

func postgresql(pods int32) *platformv1.Application {
	app := testApp()
	app.Spec.Plugin, app.Spec.Version, app.Spec.Topology = "postgresql", "17", "replication"
	return edited(app, replicas(pods))
}

// What a PostgreSQL refuses that its schema cannot.
func TestPostgreSQL(t *testing.T) {
	facts := load(t, "postgresql")
	for name, test := range map[string]struct {
		pods    int32
		edits   []edit
		refused []string
	}{
		"alone":                 {1, nil, nil},
		"with replicas":         {5, nil, nil},
		"too many replicas":     {6, nil, []string{"6 replicas"}},
		"a version that is not": {1, []edit{ofVersion("16")}, []string{`does not support version "16"`}},
		"more copies than replicas": {3, []edit{parameter("synchronous.replicas", "3")},
			[]string{"must be less than the number of pods"}},
		"method": {3, []edit{parameter("synchronous.method", "some")}, []string{"synchronous.method"}},
		"no wait for copies": {3, []edit{parameter("synchronous_commit", "off")},
			[]string{"synchronous_commit cannot be off or local"}},
		"no wait for nobody": {1, []edit{parameter("synchronous_commit", "off")}, nil},
		"no wait, by choice": {3, []edit{parameter("synchronous_commit", "off"),
			parameter("synchronous.replicas", "0")}, nil},
		"a name with a slip": {1, []edit{parameter("shared_bufers", "1GB")},
			[]string{`did you mean "shared_buffers"`}},
		"a size without its unit": {1, []edit{parameter("work_mem", "7")}, []string{"it must be a size"}},
		"out of range":            {1, []edit{parameter("max_connections", "0")}, []string{"max_connections"}},
		"no number":               {1, []edit{parameter("max_connections", "many")}, []string{"many"}},
		"a value with a quote":    {1, []edit{parameter("search_path", "a'; --")}, []string{"search_path"}},
		"a library that is not": {1, []edit{parameter("shared_preload_libraries", "timescaledb")},
			[]string{"shared_preload_libraries"}},
		"a library that is missing": {1, []edit{parameter("auto_explain.log_analyze", "on")},
			[]string{"need it in shared_preload_libraries"}},
		"fsync":                {1, []edit{parameter("fsync", "off")}, []string{"keeps the data safe as it is"}},
		"no size":              {1, []edit{size("-1Gi")}, []string{"-1Gi"}},
		"what the engine sets": {1, []edit{parameter("primary_conninfo", "host=x")}, []string{"is set by the engine"}},
		"archiving": {1, []edit{parameter("archive_command", "true")},
			[]string{"set by archive.* and the credential archive"}},
		"too few senders": {3, []edit{parameter("max_wal_senders", "2")}, []string{"at least 8"}},
		"no connections for clients": {1, []edit{parameter("superuser_reserved_connections", "100")},
			[]string{"must be less than max_connections"}},
		"of another version": {1, []edit{ofVersion("15"), parameter("io_combine_limit", "8kB")},
			[]string{"io_combine_limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(edited(postgresql(test.pods), test.edits...), nil, func(*platformv1.Application) Facts { return facts })
			says(t, "refusals", sentences(v.Refused), test.refused...)
		})
	}
}
