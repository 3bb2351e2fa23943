// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// A plan of files has a folder where they are kept, a volume where they go, and nothing else to carry.
func TestFilesArePlanned(t *testing.T) {
	const in = `"repository":{"type":"Volume"},"backup":{"key":"shop/site/x","attempt":"1"}`
	for plan, says := range map[string]string{
		`{"verb":"backup","files":{"folder":"/data","exclude":["*.tmp"]},` + in + `}`:     "",
		`{"verb":"restore","files":{},"volume":{"folder":"/data","id":"uid"},` + in + `}`: "",
		`{"verb":"delete","files":{},` + in + `}`:                                         "",
		`{"verb":"backup","files":{},` + in +
			`}`: `"" is no folder of files`,
		`{"verb":"backup","files":{"folder":"/data/../etc"},` + in +
			`}`: "is no folder of files",
		`{"verb":"backup","files":{"folder":"/data"},"command":["a"],` + in +
			`}`: "a command of 1 words",
		`{"verb":"backup","files":{"folder":"/data"},"facts":["a"],` + in +
			`}`: "something else to carry",
		`{"verb":"backup","files":{"folder":"/data"},"objects":{"mode":"Full"},` + in +
			`}`: "something else to carry",
		`{"verb":"restore","files":{},` + in +
			`}`: "the plan has none",
		`{"verb":"delete","files":{"folder":"/data"},` + in +
			`}`: "takes no folder of files",
		`{"verb":"inspect","files":{},` + in +
			`}`: "the verb inspect has files",
		`{"verb":"delete","files":{},"repository":{"type":"Volume"},` +
			`"backup":{"key":"x","attempt":"1"}}`: "needs the folder of an instance",
		`{"verb":"restore","files":{},"command":["a"],"volume":{"folder":"/data","id":"uid"},` + in +
			`}`: "a command of 1 words",
		`{"verb":"restore","files":{"exclude":["a"]},"volume":{"folder":"/data","id":"uid"},` + in +
			`}`: "takes no folder of files",
		`{"verb":"backup","files":{"folder":"/data"},"streams":[{"name":"0"}],"steady":["a"],` + in +
			`}`: "something else to carry",
	} {
		if _, err := ReadPlan([]byte(plan)); (err == nil) != (says == "") || err != nil &&
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", plan, err, says)
		}
	}
}

// A manifest of files names a snapshot of restic, and no parts.
func TestManifestsOfFiles(t *testing.T) {
	good := func() *mover.Manifest {
		return &mover.Manifest{FormatVersion: mover.FilesFormatVersion, Key: key, Compression: mover.CompressionZstd,
			RawSize:  7,
			Metadata: mover.Part{Name: "0123456789abcdef/metadata.json", Size: 2, SHA256: strings.Repeat("a", 64)},
			Files: &mover.FilesManifest{Repository: mover.FilesFolder, Snapshot: strings.Repeat("b", 64), Folder: "/data",
				Count: 2, Size: 7, Added: 3}}
	}
	for name, change := range map[string]func(m *mover.Manifest){
		"":                  func(*mover.Manifest) {},
		"no files":          func(m *mover.Manifest) { m.Files = nil },
		"an earlier format": func(m *mover.Manifest) { m.FormatVersion = mover.PlainFormatVersion },
		"another folder":    func(m *mover.Manifest) { m.Files.Repository = "../other" },
		"no snapshot":       func(m *mover.Manifest) { m.Files.Snapshot = "latest" },
		"of no folder":      func(m *mover.Manifest) { m.Files.Folder = "data" },
		"none of them":      func(m *mover.Manifest) { m.Files.Count = 0 },
		"another size":      func(m *mover.Manifest) { m.Files.Size = 8 },
		"parts as well": func(m *mover.Manifest) {
			m.Parts = []mover.Part{{Name: "0123456789abcdef/data-00001", Size: 1, SHA256: strings.Repeat("a", 64)}}
		},
		"objects as well":      func(m *mover.Manifest) { m.Objects = &mover.ObjectsManifest{} },
		"a format of tomorrow": func(m *mover.Manifest) { m.FormatVersion++ },
	} {
		m := good()
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readManifest(text, key); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What restic says of single files is told from what goes wrong with all.
func TestResticIsHeard(t *testing.T) {
	const vanished = `{"message_type":"error","error":{"message":"lstat /data/a: no such file or ` +
		`directory"},"during":"archival","item":"/data/a"}` + "\n"
	const denied = `{"message_type":"error","error":{"message":"open /data/b: permission ` +
		`denied"},"during":"archival","item":"/data/b"}` + "\n"
	r := &restic{Mover: &Mover{Options: Options{Log: slog.New(slog.DiscardHandler)}, hide: secrets{"hunter22"}}}
	for name, tc := range map[string]struct {
		text           string
		vanished, told int
		damaged        string
		says           string
	}{
		"a file that went": {vanished, 1, 0, "false", "it said nothing"},
		"one of nobody":    {vanished + denied, 1, 1, "false", "permission denied"},
		"many of nobody":   {strings.Repeat(denied, 8), 0, 5, "false", "and 3 more"},
		"text before JSON": {"Fatal: wrong password hunter22\n", 0, 0, "false", "wrong password ***"},
		"a pack that is wrong": {`{"message_type":"exit_error","code":1,"message":"Fatal: ciphertext verification failed"}`,
			0, 0, "true", "ciphertext"},
	} {
		h := r.listen(tc.text)
		if h.vanished != tc.vanished || len(h.problems) != tc.told || fmt.Sprint(h.damaged) != tc.damaged ||
			!strings.Contains(h.String(), tc.says) {
			t.Errorf("%s: it is %+v: %s", name, h, h)
		}
	}
}
