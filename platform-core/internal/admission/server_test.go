// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/render"
)

// call sends a review and returns the answer; nil when there is none and the failure policy of the webhook holds.
func call(t *testing.T, e endpoint, body string) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	recorder := httptest.NewRecorder()
	e.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathCore, strings.NewReader(body)))
	if recorder.Code != http.StatusOK {
		return recorder.Code, nil
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), review); err != nil || review.Kind != "AdmissionReview" ||
		review.Response.UID != "u" {
		t.Fatalf("answered %s: %v", recorder.Body, err)
	}
	return recorder.Code, review.Response
}

func TestAnswers(t *testing.T) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
		`"operation":"CREATE","object":{}}}`
	refusals := func(count int) (list []*render.Refusal) {
		for range count {
			list = append(list, &render.Refusal{Reason: "InvalidSpec", Message: "it is wrong"})
		}
		return list
	}
	ready := func() error { return nil }
	for name, test := range map[string]struct {
		verdict accept.Verdict
		err     error
		ready   func() error
		body    string
		code    int
		allowed bool
		message string
	}{
		"good":        {body: review, code: 200, allowed: true},
		"with a word": {verdict: accept.Verdict{Warnings: []string{"it will wait"}}, body: review, code: 200, allowed: true},
		"refused": {verdict: accept.Verdict{Refused: refusals(2)}, body: review, code: 200,
			message: "it is wrong; it is wrong"},
		"many things":  {verdict: accept.Verdict{Refused: refusals(9)}, body: review, code: 200, message: "and 4 more"},
		"cannot tell":  {err: errors.New("no cache"), body: review, code: 500},
		"too early":    {ready: func() error { return errNotReady }, body: review, code: 503},
		"no review":    {body: `{}`, code: 400},
		"not even one": {body: `x`, code: 400},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpoint{ready: ready, judge: func(context.Context, *admissionv1.AdmissionRequest) (accept.Verdict, error) {
				return test.verdict, test.err
			}}
			if test.ready != nil {
				e.ready = test.ready
			}
			code, answer := call(t, e, test.body)
			if code != test.code {
				t.Fatalf("answered %d, want %d", code, test.code)
			}
			if answer == nil {
				return
			}
			if answer.Allowed != test.allowed || len(answer.Warnings) != len(test.verdict.Warnings) {
				t.Errorf("answered %+v", answer)
			}
			if !test.allowed && (answer.Result.Reason != metav1.StatusReasonInvalid || answer.Result.Code != 422 ||
				!strings.Contains(answer.Result.Message, test.message)) {
				t.Errorf("says %+v", answer.Result)
			}
		})
	}
}

// What corrects an object that cannot be decoded is not refused for how it was.
func TestOldObjectThatCannotBeDecodedIsLeftOut(t *testing.T) {
	const bad, good = `{"spec":{"operationHistory":{"ttl":"30d"}}}`, `{"spec":{"operationHistory":{"ttl":"720h"}}}`
	for name, test := range map[string]struct {
		object, old string
		changed     bool
		fails       bool
	}{
		"created":   {object: good},
		"changed":   {object: good, old: good, changed: true},
		"corrected": {object: good, old: bad},
		"spoilt":    {object: bad, old: good, fails: true},
	} {
		request := &admissionv1.AdmissionRequest{
			Object: runtime.RawExtension{Raw: []byte(test.object)}, OldObject: runtime.RawExtension{Raw: []byte(test.old)},
		}
		changed, err := objects(request, &platformv1.Application{}, &platformv1.Application{})
		if changed != test.changed || (err != nil) != test.fails {
			t.Errorf("%s: changed is %t, error %v", name, changed, err)
		}
	}
}
