// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

func TestRoundTrip(t *testing.T) {
	want := report.Report{Health: report.Healthy, Role: "primary", Version: "7.0.15", ConfigDigest: "sha256:1", Starts: 3,
		LastCall:   &report.Call{Key: "k", Phase: report.CallFailed, Message: "a \"b\"\n"},
		Attributes: map[string]string{"b": "2", "a": "1"}}
	got, err := report.Parse(want.String())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestTextIsStable(t *testing.T) {
	r := report.Report{Health: report.Starting, Attributes: map[string]string{"b": "2", "a": "1", "c": "3"}}
	for range 20 {
		if got, want := r.String(), `{"health":"Starting","attributes":{"a":"1","b":"2","c":"3"}}`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestParse(t *testing.T) {
	if got, err := report.Parse(""); err != nil || !reflect.DeepEqual(got, report.Report{}) {
		t.Errorf("nothing: got %+v, %v", got, err)
	}
	if got, err := report.Parse(`{"health":"Healthy","later":1}`); err != nil || got.Health != report.Healthy {
		t.Errorf("a field of a newer agent: got %+v, %v", got, err)
	}
	if _, err := report.Parse("{"); err == nil || !strings.Contains(err.Error(), report.Annotation) {
		t.Errorf("broken: got %v", err)
	}
}
