// SPDX-License-Identifier: Apache-2.0

package configfile_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// reader is how the tests read a format back, and which values it may refuse.
type reader struct {
	decode func(string) ([]pair, error)
	// holds says whether the format can hold the value.
	holds func(string) bool
}

func noNUL(value string) bool { return !strings.Contains(value, "\x00") }

func noControl(value string) bool { return !strings.ContainsFunc(value, unicode.IsControl) }

func isLine(value string) bool { return noControl(value) && strings.Trim(value, " ") == value }

func noDollar(value string) bool { return noNUL(value) && !strings.Contains(value, "$") }

var readers = map[plan.Format]reader{
	plan.FormatRedis:      {decodeRedis, noNUL},
	plan.FormatProperties: {decodeProperties, utf8.ValidString},
	plan.FormatEnv:        {decodeEnv, noNUL},
	plan.FormatJSON:       {decodeJSON, utf8.ValidString},
	plan.FormatYAML:       {decodeYAML, utf8.ValidString},
	plan.FormatINI:        {decodeINI, noNUL},
	plan.FormatMySQL:      {decodeMySQL, noNUL},
	plan.FormatPostgreSQL: {decodePostgreSQL, noNUL},
	plan.FormatNginx:      {decodeNginx, noDollar},
	plan.FormatPgBouncer:  {decodePgBouncer, isLine},
	plan.FormatUserList:   {decodeUserList, func(value string) bool { return value != "" && noControl(value) }},
}

// hostile values try to leave their place.
var hostile = []string{
	"", " ", "  two leading and trailing  ", "plain", "1", "yes", "null", "~", "-", "#", "# comment", "a # b", ";x",
	"!include /etc/passwd",
	"a\nrequirepass b", "a\r\nb", "\n", "\r", "\t", "\\", "\\\\", `\n`, `\x00`, `"`, `""`, `'`, `''`, `'"'"'`, `a"b`,
	`a'b`, `a\`, `a\"`, `"a`, `'a`, `"quoted"`, `'quoted'`,
	"$HOME", "$(id)", "`id`", "${x}", "a=b", "a: b", "- a", "[a]", "{a: b}", "key: |\n  text", "&a", "*a", "!!int 1", "@x",
	"%x", ">", "|", "?",
	"\x01\x02\x1f\x7f", "\a\b\v\f", "\u0080\u0085\u00a0", "日本語", "\u2028\u2029\ufeff", "😀", "\U0010ffff", "\ufffe\uffff",
	"a\x00b", "\xff\xfe", "é\xe9",
}

func TestHostileValuesComeBackInEveryFormat(t *testing.T) {
	for _, format := range configfile.Formats() {
		for _, value := range hostile {
			roundTrip(t, format, value)
		}
	}
}

func FuzzEncode(f *testing.F) {
	formats := configfile.Formats()
	for i, value := range hostile {
		f.Add(value, uint8(i))
	}
	f.Fuzz(func(t *testing.T, value string, which uint8) {
		if len(value) > 1000 {
			// Longer ones meet the line limit of ini, which has a test of its own.
			return
		}
		roundTrip(t, formats[int(which)%len(formats)], value)
	})
}

