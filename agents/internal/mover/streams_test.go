// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// inStreams is a manifest of two streams, of two parts and of one.
func inStreams(change func(*mover.Manifest)) []byte {
	return manifestOf(func(m *mover.Manifest) {
		m.FormatVersion, m.RawSHA256, m.RawSize = mover.StreamsFormatVersion, "", 7
		m.Parts = append(m.Parts, mover.Part{Name: run + "/data-00003", Size: 4, SHA256: sum, Stream: "1"})
		m.Parts[0].Stream, m.Parts[1].Stream = "0", "0"
		m.Facts = map[string]string{"all": "yes", "slots": "none"}
		m.Streams = []mover.StreamManifest{{Name: "0", RawSize: 4, RawSHA256: sum, Facts: map[string]string{"slots": "0-9"}},
			{Name: "1", RawSize: 3, RawSHA256: strings.Repeat("1", 64)}}
		change(m)
	})
}

func TestManifestsOfStreams(t *testing.T) {
	manifest, err := readManifest(inStreams(func(*mover.Manifest) {}), key)
	if err != nil {
		t.Fatal(err)
	}
	one, err := streamOf(manifest, "0")
	if err != nil || one.RawSize != 4 || one.RawSHA256 != sum || len(one.Parts) != 2 ||
		!maps.Equal(one.Facts, map[string]string{"all": "yes", "slots": "0-9"}) {
		t.Errorf("the first stream is %+v, %v", one, err)
	}
	if all := streamsOf(manifest); len(all) != 2 || all[1].Parts[0].Name != run+"/data-00003" {
		t.Errorf("the streams are %+v", all)
	}
	for _, name := range []string{"2", ""} {
		if _, err := streamOf(manifest, name); err == nil || reasonOf(err) != mover.ReasonBadPlan {
			t.Errorf("the stream %q: %v", name, err)
		}
	}
	result := kept(manifest, "sha256:"+sum)
	if result.RawSize != 7 || result.Size != 14 || !maps.Equal(result.Streams, map[string]int64{"0": 4, "1": 3}) ||
		result.Facts["slots.0"] != "0-9" || result.Facts["all"] != "yes" {
		t.Errorf("it tells %+v", result)
	}
	for what, change := range map[string]func(*mover.Manifest){
		"the older format":     func(m *mover.Manifest) { m.FormatVersion = mover.PlainFormatVersion },
		"no streams":           func(m *mover.Manifest) { m.Streams = nil },
		"a stream less":        func(m *mover.Manifest) { m.Streams = m.Streams[:1] },
		"a stream twice":       func(m *mover.Manifest) { m.Streams[1].Name = "0" },
		"a stream without":     func(m *mover.Manifest) { m.Streams[1].Name = "2" },
		"another order":        func(m *mover.Manifest) { slices.Reverse(m.Streams) },
		"another size":         func(m *mover.Manifest) { m.RawSize++ },
		"a sum of all":         func(m *mover.Manifest) { m.RawSHA256 = sum },
		"a stream without sum": func(m *mover.Manifest) { m.Streams[0].RawSHA256 = "" },
		"an empty stream":      func(m *mover.Manifest) { m.Streams[0].RawSize, m.RawSize = 0, 3 },
		"no name of a stream": func(m *mover.Manifest) {
			m.Streams[0].Name, m.Parts[0].Stream, m.Parts[1].Stream = "../x", "../x", "../x"
		},
	} {
		if _, err := readManifest(inStreams(change), key); err == nil || reasonOf(err) != mover.ReasonDamaged {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The sizes of all streams are always told, and their facts where they fit.
func TestResultOfManyStreams(t *testing.T) {
	for count, told := range map[int]bool{3: true, 64: false} {
		result := mover.Result{Digest: "sha256:" + sum, Streams: map[string]int64{}, Facts: map[string]string{}}
		for i := range count {
			name := fmt.Sprint(i)
			result.Streams[name], result.Facts["slots."+name] = 1<<40, strings.Repeat("10000-10001 ", 8)
		}
		text, err := Encode(result)
		if err != nil || strings.Count(string(text), "1099511627776") != count ||
			strings.Contains(string(text), "slots") != told {
			t.Errorf("%d streams: %s, %v", count, text, err)
		}
	}
}

func TestPlansOfStreams(t *testing.T) {
	const plan = `{"verb":"%s","repository":{"type":"Volume"},"command":["x"],"backup":{"key":"a/b","attempt":"1"%s}%s}`
	for what, words := range map[string][3]string{
		"a stream twice":             {"backup", "", `,"streams":[{"name":"0"},{"name":"0"}]`},
		"no name":                    {"backup", "", `,"streams":[{"name":"../x"}]`},
		"no variable":                {"backup", "", `,"streams":[{"name":"0","env":["x"]}]`},
		"steady without streams":     {"backup", "", `,"steady":["x"]`},
		"streams of a restore":       {"restore", "", `,"streams":[{"name":"0"}]`},
		"the stream of a backup":     {"backup", `,"stream":"0"`, ""},
		"the stream of no such name": {"restore", `,"stream":"../x"`, ""},
		"": {"backup", "",
			`,"steady":["x"],"streams":[{"name":"0","env":["HOST=a=b"]},{"name":"b-1"}]`},
		"\x00the stream of a restore": {"restore", `,"stream":"b-1"`, ""},
	} {
		_, err := ReadPlan([]byte(fmt.Sprintf(plan, words[0], words[1], words[2])))
		if good := what == "" || what[0] == 0; (err == nil) != good {
			t.Errorf("%q: %v", what, err)
		}
	}
}

func TestFactsAreVariables(t *testing.T) {
	env := told(map[string]string{"slots": "0-5 7", "a.b-c": "x"})
	if !slices.Equal(env, []string{"FACT_a_b_c=x", "FACT_slots=0-5 7"}) {
		t.Errorf("they are %q", env)
	}
	m := &Mover{Options: Options{Env: []string{"A=1", "HOST=old", "B=2"}}}
	if got := m.with([]string{"HOST=new"}).Env; !slices.Equal(got, []string{"A=1", "B=2", "HOST=new"}) || len(m.Env) != 3 {
		t.Errorf("the environment is %q", got)
	}
}
