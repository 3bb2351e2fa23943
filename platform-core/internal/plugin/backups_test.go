// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// backedUp is a method as it may be added to the redis plugin.
const backedUp = `    backups:
      - name: rdb
        from: [{role: replica, when: "role != ''"}, {role: primary}]
        command: [redis-cli, -h, "${source.fqdn}", --rdb, "-"]
        facts: [redis-cli, -h, "${source.fqdn}", INFO]
        env:
          - {name: TLS, value: "${app.tls ? '--tls' : ''}"}
          - {name: REDISCLI_AUTH, secret: {credential: default, key: password}}
        restore:
          folder: /data
          command: [load, "${app.version}"]
          env:
            - {name: APPENDONLY, value: "${params['appendonly']}"}
          target:
            parameters:
              log.bucket: {schema: '=~"^[a-z]+$" @allowed("small letters")', description: a bucket}
            credentials: [{name: log}]
        verify: {topology: standalone, operation: Restart, except: [min-replicas-*]}
`

func TestBrokenBackups(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(backedUp, old, new, 1) + probeLine, at: at, says: says}
	}
	run(t, map[string]broken{
		"no command":             c(`[redis-cli, -h, "${source.fqdn}", --rdb, "-"]`, "[]", "command: []", "at least one"),
		"no source":              c(`[{role: replica, when: "role != ''"}, {role: primary}]`, "[]", "from: []", "at least one role"),
		"role unknown":           c("{role: primary}", "{role: leader}", "from: [", `names the role "leader"`),
		"when is no truth":       c("role != ''", "role", "from: [", "must give true or false"),
		"when sees no app":       c("role != ''", "app.tls", "from: [", "known here: role, attributes"),
		"attribute unknown":      c("role != ''", "attributes['colour'] != ''", "from: [", `names the attribute "colour"`),
		"command sees no set":    c("${source.fqdn}", "${set.name}", "command: [redis-cli, -h", "known here: app, source"),
		"a list of words":        c(`"${app.tls ? '--tls' : ''}"`, `"${['--tls']}"`, "- {name: TLS", "gives a list of texts"),
		"secret of another":      c("credential: default", "credential: admin", "- {name: REDISCLI_AUTH", `names the credential of this component "admin"`),
		"value and secret":       c("- {name: REDISCLI_AUTH,", "- {name: REDISCLI_AUTH, value: x,", "- {name: REDISCLI_AUTH", "has a value and a secret"),
		"variable twice":         c("{name: TLS,", "{name: REDISCLI_AUTH,", "- {name: REDISCLI_AUTH, secret", "names must differ"),
		"two of a name":          c("      - name: rdb", "      - {name: rdb, from: [{role: primary}], command: [x]}\n      - name: rdb", "- name: rdb", "names must differ"),
		"no default of two":      c("      - name: rdb", "      - {name: keys, from: [{role: primary}], command: [x]}\n      - name: rdb", "components:", "none is the default"),
		"two defaults":           c("      - name: rdb", "      - {name: keys, default: true, from: [{role: primary}], command: [x]}\n      - name: rdb\n        default: true", "default: true\n        from", "there can be one"),
		"no folder":              c("          folder: /data\n", "", "restore:", "folder"),
		"folder of the root":     c("folder: /data", "folder: data", "folder: data", "the path of a folder"),
		"way back sees no pod":   c("[load, \"${app.version}\"]", "[load, \"${source.fqdn}\"]", "command: [load", "known here: app, component, set, params"),
		"variable of the target": c("{name: APPENDONLY, value", "{name: RESTORE_TARGET, value", "- {name: RESTORE_TARGET", "is taken by the engine"),
		"schema of a target":     c(`'=~"^[a-z]+$" @allowed("small letters")'`, `"colour"`, "log.bucket", "colour"),
		"credential twice":       c("[{name: log}]", "[{name: log}, {name: log}]", "credentials", "names must differ"),
		"way back has a secret":  c("{name: APPENDONLY, value: \"${params['appendonly']}\"}", "{name: APPENDONLY, secret: {credential: default}}", "- {name: APPENDONLY", "secret"),
		"steady of one set":      c("        facts:", "        steady: [tell]\n        facts:", "steady: [tell]", "is for a component that can have several sets"),
		"verify of nowhere":      c("topology: standalone", "topology: alone", "verify:", `names the topology "alone"`),
		"verify by nobody":       c("operation: Restart", "operation: Ask", "verify:", `"Ask"`),
		"verify without":         c("min-replicas-*", "min-slaves-*", "verify:", `no parameter of the schema is called so`),
		"verify with what":       c("except: [min-replicas-*]", "with: {min-slaves: '1'}", "verify:", `is of "min-slaves": no parameter of the schema is called so`),
		"verify no way back":     c(backedUp[strings.Index(backedUp, "        restore:"):strings.Index(backedUp, "        verify:")], "", "verify:", "the method has no restore"),
	})
}

