// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const good = `about: Test
versionFrom: redis-server
variants:
  - {tag: "7.0", suite: bookworm}
  - {tag: "8.0", suite: trixie, packages: [extra]}
debian:
  packages: [redis-server]
  exclude: ["perl*"]
  prune: [/etc/redis]
users:
  - {name: redis, uid: 999, home: /data}
groups:
  - {name: shared, gid: 44}
directories:
  - {path: /data, mode: 0750, owner: redis}
files:
  - {path: /etc/own, content: "text", owner: "7:8", mode: "0600"}
  - {path: /etc/other, source: other.txt}
symlinks:
  - {target: busybox, directory: /bin, names: [sh, cat]}
binaries:
  - {module: agents, package: ./cmd/agent, path: /agent}
config:
  entrypoint: [redis-server]
  user: redis
  env: {LANG: C}
  ports: [6379/tcp]
`

const base = `debian:
  packages: [libc-bin]
  exclude: [adduser]
  prune: [/usr/share/man]
users:
  - {name: root, uid: 0, home: /root, shell: /bin/sh}
symlinks:
  - {target: busybox, directory: /usr/bin, names: [awk]}
config:
  env: {LANG: C.UTF-8, PATH: /bin}
`

// load writes a base and one image definition called "it", and loads them.
func load(t *testing.T, text string) (Source, Source, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		BaseFileName: base, "it/" + FileName: text, "it/other.txt": "other", "it/pom.xml": "<project/>",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, images, err := Load(dir)
	if err != nil {
		return b, Source{}, err
	}
	return b, images[0], nil
}

func TestImages(t *testing.T) {
	b, source, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	images, err := source.Images(b, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if len(images) != 2 {
		t.Fatalf("got %d images, want 2", len(images))
	}
	second := images[1]
	if second.Reference() != "zeroinfra/it:8.0" || second.ArchiveName() != "it-8.0.tar" ||
		second.Debian.Suite != "trixie" {
		t.Errorf("second variant = %s %s %s", second.Reference(), second.ArchiveName(), second.Debian.Suite)
	}
	for what, lists := range map[string][2][]string{
		"packages of first":  {images[0].Debian.Packages, {"libc-bin", "redis-server"}},
		"packages of second": {second.Debian.Packages, {"libc-bin", "redis-server", "extra"}},
		"exclude":            {second.Debian.Exclude, {"adduser", "perl*"}},
		"prune":              {second.Debian.Prune, {"/usr/share/man", "/etc/redis"}},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s = %q, want %q", what, lists[0], lists[1])
		}
	}
	if second.Config.User != "999:999" || second.Config.Env["LANG"] != "C" || second.Config.Env["PATH"] != "/bin" {
		t.Errorf("config = %+v", second.Config)
	}
	if len(second.Groups) != 3 || second.Groups[2] != (Group{Name: "redis", GID: 999}) {
		t.Errorf("groups = %+v", second.Groups)
	}
	if d := second.Directories[0]; d.Mode != 0o750 || d.UID != 999 {
		t.Errorf("directory = %+v", d)
	}
	if f := second.Files[0]; f.Mode != 0o600 || f.UID != 7 || f.GID != 8 || string(f.Content) != "text" {
		t.Errorf("file = %+v", f)
	}
	if f := second.Files[1]; f.Mode != 0o644 || string(f.Content) != "other" {
		t.Errorf("file from source = %+v", f)
	}
	if !second.Symlinks[0].Yields || second.Symlinks[1].Yields ||
		second.Symlinks[2] != (Link{Path: "/bin/cat", Target: "busybox"}) {
		t.Errorf("symlinks = %+v", second.Symlinks)
	}
}

const jars = `versionFrom: org.test:server
variants:
  - {tag: "1.0", properties: {server: 1.0.1, other: 3}}
  - {tag: "2.0", properties: {server: 2.0.1}}
