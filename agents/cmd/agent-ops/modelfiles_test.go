// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/agents/internal/modelserver"
	"github.com/zeroinfra/agents/internal/planfile"
)

// started is what a server is started with by flags.
func started(t *testing.T, args ...string) (*modelserver.Starter, error) {
	t.Helper()
	dirs := planfile.Dirs{Secrets: t.TempDir()}
	for _, credential := range []string{"account", "key", "login", "ca", "token", "user", "secret"} {
		if err := os.MkdirAll(filepath.Join(dirs.Secrets, credential), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dirs.Secrets, credential, "password"), []byte("my "+credential),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	var from modelFiles
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	from.flags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	s := &modelserver.Starter{}
	return s, from.into(s, dirs)
}

func TestFilesOfAModel(t *testing.T) {
	s, err := started(t, "--sha256=b", "--size=7", "--image=r.example.com/m:1", "--path=m.gguf", "--access-key=account",
		"--secret-key=key", "--registry=login", "--ca=ca", "--http-token=token", "--http-username=user",
		"--http-password=secret", `--adapters=[{"sha256":"1","file":"lora/../../a.gguf","scale":100},`+
			`{"sha256":"2","endpoint":"http://s3","bucket":"b","key":"k","size":9,"scale":25},{"sha256":"3","url":"http://u",`+
			`"scale":0}]`)
	if err != nil {
		t.Fatal(err)
	}
	ca := []byte("my ca")
	want := &modelserver.Starter{
		Model: modelserver.File{Place: "r.example.com/m:1 m.gguf", Wanted: modelfile.Wanted{SHA256: "b", Size: 7},
			Source: modelfile.Image{Reference: "r.example.com/m:1", Path: "m.gguf", Login: "my login", CA: ca}},
		Adapters: []modelserver.Adapter{
			{File: modelserver.File{Path: "/models/a.gguf", Wanted: modelfile.Wanted{SHA256: "1"}}, Scale: 1},
			{Scale: 0.25, File: modelserver.File{Place: "http://s3 b k", Wanted: modelfile.Wanted{SHA256: "2", Size: 9},
				Source: modelfile.S3{Endpoint: "http://s3", Bucket: "b", Key: "k", AccessKey: "my account",
					SecretKey: "my key", CA: ca}}},
			{File: modelserver.File{Place: "http://u", Wanted: modelfile.Wanted{SHA256: "3"}, Source: modelfile.HTTP{
				URL: "http://u", CA: ca, Token: "my token", Username: "my user", Password: "my secret"}}},
		},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestFilesOfAModelThatAreRefused(t *testing.T) {
	for title, c := range map[string]struct{ flag, says string }{
		"two sources":                    {"--image=r.example.com/m:1", "a file has one source"},
		"no list":                        {"--adapters={}", "--adapters is no list"},
		"unknown field":                  {`--adapters=[{"sha":"1"}]`, "--adapters is no list"},
		"too many":                       {"--adapters=[{},{},{},{},{},{},{},{}]", "a server has at most 7"},
		"a credential that is not there": {"--registry=other", "cannot read secret other/password"},
	} {
		if _, err := started(t, "--url=http://u", c.flag); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", title, err, c.says)
		}
	}
}
