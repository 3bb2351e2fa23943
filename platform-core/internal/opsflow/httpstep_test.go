// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

func TestAnswerOfACallIsJudged(t *testing.T) {
	for title, c := range map[string]struct {
		http     string
		response opsflow.HTTPResponse
		outputs  map[string]string
		failure  string
	}{
		"success": {"", opsflow.HTTPResponse{Status: 204}, map[string]string{"status": "204"}, ""},
		"status": {"", opsflow.HTTPResponse{Status: 404, Body: "no such thing hush", Secrets: []string{"hush"}}, nil,
			"the server answered with status 404: no such thing ***"},
		"wanted status":   {", status: [404]", opsflow.HTTPResponse{Status: 404}, map[string]string{"status": "404"}, ""},
		"unwanted status": {", status: [404]", opsflow.HTTPResponse{Status: 200}, nil, "status 200"},
		"redirect":        {"", opsflow.HTTPResponse{Status: 302}, nil, "the server answered with status 302"},
		"wanted redirect": {", status: [302], outputs: {to: 'response.headers[\"Location\"]'}",
			opsflow.HTTPResponse{Status: 302, Headers: map[string]string{"Location": "/new"}},
			map[string]string{"status": "302", "to": "/new"}, ""},
		"check": {", check: 'response.json.ok'", opsflow.HTTPResponse{Status: 200, Body: `{"ok": true}`},
			map[string]string{"status": "200"}, ""},
		"check fails": {", check: 'response.json.ok'", opsflow.HTTPResponse{Status: 200, Body: `{"ok": false}`}, nil,
			"the answer does not meet the check response.json.ok"},
		"no JSON": {", check: 'response.json.ok'", opsflow.HTTPResponse{Status: 200, Body: `<html>`}, nil,
			"the check of the answer cannot be made"},
		"outputs": {", outputs: {n: 'int(response.json.n)', etag: 'response.headers[\"Etag\"]'}",
			opsflow.HTTPResponse{Status: 200, Body: `{"n": 3}`, Headers: map[string]string{"Etag": "x"}},
			map[string]string{"status": "200", "n": "3", "etag": "x"}, ""},
		"long output": {", outputs: {all: response.body}", opsflow.HTTPResponse{Status: 200, Body: strings.Repeat("x", 4097)},
			nil, "has 4097 bytes: at most 4096"},
	} {
		t.Run(title, func(t *testing.T) {
			op := &platformv1.Operation{Spec: platformv1.OperationSpec{
				Template: "name: Call\nsteps:\n  - {name: ask, http: {url: 'https://example.com'" + c.http + "}}\n"}}
			template, refusal := opsflow.InlineTemplate(op.Spec)
			if refusal == nil {
				refusal = opsflow.CheckInline(op, template)
			}
			if refusal != nil {
				t.Fatal(refusal)
			}
			facts := opsflow.Facts{Now: time.Unix(1000, 0), Template: template, Answers: map[string]*opsflow.Answer{}}
			d := opsflow.Start(op, "", facts, nil)
			if d.Effect == nil || d.Effect.HTTP == nil || d.Effect.HTTP.Method != "GET" ||
				d.Effect.HTTP.Within != 30*time.Second {
				t.Fatalf("the effect is %+v", d.Effect)
			}
			facts.Answers[d.Effect.Key] = &opsflow.Answer{HTTP: &c.response}
			op.Status = d.Status
			d = opsflow.Next(op, facts)
			if c.failure != "" {
				if d.Status.Phase != platformv1.OperationFailed || !strings.Contains(d.Status.Error, c.failure) {
					t.Errorf("it is %s with the error %q", d.Status.Phase, d.Status.Error)
				}
				return
			}
			got := d.Status.Steps[0].Outputs
			if d.Status.Phase != platformv1.OperationSucceeded || len(got) != len(c.outputs) {
				t.Fatalf("it is %s with %v and the error %q", d.Status.Phase, got, d.Status.Error)
			}
			for name, want := range c.outputs {
				if got[name] != want {
					t.Errorf("output %s is %q, want %q", name, got[name], want)
				}
			}
		})
	}
}