// Where each set has a part of the data, one set after the other is asked by the same words.
func TestBrokenBackupsOfSets(t *testing.T) {
	const membership, says = "    membership:\n      check: look", "uses source, which is another pod for each set"
	inSets := strings.NewReplacer("${source.fqdn}", "$SOURCE", "        verify: {topology: standalone, operation: Restart, except: [min-replicas-*]}\n", "", "        facts:", "        steady: [tell, \"${app.name}\"]\n        facts:").Replace(backedUp)
	for name, test := range map[string]struct{ old, new, says string }{
		"as it is to be":      {},
		"command of a source": {`--rdb, "-"`, `--rdb, "${source.name}"`, says},
		"facts of a source":   {`"$SOURCE", INFO`, `"${source.role == 'x' ? 'a' : 'b'}", INFO`, says},
		"steady of a source":  {"${app.name}", "${source.fqdn}", says},
	} {
		t.Run(name, func(t *testing.T) {
			sources := clusterSources(t)
			edit(t, sources, PartComponents, componentsKey, membership, strings.Replace(inSets, test.old, test.new, 1)+membership)
			_, errs := Load(sources)
			if test.says == "" && len(errs) > 0 || test.says != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), test.says)) {
				t.Errorf("got %v, want one that says %q", errs, test.says)
			}
		})
	}
}

// A drill makes one pod: a topology is none for it that asks for more, or that has no such component.
func TestVerifyTakesATopologyOfOnePod(t *testing.T) {
	for topology, says := range map[string]string{
		"standalone": "", "replication": "",
		"sentinel": `component "redis" has 2 pods at least: a drill makes one`,
		"cluster":  `which has no component "redis", or not always`,
	} {
		sources, errs := LoadFolder(os.DirFS(redisFolder), "redis")
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		added := "        restore: {folder: /data, command: [load]}\n        verify: {topology: " + topology + ", operation: Restart}\n"
		edit(t, sources, PartComponents, components, "        facts:\n", added+"        facts:\n")
		if _, errs := Load(sources); (len(errs) > 0) != (says != "") || says != "" && !strings.Contains(list(errs), says) {
			t.Errorf("%s: it says %s, want %q", topology, list(errs), says)
		}
	}
}

// Backups of a component that always has several sets are verified in an instance with as many, of one pod each.
func TestVerifyTakesTheSetsThatThereAlwaysAre(t *testing.T) {
	const membership, limits = "    membership:\n      check: look", "    replicas: {default: 2, min: 1, max: 5}\n    # A member"
	method := strings.NewReplacer("${source.fqdn}", "$SOURCE", "topology: standalone, operation: Restart, except: [min-replicas-*]", "topology: cluster, operation: Restart",
		"        facts:", "        steady: [tell]\n        facts:").Replace(backedUp)
	for replaced, says := range map[string]string{
		limits: "",
		strings.Replace(limits, "min: 1", "min: 2", 1): `component "node" has 6 pods at least: a drill makes one`,
	} {
		sources := clusterSources(t)
		edit(t, sources, PartComponents, componentsKey, membership, method+membership)
		edit(t, sources, PartComponents, componentsKey, limits, replaced)
		if _, errs := Load(sources); (len(errs) > 0) != (says != "") || says != "" && !strings.Contains(list(errs), says) {
			t.Errorf("it says %s, want %q", list(errs), says)
		}
	}
}

func TestRestoreMethod(t *testing.T) {
	m := RestoreMethod{Folder: "/data", Command: []string{"load", "${app.version}", "$${x}"}, Env: []platformv1.RestoreVariable{{Name: "A", Value: "${'a' in params ? params['a'] : 'none'}"}}}
	for want, values := range map[string]placeholder.Values{"none": {}, "yes": {Params: map[string]string{"a": "yes"}}} {
		values.App.Version = "7.0"
		filled, err := m.Expand(values)
		if err != nil || !slices.Equal(filled.Command, []string{"load", "7.0", "${x}"}) || filled.Env[0].Value != want || m.Command[1] != "${app.version}" {
			t.Errorf("it is %+v, want %q: %v", filled, want, err)
		}
	}
}

func TestBackupMethod(t *testing.T) {
	m := BackupMethod{Name: "rdb", Command: []string{"dump", "${source.fqdn}", "$${x}"}, Facts: []string{"tell", "${app.version}"},
		Env: []JobEnv{{Name: "TLS", Value: "${app.tls ? 'yes' : 'no'}"}}, From: []BackupSource{{Role: "replica", When: "attributes['link'] == 'up'"}, {Role: "primary"}}}
	filled, err := m.Expand(placeholder.Origin{App: placeholder.App{Version: "7.0", TLS: true}, Source: placeholder.Member{FQDN: "a.b"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(filled.Command, []string{"dump", "a.b", "${x}"}) || filled.Facts[1] != "7.0" || filled.Env[0].Value != "yes" || m.Command[1] != "${source.fqdn}" {
		t.Errorf("it is %+v, and the declared one %+v", filled, m)
	}
	for name, tc := range map[string]struct {
		from       BackupSource
		role       string
		attributes map[string]string
		fits       bool
	}{
		"in sync":         {m.From[0], "replica", map[string]string{"link": "up"}, true},
		"not in sync":     {m.From[0], "replica", map[string]string{"link": "down"}, false},
		"another role":    {m.From[0], "primary", map[string]string{"link": "up"}, false},
		"the last resort": {m.From[1], "primary", nil, true},
	} {
		if fits, err := tc.from.Fits(tc.role, tc.attributes); err != nil || fits != tc.fits {
			t.Errorf("%s: %v, %v", name, fits, err)
		}
	}
	if fits, err := m.From[0].Fits("replica", nil); err == nil || fits {
		t.Errorf("an attribute that is not there: %v, %v", fits, err)
	}
}