debian: {suite: bookworm, packages: [java]}
` + jarsMaven

const jarsMaven = "maven: {pom: pom.xml, directory: /opt/libs, properties: {other: 4}}\n"

func TestMavenPropertiesOfVariants(t *testing.T) {
	b, source, err := load(t, jars)
	if err != nil {
		t.Fatal(err)
	}
	list := []byte("list\n")
	if err := os.WriteFile(filepath.Join(source.Dir, "it-2.0.lock"), list, 0o644); err != nil {
		t.Fatal(err)
	}
	images, err := source.Images(b, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	first, second := images[0].Maven, images[1].Maven
	if !maps.Equal(first.Properties, map[string]string{"server": "1.0.1", "other": "3"}) ||
		!maps.Equal(second.Properties, map[string]string{"server": "2.0.1", "other": "4"}) {
		t.Errorf("properties = %q and %q", first.Properties, second.Properties)
	}
	if len(first.Lock) != 0 || !bytes.Equal(second.Lock, list) ||
		string(second.Pom) != "<project/>" || second.Directory != "/opt/libs" {
		t.Errorf("maven = %+v and %+v", first, second)
	}
	if images[1].VersionFrom != "org.test:server" || images[1].LockName() != "it-2.0.lock" {
		t.Errorf("version from %q, list %q", images[1].VersionFrom, images[1].LockName())
	}
}

func TestVersionFromIsTheFirstPackageOfAVariant(t *testing.T) {
	b, source, err := load(t, `variants:
  - {tag: "17", suite: trixie, packages: [postgresql-17]}
  - {tag: "1", suite: trixie}
