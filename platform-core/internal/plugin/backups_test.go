// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
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
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(backedUp, old, new, 1) +
			probeLine, at: at, says: says}
	}
	run(t, map[string]broken{
		"no command": c(`[redis-cli, -h, "${source.fqdn}", --rdb, "-"]`, "[]", "command: []", "at least one"),
		"no source": c(`[{role: replica, when: "role != ''"}, {role: primary}]`, "[]", "from: []",
			"at least one role"),
		"role unknown":        c("{role: primary}", "{role: leader}", "from: [", `names the role "leader"`),
		"when is no truth":    c("role != ''", "role", "from: [", "must give true or false"),
		"when sees no app":    c("role != ''", "app.tls", "from: [", "known here: role, attributes"),
		"attribute unknown":   c("role != ''", "attributes['colour'] != ''", "from: [", `names the attribute "colour"`),
		"command sees no set": c("${source.fqdn}", "${set.name}", "command: [redis-cli, -h", "known here: app, source"),
		"a list of words":     c(`"${app.tls ? '--tls' : ''}"`, `"${['--tls']}"`, "- {name: TLS", "gives a list of texts"),
		"secret of another": c("credential: default", "credential: admin", "- {name: REDISCLI_AUTH",
			`names the credential of this component "admin"`),
		"value and secret": c("- {name: REDISCLI_AUTH,", "- {name: REDISCLI_AUTH, value: x,", "- {name: REDISCLI_AUTH",
			"has a value and a secret"),
		"variable twice": c("{name: TLS,", "{name: REDISCLI_AUTH,", "- {name: REDISCLI_AUTH, secret",
			"names must differ"),
		"two of a name": c("      - name: rdb",
			"      - {name: rdb, from: [{role: primary}], command: [x]}\n      - name: rdb", "- name: rdb", "names must differ"),
		"no default of two": c("      - name: rdb",
			"      - {name: keys, from: [{role: primary}], command: [x]}\n      - name: rdb", "components:",
			"none is the default"),
		"two defaults": c("      - name: rdb", "      - {name: keys, default: true, from: [{role: primary}], "+
			"command: [x]}\n      - name: rdb\n        default: true", "default: true\n        from", "there can be one"),
		"no folder":          c("          folder: /data\n", "", "restore:", "folder"),
		"folder of the root": c("folder: /data", "folder: data", "folder: data", "the path of a folder"),
		"way back sees no pod": c("[load, \"${app.version}\"]", "[load, \"${source.fqdn}\"]", "command: [load",
			"known here: app, component, set, params"),
		"variable of the target": c("{name: APPENDONLY, value", "{name: RESTORE_TARGET, value", "- {name: RESTORE_TARGET",
			"is taken by the engine"),
		"schema of a target": c(`'=~"^[a-z]+$" @allowed("small letters")'`, `"colour"`, "log.bucket", "colour"),
		"credential twice":   c("[{name: log}]", "[{name: log}, {name: log}]", "credentials", "names must differ"),
		"way back has a secret": c("{name: APPENDONLY, value: \"${params['appendonly']}\"}",
			"{name: APPENDONLY, secret: {credential: default}}", "- {name: APPENDONLY", "secret"),
		"versions of a word": c("          folder: /data\n", "          folder: /data\n          versions: Newer\n",
			"versions: Newer", "Later"),
		"steady of one set": c("        facts:", "        steady: [tell]\n        facts:", "steady: [tell]",
			"is for a component that can have several sets"),
		"verify of nowhere": c("topology: standalone", "topology: alone", "verify:", `names the topology "alone"`),
		"verify by nobody":  c("operation: Restart", "operation: Ask", "verify:", `"Ask"`),
		"verify without":    c("min-replicas-*", "min-slaves-*", "verify:", `no parameter of the schema is called so`),
		"verify with what": c("except: [min-replicas-*]", "with: {min-slaves: '1'}", "verify:",
			`is of "min-slaves": no parameter of the schema is called so`),
		"verify no way back": c(backedUp[strings.Index(backedUp, "        restore:"):strings.Index(backedUp,
			"        verify:")], "", "verify:", "the method has no restore"),
	})
}

// snapshotted is a method as it may be added to the redis plugin, by an action that has the server keep still.
const snapshotted = `    actions:
      - {name: freeze, command: [x]}
      - {name: thaw, command: [x]}
      - {name: say, command: [x, "${parameters.word}"], parameters: {word: string}}
    backups:
      - name: snapshot
        from: [{role: primary}]
        snapshot: {freeze: freeze, thaw: thaw, holdSeconds: 60}
        restore: {folder: /data, command: [clean]}
`