// roundTrip puts the value between two others, so that a value that leaves its place is seen on either side.
func roundTrip(t *testing.T, format plan.Format, value string) {
	t.Helper()
	if format == plan.FormatText {
		wantLines(t, value)
		return
	}
	read := readers[format]
	entries := []plan.Entry{
		{Key: "first", Args: []string{"1st"}},
		{Key: "second", Secret: &plan.SecretRef{Credential: "c", Key: "k"}},
		{Key: "third", Args: []string{"3rd"}},
	}
	data, err := configfile.Encode(format, entries, func(plan.SecretRef) (string, error) { return value, nil })
	if !read.holds(value) {
		if err == nil {
			t.Fatalf("%s: value %q was not refused: %q", format, value, data)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: value %q: %v", format, value, err)
	}
	got, err := read.decode(string(data))
	if err != nil {
		t.Fatalf("%s: value %q: cannot read back %q: %v", format, value, data, err)
	}
	want := []pair{{"first", []string{"1st"}}, {"second", []string{value}}, {"third", []string{"3rd"}}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: value %q came back as %q from %q", format, value, got, data)
	}
}

// wantLines: text has no escapes; a value is lines between the others' lines.
func wantLines(t *testing.T, value string) {
	t.Helper()
	data, err := configfile.Encode(plan.FormatText,
		[]plan.Entry{{Args: []string{"1st", value}}, {Key: "k", Args: []string{"3rd"}}}, nil)
	if !noNUL(value) {
		if err == nil {
			t.Fatalf("text: value %q was not refused: %q", value, data)
		}
		return
	}
	want := "1st\n" + value + "\n3rd\n"
	if strings.HasSuffix(value, "\n") {
		want = "1st\n" + value + "3rd\n"
	}
	if err != nil || string(data) != want {
		t.Fatalf("text: value %q became %q, %v", value, data, err)
	}
}

func TestLayout(t *testing.T) {
	for _, test := range []struct {
		name    string
		format  plan.Format
		entries []plan.Entry
		want    string
	}{
		{"redis: several values, repeated keys", plan.FormatRedis,
			[]plan.Entry{{Key: "save", Args: []string{"900", "1"}}, {Key: "save", Args: []string{""}},
				{Key: "dir", Args: []string{"/my data"}}},
			"save 900 1\nsave \"\"\ndir \"/my data\"\n"},
		{"ini: sections, bare keys", plan.FormatINI,
			[]plan.Entry{{Key: "mysqld.port", Args: []string{"3306"}}, {Key: "client.user", Args: []string{"a b"}},
				{Key: "mysqld.skip-name-resolve"}, {Key: "top", Args: []string{"1"}}},
			"top = 1\n[mysqld]\nport = 3306\nskip-name-resolve\n[client]\nuser = \"a b\"\n"},
		{"yaml: nested, lists, odd keys", plan.FormatYAML,
			[]plan.Entry{{Key: "a.b.c", Args: []string{"1"}}, {Key: "a.on", Args: []string{"x", "y"}},
				{Key: "z", Args: []string{""}}},
			"a:\n  b:\n    c: \"1\"\n  \"on\":\n    - \"x\"\n    - \"y\"\nz: \"\"\n"},
		{"json: lists", plan.FormatJSON,
			[]plan.Entry{{Key: "a.b", Args: []string{"<1>"}}, {Key: "c", Args: []string{"x", "y"}}},
			"{\n  \"a.b\": \"<1>\",\n  \"c\": [\"x\",\"y\"]\n}\n"},
		{"properties: odd keys", plan.FormatProperties,
			[]plan.Entry{{Key: "a b:c", Args: []string{" x "}}}, "a\\ b\\:c=\\ x \n"},
		{"postgresql", plan.FormatPostgreSQL,
			[]plan.Entry{{Key: "search_path", Args: []string{`"$user", 'x'`}}}, "search_path = '\"$user\", ''x'''\n"},
		{"nginx: no value, several, repeated", plan.FormatNginx,
			[]plan.Entry{{Key: "ip_hash"}, {Key: "add_header", Args: []string{"X-A", "b; c {}", "always"}},
				{Key: "add_header", Args: []string{"X-B", `"\'`}}, {Key: "root", Args: []string{""}}},
			"ip_hash;\nadd_header X-A \"b; c {}\" always;\nadd_header X-B \"\\\"\\\\'\";\nroot \"\";\n"},
		{"pgbouncer: settings of the program last", plan.FormatPgBouncer,
			[]plan.Entry{{Key: "listen_port", Args: []string{"6432"}}, {Key: "databases.*", Args: []string{"host=db port=5432"}},
				{Key: "pool_mode", Args: []string{"session"}}},
			"[databases]\n* = host=db port=5432\n[pgbouncer]\nlisten_port = 6432\npool_mode = session\n"},
		{"userlist", plan.FormatUserList, []plan.Entry{{Key: "a", Args: []string{`b" "c`}}}, "\"a\" \"b\"\" \"\"c\"\n"},
		{"text: lines as they are", plan.FormatText,
			[]plan.Entry{{Key: "events", Args: []string{"events {", "    worker_connections 1024;", "}"}},
				{Args: []string{"", "http {\n    include a.conf;\n}\n"}}},
			"events {\n    worker_connections 1024;\n}\n\nhttp {\n    include a.conf;\n}\n"},
		{"empty json", plan.FormatJSON, nil, "{}\n"},
		{"empty nginx", plan.FormatNginx, nil, ""},
		{"empty text", plan.FormatText, nil, ""},
		{"empty yaml", plan.FormatYAML, nil, "{}\n"},
		{"empty redis", plan.FormatRedis, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := configfile.Encode(test.format, test.entries, nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	one := func(key string, args ...string) []plan.Entry { return []plan.Entry{{Key: key, Args: args}} }
	for _, test := range []struct {
		name    string
		format  plan.Format
		entries []plan.Entry
		want    string
	}{
		{"unknown format", "toml", one("a", "b"), `cannot encode format "toml": known are`},
		{"line break in a key", plan.FormatRedis, one("a\nb", "c"), "the key must match"},
		{"comment as a key", plan.FormatRedis, one("#a", "c"), "the key must match"},
		{"include as a key", plan.FormatINI, one("!include", "c"), "the key must match"},
		{"empty key", plan.FormatJSON, one("", "c"), "the key must match"},
		{"no value", plan.FormatRedis, one("a"), "it has no value"},
		{"two values", plan.FormatEnv, one("a", "b", "c"), "holds one per key"},
		{"key twice", plan.FormatProperties, append(one("a", "b"), one("a", "c")...), "twice"},
		{"key twice in other letters", plan.FormatPostgreSQL, append(one("a", "b"), one("A", "c")...), "same setting"},
		{"NUL", plan.FormatRedis, one("a", "\x00"), "NUL"},
		{"not UTF-8", plan.FormatJSON, one("a", "\xff"), "not UTF-8"},
		{"value below a value", plan.FormatYAML, append(one("a", "b"), one("a.b", "c")...), `lies below "a"`},
		{"value above a value", plan.FormatYAML, append(one("a.b", "b"), one("a", "c")...), "settings below it"},
		{"long line", plan.FormatINI, one("a", strings.Repeat("x", 5000)), "bytes"},
		{"dollar in nginx", plan.FormatNginx, one("root", "/srv/$host"), "knows no escape"},
		{"block as a key", plan.FormatNginx, one("server {", "a"), "the key must match"},
		{"directive after a directive", plan.FormatNginx, one("a;b", "c"), "the key must match"},
		{"long word", plan.FormatNginx, one("a", strings.Repeat("\\", 3000)), "bytes"},
		{"include of pgbouncer", plan.FormatPgBouncer, one("%include", "c"), "the key must match"},
		{"another section of pgbouncer", plan.FormatPgBouncer, one("peers.1", "c"), "the key must match"},
		{"line break in pgbouncer", plan.FormatPgBouncer, one("a", "b\nadmin_users = c"), "no escape"},
		{"blank at the end in pgbouncer", plan.FormatPgBouncer, one("a", "b "), "takes off"},
		{"quote in a name of a userlist", plan.FormatUserList, one(`a" "b`, "c"), "the key must match"},
		{"hash as a password", plan.FormatUserList, one("a", "md5"+strings.Repeat("0", 32)), "looks like the hash"},
		{"verifier as a password", plan.FormatUserList, one("a", "SCRAM-SHA-256$4096:x"), "looks like the hash"},
		{"long password", plan.FormatUserList, one("a", strings.Repeat("x", 1000)), "995 bytes"},
		{"line break in a key of text", plan.FormatText, one("a\nb", "c"), "the key must match"},
		{"text without lines", plan.FormatText, one("a"), "it has no value"},
		{"secret in text", plan.FormatText, []plan.Entry{{Key: "a", Secret: &plan.SecretRef{Credential: "c", Key: "k"}}},
			"cannot hold a secret"},
		{"no lookup", plan.FormatRedis, []plan.Entry{{Key: "a", Secret: &plan.SecretRef{Credential: "c", Key: "k"}}}, "c/k"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := configfile.Encode(test.format, test.entries, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, %v; want an error with %q", data, err, test.want)
			}
		})
	}
}

func TestMissingSecretNamesTheSetting(t *testing.T) {
	missing := errors.New("no such secret")
	_, err := configfile.Encode(plan.FormatRedis,
		[]plan.Entry{{Key: "requirepass", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}},
		func(plan.SecretRef) (string, error) { return "", missing })
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), "requirepass") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsKeepSecretsToThemselves(t *testing.T) {
	_, err := configfile.Encode(plan.FormatJSON,
		[]plan.Entry{{Key: "a", Secret: &plan.SecretRef{Credential: "c", Key: "k"}}},
		func(plan.SecretRef) (string, error) { return "hunter2\xff", nil })
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// TestShellReadsEnv has a real shell read the file.
func TestShellReadsEnv(t *testing.T) {
	for _, value := range hostile {
		if !noNUL(value) {
			continue
		}
		data, err := configfile.Encode(plan.FormatEnv, []plan.Entry{{Key: "VALUE", Args: []string{value}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "env")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command("/bin/sh", "-c", `. "$0"; printf %s "$VALUE"`, file).CombinedOutput()
		if err != nil || string(got) != value {
			t.Errorf("value %q came back as %q, %v", value, got, err)
		}
	}
}