debian: {packages: [common]}
`)
	if err != nil {
		t.Fatal(err)
	}
	images, err := source.Images(b, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if images[0].VersionFrom != "postgresql-17" || images[1].VersionFrom != "common" {
		t.Errorf("versions come from %q and %q", images[0].VersionFrom, images[1].VersionFrom)
	}
}

// TestImagesAreTheSameEachTime matters because the JSON of an image tells whether to build it.
func TestImagesAreTheSameEachTime(t *testing.T) {
	b, source, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for range 10 {
		images, err := source.Images(b, "0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(images)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(data)
		}
		if string(data) != want {
			t.Fatal("one definition gave two different images")
		}
	}
}

// TestParseRefuses changes one thing in the good definition and expects the line of the change.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"about: Test", "abuot: Test", `x.yaml:1: unknown field "abuot"`},
		{"suite: bookworm}", "sweet: bookworm}", `x.yaml:4: unknown field "sweet"`},
		{"suite: bookworm}", "suite: buster}", "x.yaml:4: variants[0].suite: "},
		{"suite: bookworm}", "suite: }", "x.yaml:4: variants[0].suite: "},
		{`tag: "8.0"`, `tag: "7.0"`, "x.yaml:5: variants[1].tag: "},
		{`tag: "8.0"`, `tag: "a b"`, "x.yaml:5: variants[1].tag: "},
		{"[redis-server]\n  exclude", "[redis-server]\n  also: [woody]\n  exclude", "x.yaml:8: debian.also[0]: "},
		{"[redis-server]\n  exclude", "[Redis]\n  exclude", "x.yaml:7: debian.packages[0]: "},
		{`"perl*"`, `"perl["`, "x.yaml:8: debian.exclude[0]: "},
		{"[/etc/redis]", "[etc/redis]", "x.yaml:9: debian.prune[0]: "},
		{"uid: 999,", "uid: abc,", "x.yaml:11: cannot unmarshal"},
		{"name: redis, uid", "name: Red, uid", "x.yaml:11: users[0].name: "},
		{"home: /data}", "home: \"/a:b\"}", "x.yaml:11: users[0]: "},
		{"mode: 0750", "mode: 0780", `x.yaml:15: mode "0780"`},
		{"path: /data,", "path: /data/../etc,", "x.yaml:15: directories[0].path: "},
		{`content: "text"`, `source: ../x, content: "text"`, "x.yaml:17: files[0]: "},
		{"source: other.txt", "source: ../other.txt", "x.yaml:18: files[1].source: "},
		{"names: [sh, cat]", "names: [sh, a/b]", "x.yaml:20: symlinks[0].names[1]: "},
		{"target: busybox, ", "", "x.yaml:20: symlinks[0].target: must be given"},
		{"module: agents", "module: /agents", "x.yaml:22: binaries[0].module: "},
		{"./cmd/agent", "cmd/agent", "x.yaml:22: binaries[0].package: "},
		{"[6379/tcp]", "[6379]", "x.yaml:27: config.ports[0]: "},
		{"user: redis\n", "user: \"a b\"\n", "x.yaml:25: config.user: "},
		{"about: Test", "about: Test\nabout: Twice", "x.yaml:2: mapping key \"about\" already defined"},
		{"about: Test", "about: [", "x.yaml:"},
		{"ports: [6379/tcp]\n", "ports: [6379/tcp]\n---\nabout: second\n", "x.yaml:28: one file holds one definition"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q is not in the good definition", c.old)
		}
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %q instead of %q: error %v, want %q", c.new, c.old, err, c.want)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"pom: pom.xml, ", "", "x.yaml:6: maven.pom: must be given"},
		{"pom: pom.xml", "pom: ../pom.xml", "x.yaml:6: maven.pom: "},
		{"directory: /opt/libs", "directory: libs", "x.yaml:6: maven.directory: "},
		{"other: 4", "other: 4 5", "x.yaml:6: maven.properties.other: "},
		{"directory: /opt/libs", "directory: /opt/libs, unpack: ['[']", "x.yaml:6: maven.unpack[0]: "},
		{"server: 1.0.1", "-server: 1.0.1", "x.yaml:3: variants[0].properties.-server: "},
		{"debian: {suite: bookworm, packages: [java]}\n", "", "maven: needs a debian part"},
		{jarsMaven, "", "x.yaml:4: variants[1].properties: only images with a maven"},
		{jarsMaven, "", "x.yaml:1: versionFrom: only images with a maven"},
	} {
		text := strings.Replace(jars, c.old, c.new, 1)
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %q instead of %q: error %v, want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := Parse("x.yaml", nil); err == nil || !strings.HasPrefix(err.Error(), "x.yaml:1: ") {
		t.Errorf("empty definition: %v", err)
	}
}

func TestImagesRefuses(t *testing.T) {
	for _, c := range []struct{ text, version, want string }{
		{"about: nothing\n", "1", "give debian, binaries, or both"},
		{"debian: {packages: [a1]}\n", "1", "debian.suite must be given"},
		{"debian: {base: none, suite: sid}\n", "1", "debian.packages must be given"},
		{"binaries: [{module: a, package: ., path: /a}]\nconfig: {user: ghost}\n", "1", `"ghost" is not declared`},
		{"binaries: [{module: a, package: ., path: /a}]\n", "1+2", `"1+2" cannot be the tag`},
		{"binaries: [{module: a, package: ., path: /a}]\nfiles: [{path: /b, source: gone}]\n", "1", "cannot read source"},
	} {
		b, source, err := load(t, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.Images(b, c.version); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

// TestOwnDefinitions reads every definition of this repository.
func TestOwnDefinitions(t *testing.T) {
	b, sources, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, source := range sources {
		images, err := source.Images(b, "0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			seen[image.Reference()] = true
			if image.Maven != nil && len(image.Maven.Lock) == 0 {
				t.Errorf("%s has no list of its Maven artifacts: run \"images lock %s:%s\"",
					image.Reference(), image.Name, image.Tag)
			}
			if image.About == "" || image.Config.User == "" || strings.HasPrefix(image.Config.User, "0:") {
				t.Errorf("%s has about %q and user %q: it needs a description and a user that is not root",
					image.Reference(), image.About, image.Config.User)
			}
		}
	}
	for _, want := range []string{
		"redis:7.0", "redis:8.0", "kafka:3.9", "kafka:4.3", "kafka:4.4",
		"agent:0.1.0", "database-operator:0.1.0", "storage-operator:0.1.0", "message-operator:0.1.0",
		"model-operator:0.1.0", "common-operator:0.1.0", "batch-operator:0.1.0",
	} {
		if !seen["zeroinfra/"+want] {
			t.Errorf("no definition makes zeroinfra/%s", want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(base)
	f.Add(jars)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Parse("x.yaml", []byte(text)); err != nil && !strings.HasPrefix(err.Error(), "x.yaml:") {
			t.Fatalf("error without a place: %v", err)
		}
	})
}