func TestBrokenSnapshotMethods(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(snapshotted, old, new, 1) +
			probeLine, at: at, says: says}
	}
	const method = "snapshot: {freeze: freeze, thaw: thaw, holdSeconds: 60}"
	run(t, map[string]broken{
		"neither": c("        "+method+"\n", "", "- name: snapshot",
			"must have one of command, snapshot, objects and files"),
		"both": c(method, method+"\n        command: [x]", "- name: snapshot",
			"must have one of command, snapshot, objects and files"),
		"facts of a command": c(method, method+"\n        facts: [x]", "facts: [x]", "take it out"),
		"variables":          c(method, method+"\n        env: [{name: A, value: b}]", "env: [", "take it out"),
		"freeze of nobody": c("freeze: freeze", "freeze: stop", "snapshot: {freeze",
			`names the action of this component "stop"`),
		"thaw of nobody": c("thaw: thaw", "thaw: go", "snapshot: {freeze", `names the action of this component "go"`),
		"freeze that asks": c("freeze: freeze", "freeze: say", "snapshot: {freeze",
			`names "say", which takes parameters`),
		"thaw of nothing": c("freeze: freeze, ", "", "snapshot: {thaw", "ends what freeze begins"),
		"held for long":   c("holdSeconds: 60", "holdSeconds: 6000", "snapshot: {freeze", "600"),
		"into a later version": c("folder: /data,", "folder: /data, versions: Later,", "restore: {",
			"has target, or versions: Later"),
		"restore to some point": c("folder: /data,", "folder: /data, target: {},", "restore: {",
			"has target, or versions: Later"),
	})
}

// filed is a method that carries files.
const filed = `    backups:
      - name: files
        files: {folder: /data, exclude: ["*.tmp"]}
        restore: {folder: /data}
`

func TestBrokenBackupsOfFiles(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(filed, old, new, 1) +
			probeLine, at: at, says: says}
	}
	const files = `files: {folder: /data, exclude: ["*.tmp"]}`
	run(t, map[string]broken{
		"no folder": c(files, "files: {}", "files: {}", "folder"),
		"a command beside it": c(files, files+"\n        command: [x]", "- name: files",
			"must have one of command, snapshot, objects and files"),
		"facts of a command": c(files, files+"\n        facts: [x]", "facts: [x]", "take it out"),
		"variables":          c(files, files+"\n        env: [{name: A, value: b}]", "env: [", "take it out"),
		"to another folder": c("restore: {folder: /data}", "restore: {folder: /other}", "restore: {",
			"is of files, and has another folder"),
		"restored by a command": c("restore: {folder: /data}", "restore: {folder: /data, command: [x]}", "restore: {",
			"is of files, and has another folder"),
		"restored to some point": c("restore: {folder: /data}", "restore: {folder: /data, target: {}}", "restore: {",
			"is of files, and has another folder"),
	})
}

// objects is a method that carries the objects of a storage.
const objects = `    backups:
      - name: objects
        objects: Incremental
        env:
          - {name: S3_ENDPOINT, value: "http://${source.fqdn}:9000"}
          - {name: S3_ACCESS_KEY, secret: {credential: default, key: username}}
          - {name: S3_SECRET_KEY, secret: {credential: default, key: password}}
        restore:
          env:
            - {name: S3_ENDPOINT, value: "http://${app.name}:9000"}
            - {name: S3_ACCESS_KEY, credential: default, key: username}
            - {name: S3_SECRET_KEY, credential: default, key: password}
`

func TestBrokenBackupsOfObjects(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(objects, old, new, 1) +
			probeLine, at: at, says: says}
	}
	run(t, map[string]broken{
		"another mode": c("Incremental", "Half", "objects: Half", "Full"),
		"a command beside it": c("        env:\n          - {name: S3_END",
			"        command: [x]\n        env:\n          - {name: S3_END", "- name: objects",
			"must have one of command, snapshot, objects and files"),
		"facts beside it": c("        env:\n          - {name: S3_END",
			"        facts: [x]\n        env:\n          - {name: S3_END", "- name: objects",
			"has objects, and facts or steady beside it"),
		"a command of no pods": c("        objects: Incremental\n", "        command: [x]\n", "- name: objects",
			"has no from"),
		"no place": c("S3_ENDPOINT", "S3_URL", "- name: objects", "has objects, and no variable S3_ENDPOINT"),
		"no key for the way": c("{name: S3_SECRET_KEY, credential", "{name: S3_KEY, credential", "restore:",
			"is of objects, and has no variable S3_SECRET_KEY"),
		"a folder of objects": c("        restore:\n", "        restore:\n          folder: /data\n", "restore:",
			"has folder, command or target"),
		"verified by nobody": c("        restore:\n",
			"        verify: {topology: standalone, operation: Look}\n        restore:\n", "verify:",
			`names the template of this plugin "Look"`),
		"credential of another": c("S3_SECRET_KEY, credential: default", "S3_SECRET_KEY, credential: admin",
			"- {name: S3_SECRET_KEY, credential", `names the credential of this component "admin"`),
		"credential and a value": c("S3_ACCESS_KEY, credential: default", "S3_ACCESS_KEY, value: x, credential: default",
			"- {name: S3_ACCESS_KEY, value", "has no value beside it"),
	})
}

