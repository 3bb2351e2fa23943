// SPDX-License-Identifier: Apache-2.0

package planfile_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// pod makes the folders of a pod with one credential.
func pod(t *testing.T) planfile.Dirs {
	t.Helper()
	root := t.TempDir()
	d := planfile.Dirs{Plan: filepath.Join(root, "plan"), Config: filepath.Join(root, "config"),
		Run: filepath.Join(root, "run"), Secrets: filepath.Join(root, "secrets"), PodName: "redis-orders-2"}
	for _, dir := range []string{d.Plan, d.Config, d.Run, filepath.Join(d.Secrets, "default")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(d.Secrets, "default", "password"), "hunter2")
	return d
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func digest(number int) string { return fmt.Sprintf("sha256:%064x", number) }

func valid(d planfile.Dirs, number int) *plan.Plan {
	return &plan.Plan{
		Version: 1,
		Digest:  digest(number),
		Process: plan.Process{
			Command: []string{"redis-server", d.Config + "/redis.conf"},
			Env: []plan.EnvVar{{Name: "A", Value: "1"},
				{Name: "PASSWORD", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}},
			Reload:  &plan.Reload{Signal: "SIGHUP"},
			Signals: []string{"SIGHUP"},
		},
		Files: []plan.File{{Path: d.Config + "/redis.conf", Format: plan.FormatRedis, Mode: "0640", Entries: []plan.Entry{
			{Key: "requirepass", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}}}},
		Probe: plan.Probe{Command: []string{"redis-cli", "ping"}},
	}
}

func encode(t *testing.T, p *plan.Plan) []byte {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mount(t *testing.T, d planfile.Dirs, p *plan.Plan) {
	t.Helper()
	write(t, d.MountedPath(), string(encode(t, p)))
}

func TestValidPlan(t *testing.T) {
	d := pod(t)
	p, err := d.Parse(encode(t, valid(d, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if p.Digest != digest(1) || p.Process.Command[0] != "redis-server" {
		t.Errorf("got %+v", p)
	}
}

func TestFieldsOfANewerEngineAreIgnored(t *testing.T) {
	d := pod(t)
	data := strings.Replace(string(encode(t, valid(d, 1))), `"version":1`, `"version":1,"later":{"a":[1]}`, 1)
	if _, err := d.Parse([]byte(data)); err != nil {
		t.Error(err)
	}
}

// logs gives a plan access logs that are good but for one thing.
func logs(spoil func(*plan.Logs)) func(*plan.Plan) {
	return func(p *plan.Plan) {
		p.Logs = &plan.Logs{Dir: "/log", Files: []string{"access.log"}, MaxBytes: 1 << 20, Signal: "SIGUSR1"}
		spoil(p.Logs)
	}
}

func TestPlansThatAreRefused(t *testing.T) {
	d := pod(t)
	for _, test := range []struct {
		name   string
		change func(*plan.Plan)
		want   string
	}{
		{"version", func(p *plan.Plan) { p.Version = 2 }, "version is 2"},
		{"digest", func(p *plan.Plan) { p.Digest = "sha256:12" }, "64 hexadecimal digits"},
		{"no command", func(p *plan.Plan) { p.Process.Command = nil }, "process: the command is empty"},
		{"empty command", func(p *plan.Plan) { p.Process.Command = []string{""} }, "the command is empty"},
		{"NUL in the command", func(p *plan.Plan) { p.Process.Command[1] = "\x00" }, "NUL"},
		{"variable name", func(p *plan.Plan) { p.Process.Env[0].Name = "A=B" }, `"A=B"`},
		{"NUL in a variable", func(p *plan.Plan) { p.Process.Env[0].Value = "\x00" }, "NUL"},
		{"value and secret", func(p *plan.Plan) { p.Process.Env[1].Value = "x" }, "give one"},
		{"secret outside", func(p *plan.Plan) { p.Process.Env[1].Secret.Key = "../../token" }, "not a credential and a key"},
		{"secret empty", func(p *plan.Plan) { p.Files[0].Entries[0].Secret = &plan.SecretRef{} },
			"not a credential and a key"},
		{"relative folder", func(p *plan.Plan) { p.Process.Dir = "data" }, "not absolute"},
		{"stop signal", func(p *plan.Plan) { p.Process.Stop.Signal = "TERM" }, `signal "TERM" is unknown`},
		{"allowed signal", func(p *plan.Plan) { p.Process.Signals = []string{"SIGFOO"} }, "SIGFOO"},
		{"reload signal", func(p *plan.Plan) { p.Process.Reload.Signal = "HUP" }, "HUP"},
		{"reload twice", func(p *plan.Plan) { p.Process.Reload.Command = []string{"x"} }, "reload needs one of"},
		{"reload twice, each", func(p *plan.Plan) { p.Process.Reload.Each = []string{"x"} }, "reload needs one of"},
		{"reload empty", func(p *plan.Plan) { p.Process.Reload.Signal = "" }, "reload needs one of"},
		{"reload command", func(p *plan.Plan) { p.Process.Reload = &plan.Reload{Command: []string{""}} },
			"reload: the command is empty"},
		{"reload each", func(p *plan.Plan) { p.Process.Reload = &plan.Reload{Each: []string{"a\x00"}} }, "NUL"},
		{"logs in a relative folder", logs(func(l *plan.Logs) { l.Dir = "log" }), `logs: folder "log" is not absolute`},
		{"no logs", logs(func(l *plan.Logs) { l.Files = nil }), "there are no files"},
		{"logs outside", logs(func(l *plan.Logs) { l.Files = []string{"../x"} }), `file "../x" is not the name`},
		{"no room for logs", logs(func(l *plan.Logs) { l.MaxBytes = 0 }), "maxBytes is 0"},
		{"signal of logs", logs(func(l *plan.Logs) { l.Signal = "" }), "logs: signal"},
		{"restart digest", func(p *plan.Plan) { p.RestartDigest = "x" }, "restartDigest"},
		{"unknown pod text", func(p *plan.Plan) { p.Process.Command[1] = "${pod.ip}" },
			`process: command: "${pod.ip}" is unknown`},
		{"pod text without a closing brace", func(p *plan.Plan) { p.Process.Env[0].Value = "${pod.name" },
			`process: variable "A"`},
		{"pod text in a file", func(p *plan.Plan) { p.Files[0].Entries[0].Args = []string{"${HOME}"} },
			`setting "requirepass": "${HOME}" is unknown`},
		{"pod text of the probe", func(p *plan.Plan) { p.Probe.Command[1] = "${}" }, "probe: command"},
		{"no domain", func(p *plan.Plan) { p.Domain, p.Process.Command[1] = "", "${pod.fqdn}" }, "no domain"},
		{"expanded folder", func(p *plan.Plan) { p.Process.Dir = "${pod.name}/x" }, `"redis-orders-2/x" is not absolute`},
		{"negative timeout", func(p *plan.Plan) { p.Process.Stop.TimeoutSeconds = -1 }, "stop.timeoutSeconds is -1"},
		{"negative interval", func(p *plan.Plan) { p.Probe.IntervalSeconds = -1 }, "probe: intervalSeconds"},
		{"timeout of the probe", func(p *plan.Plan) {
			p.Probe.HTTP = &plan.HTTPProbe{Port: 80, Path: "/", TimeoutSeconds: -1}
		}, "probe: http.timeoutSeconds"},
		{"port of the probe", func(p *plan.Plan) { p.Probe = plan.Probe{HTTP: &plan.HTTPProbe{Port: 65536, Path: "/"}} },
			"probe: http.port is 65536"},
		{"path of the probe", func(p *plan.Plan) { p.Probe = plan.Probe{HTTP: &plan.HTTPProbe{Port: 80, Path: "x"}} },
			`probe: http.path is "x"`},
		{"probe command", func(p *plan.Plan) { p.Probe.Command = []string{""} }, "probe: the command is empty"},
		{"file outside", func(p *plan.Plan) { p.Files[0].Path = "/etc/passwd" }, "below"},
		{"file above", func(p *plan.Plan) { p.Files[0].Path = d.Config + "/../x" }, "below"},
		{"file is the folder", func(p *plan.Plan) { p.Files[0].Path = d.Config }, "below"},
		{"file twice", func(p *plan.Plan) { p.Files = append(p.Files, p.Files[0]) }, "twice"},
		{"format", func(p *plan.Plan) { p.Files[0].Format = "toml" }, `format "toml" is unknown`},
		{"mode", func(p *plan.Plan) { p.Files[0].Mode = "rw" }, "octal"},
		{"mode with set-uid", func(p *plan.Plan) { p.Files[0].Mode = "4755" }, "octal"},
		{"mode that nobody reads", func(p *plan.Plan) { p.Files[0].Mode = "0" }, "octal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := valid(d, 1)
			test.change(p)
			if _, err := d.Parse(encode(t, p)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := d.Parse([]byte("{")); err == nil {
		t.Error("broken JSON was taken")
	}
}

// TestADriverLeavesThePodBySettingsAlone: an address is within the pod, and settings are for a protocol of what is
// never there.
func TestADriverLeavesThePodBySettingsAlone(t *testing.T) {
	d := pod(t)
	there := map[string]string{plan.SettingEndpoint: "https://s3.example.com", plan.SettingRegion: "eu-1",
		plan.SettingAddressing: "path"}
	key := &plan.SecretRef{Credential: "default", Key: "password"}
	for title, c := range map[string]struct {
		driver plan.Driver
		want   string
	}{
		"in the pod": {plan.Driver{Protocol: plan.ProtocolRedis, Address: "127.0.0.1:6379"}, ""},
		"elsewhere": {plan.Driver{Protocol: plan.ProtocolS3, Settings: there, Account: key, Password: key, CA: key},
			""},
		"out of the pod": {plan.Driver{Protocol: plan.ProtocolRedis, Address: "10.0.0.7:6379"},
			"is not one within the pod"},
		"settings in the pod": {plan.Driver{Protocol: plan.ProtocolRedis, Address: "127.0.0.1:6379", Settings: there},
			"is not one within the pod"},
		"settings for it": {plan.Driver{Protocol: plan.ProtocolMinIO, Settings: there}, "is not one within the pod"},
		"an address as well": {plan.Driver{Protocol: plan.ProtocolS3, Address: "127.0.0.1:9000", Settings: there},
			"no address"},
		"too few settings": {plan.Driver{Protocol: plan.ProtocolS3,
			Settings: map[string]string{plan.SettingEndpoint: "https://a"}}, "it needs [addressing endpoint region]"},
		"an authority beside": {plan.Driver{Protocol: plan.ProtocolS3, Settings: there,
			CA: &plan.SecretRef{Credential: "../default", Key: "password"}}, "driver: "},
	} {
		p := valid(d, 1)
		p.Driver = &c.driver
		_, err := d.Parse(encode(t, p))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", title, err, c.want)
		}
	}
}

func TestWhichPlanIsCurrent(t *testing.T) {
	d := pod(t)
	current := func(want int) {
		t.Helper()
		p, err := d.Current()
		if err != nil || p.Digest != digest(want) {
			t.Errorf("got %+v, %v; want plan %d", p, err, want)
		}
	}
	if _, err := d.Current(); err == nil || !strings.Contains(err.Error(), "plan.json") {
		t.Errorf("nothing is mounted: got %v", err)
	}
	mount(t, d, valid(d, 1))
	current(1)
	if err := d.Push(valid(d, 2)); err != nil {
		t.Fatal(err)
	}
	current(2)
	write(t, d.MountedPath(), "{")
	current(2)
	mount(t, d, valid(d, 3))
	current(3)
	// Back to the plan that was mounted when the other came: that is what the record says, and it is the same situation.
	mount(t, d, valid(d, 1))
	current(2)
	if err := os.Remove(d.MountedPath()); err != nil {
		t.Fatal(err)
	}
	current(2)
}

func TestPushWithoutAMountedPlan(t *testing.T) {
	d := pod(t)
	if err := d.Push(valid(d, 2)); err != nil {
		t.Fatal(err)
	}
	if p, err := d.Current(); err != nil || p.Digest != digest(2) {
		t.Errorf("got %+v, %v", p, err)
	}
	mount(t, d, valid(d, 1))
	if p, err := d.Current(); err != nil || p.Digest != digest(1) {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestBrokenPushedPlanIsNoObstacle(t *testing.T) {
	d := pod(t)
	mount(t, d, valid(d, 1))
	write(t, filepath.Join(d.Run, "pushed-plan.json"), "{")
	if p, err := d.Current(); err != nil || p.Digest != digest(1) {
		t.Errorf("got %+v, %v", p, err)
	}
	if err := os.Remove(d.MountedPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Current(); err == nil || !strings.Contains(err.Error(), "pushed-plan.json") ||
		!strings.Contains(err.Error(), "plan.json") {
		t.Errorf("got %v", err)
	}
}

func TestEnviron(t *testing.T) {
	d := pod(t)
	got, err := planfile.Environ([]string{"A=old", "B=2", "PATH=/bin"}, valid(d, 1).Process.Env, d.Secret)
	if want := []string{"B=2", "PATH=/bin", "A=1", "PASSWORD=hunter2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	write(t, filepath.Join(d.Secrets, "default", "password"), "a\x00b")
	if _, err := planfile.Environ(nil, valid(d, 1).Process.Env, d.Secret); err == nil ||
		strings.Contains(err.Error(), "a\x00b") {
		t.Errorf("got %v", err)
	}
}

func TestPrepareReadsEverythingAndWriteWritesIt(t *testing.T) {
	d := pod(t)
	t.Setenv("FROM_CONTAINER", "yes")
	p := valid(d, 1)
	p.Files = append(p.Files, plan.File{Path: d.Config + "/deep/er/x.env", Format: plan.FormatEnv,
		Entries: []plan.Entry{{Key: "X", Args: []string{"1"}}}})
	prepared, err := d.Prepare(p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(prepared.Environ, "FROM_CONTAINER=yes") ||
		!slices.Contains(prepared.Environ, "PASSWORD=hunter2") ||
		!slices.Contains(prepared.ReloadEnviron, "FROM_CONTAINER=yes") {
		t.Errorf("environments are %q and %q", prepared.Environ, prepared.ReloadEnviron)
	}
	if _, err := os.Stat(d.Config + "/redis.conf"); err == nil {
		t.Error("Prepare wrote a file")
	}
	if err := prepared.Write(nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		content string
		mode    fs.FileMode
	}{d.Config + "/redis.conf": {"requirepass hunter2\n", 0o640}, d.Config + "/deep/er/x.env": {"X=1\n", 0o600}} {
		got, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(got) != want.content || info.Mode().Perm() != want.mode {
			t.Errorf("%s: got %q, %v, %v, %v", path, got, info.Mode(), err, statErr)
		}
	}
	fewer, err := d.Prepare(valid(d, 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := fewer.Write(prepared); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Config + "/deep/er/x.env"); err == nil {
		t.Error("the file that the plan has no more is still there")
	}
}

func TestPrepareFailsBeforeAnythingIsWritten(t *testing.T) {
	d := pod(t)
	for name, test := range map[string]struct {
		change func(*plan.Plan)
		want   string
	}{
		"environment": {func(p *plan.Plan) { p.Process.Env[1].Secret.Key = "missing" }, "default/missing"},
		"reload": {func(p *plan.Plan) {
			p.Process.Reload.Env = []plan.EnvVar{{Name: "X", Secret: &plan.SecretRef{Credential: "no", Key: "k"}}}
		}, "no/k"},
		"file":    {func(p *plan.Plan) { p.Files[0].Entries[0].Secret.Credential = "other" }, "other/password"},
		"setting": {func(p *plan.Plan) { p.Files[0].Entries = []plan.Entry{{Key: "save"}} }, `"save"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid(d, 1)
			test.change(p)
			if _, err := d.Prepare(p); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if entries, err := os.ReadDir(d.Config); err != nil || len(entries) != 0 {
				t.Errorf("files were written: %v, %v", entries, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	d := planfile.Dirs{Config: plan.ConfigDir}
	data, err := json.Marshal(valid(d, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(
		`{"version":1,"digest":"sha256:00","process":{"command":["a"]},"files":[{"path":"/zeroinfra/config/../x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := d.Parse(data)
		if err != nil {
			return
		}
		for _, file := range p.Files {
			if rel, err := filepath.Rel(plan.ConfigDir, file.Path); err != nil || strings.HasPrefix(rel, "..") || rel == "." {
				t.Errorf("file %q is outside", file.Path)
			}
		}
		if len(p.Process.Command) == 0 {
			t.Error("a plan without a command was taken")
		}
	})
}