// Where each set has a part of the data, one set after the other is asked by the same words.
func TestBrokenBackupsOfSets(t *testing.T) {
	const membership, says = "    membership:\n      check: look", "uses source, which is another pod for each set"
	inSets := strings.NewReplacer("${source.fqdn}", "$SOURCE",
		"        verify: {topology: standalone, operation: Restart, except: [min-replicas-*]}\n", "", "        facts:",
		"        steady: [tell, \"${app.name}\"]\n        facts:").Replace(backedUp)
	for name, test := range map[string]struct{ old, new, says string }{
		"as it is to be":      {},
		"command of a source": {`--rdb, "-"`, `--rdb, "${source.name}"`, says},
		"facts of a source":   {`"$SOURCE", INFO`, `"${source.role == 'x' ? 'a' : 'b'}", INFO`, says},
		"steady of a source":  {"${app.name}", "${source.fqdn}", says},
	} {
		t.Run(name, func(t *testing.T) {
			sources := clusterSources(t)
			edit(t, sources, PartComponents, componentsKey, membership, strings.Replace(inSets, test.old, test.new, 1)+
				membership)
			_, errs := Load(sources)
			if test.says == "" && len(errs) > 0 || test.says != "" &&
				(len(errs) != 1 || !strings.Contains(errs[0].Error(), test.says)) {
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
		const verify, end = "          topology: %s\n          operation: Verify\n          except: [min-replicas-*]\n",
			"        default: true\n"
		edit(t, sources, PartComponents, components, fmt.Sprintf(verify, "standalone")+end, fmt.Sprintf(verify, topology)+end)
		if _, errs := Load(sources); (len(errs) > 0) != (says != "") || says != "" && !strings.Contains(list(errs), says) {
			t.Errorf("%s: it says %s, want %q", topology, list(errs), says)
		}
	}
}

// Backups of a component that always has several sets are verified in an instance with as many, of one pod each.
func TestVerifyTakesTheSetsThatThereAlwaysAre(t *testing.T) {
	const membership, limits = "    membership:\n      check: look",
		"    replicas: {default: 2, min: 1, max: 5}\n    # A member"
	method := strings.NewReplacer("${source.fqdn}", "$SOURCE",
		"topology: standalone, operation: Restart, except: [min-replicas-*]", "topology: cluster, operation: Restart",
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
	m := schema.RestoreMethod{Folder: "/data", Command: []string{"load", "${app.version}", "$${x}"},
		Env: []platformv1.RestoreVariable{{Name: "A", Value: "${'a' in params ? params['a'] : 'none'}"}}}
	for want, values := range map[string]placeholder.Values{"none": {}, "yes": {Params: map[string]string{"a": "yes"}}} {
		values.App.Version = "7.0"
		filled, err := m.Expand(values)
		if err != nil || !slices.Equal(filled.Command, []string{"load", "7.0", "${x}"}) || filled.Env[0].Value != want ||
			m.Command[1] != "${app.version}" {
			t.Errorf("it is %+v, want %q: %v", filled, want, err)
		}
	}
}

func TestBackupMethod(t *testing.T) {
	m := schema.BackupMethod{Name: "rdb", Command: []string{"dump", "${source.fqdn}", "$${x}"},
		Facts: []string{"tell", "${app.version}"},
		Env:   []optemplate.JobEnv{{Name: "TLS", Value: "${app.tls ? 'yes' : 'no'}"}},
		From:  []schema.BackupSource{{Role: "replica", When: "attributes['link'] == 'up'"}, {Role: "primary"}}}
	filled, err := m.Expand(placeholder.Origin{App: placeholder.App{Version: "7.0", TLS: true},
		Source: placeholder.Member{FQDN: "a.b"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(filled.Command, []string{"dump", "a.b", "${x}"}) || filled.Facts[1] != "7.0" ||
		filled.Env[0].Value != "yes" || m.Command[1] != "${source.fqdn}" {
		t.Errorf("it is %+v, and the declared one %+v", filled, m)
	}
	for name, tc := range map[string]struct {
		from       schema.BackupSource
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
