// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// outputStatus is the status of the answer of a call.
const outputStatus = "status"

// HTTPCall is a call to make. Its secrets are references: none is ever in a record.
type HTTPCall struct {
	Method, URL, Body string
	// Headers have their values, or the Secrets that these are read from.
	Headers []optemplate.HTTPHeader
	// Authority is where the certificates are that the server's is checked against; nil for those of the system.
	Authority *optemplate.KeyReference
	// Idempotency is the same for all attempts of one step.
	Idempotency string
	// Within is how long it may take.
	Within time.Duration
}

// HTTPResponse is the answer to a call.
type HTTPResponse struct {
	Status int
	// Headers by their canonical names, the first value of each.
	Headers map[string]string
	Body    string
	// Secrets that the call had: no text that is recorded shows them.
	Secrets []string
}

// httpItem makes a call until there is an answer, and judges that.
func httpItem(r *run, t *optemplate.Step, step *platformv1.StepStatus, one item) verdict {
	call, why := r.call(t, one)
	if why != "" {
		return verdict{failed: why}
	}
	call.Idempotency = fmt.Sprintf("%s/%s", r.op.UID, step.Name)
	if one.number > 0 {
		call.Idempotency += "/" + strconv.Itoa(one.number)
	}
	answer, v := r.answer(&Effect{Key: one.key, HTTP: call}, "the answer of the server")
	if answer == nil {
		return v
	}
	response := answer.HTTP
	setOutput(step, outputStatus, strconv.Itoa(response.Status))
	if !t.HTTP.Succeeds(response.Status) {
		return failedf("the server answered with status %d: %s", response.Status,
			tail(optemplate.Redact(response.Body, response.Secrets)))
	}
	return r.judgeResponse(t, step, one, response)
}

// judgeResponse says whether an answer is as the step wants it, and records its outputs.
func (r *run) judgeResponse(t *optemplate.Step, step *platformv1.StepStatus, one item,
	response *HTTPResponse) verdict {
	headers := make(map[string]any, len(response.Headers))
	for name, value := range response.Headers {
		headers[name] = value
	}
	var body any
	if json.Unmarshal([]byte(response.Body), &body) != nil {
		body = nil
	}
	variables := r.variables(t, one.value)
	variables["response"] = map[string]any{"status": int64(response.Status), "headers": headers, "body": response.Body,
		"json": body}
	if t.HTTP.Check != "" {
		holds, err := r.facts.Template.Truth(t.Name, t.HTTP.Check, variables)
		switch {
		case err != nil:
			return failedf("the check of the answer cannot be made: %s", optemplate.Redact(err.Error(), response.Secrets))
		case !holds:
			return failedf("the answer does not meet the check %s", t.HTTP.Check)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.HTTP.Outputs)) {
		value, err := r.facts.Template.Value(t.Name, name, t.HTTP.Outputs[name], variables)
		if err != nil {
			return failedf("step %q cannot record what it was answered: %s", t.Name,
				optemplate.Redact(err.Error(), response.Secrets))
		}
		if len(value) > maxOutput {
			return failedf("output %q of step %q has %d bytes: at most %d are kept on record; let its expression give a part "+
				"of that", name, t.Name, len(value), maxOutput)
		}
		setOutput(step, name, optemplate.Redact(value, response.Secrets))
	}
	return verdict{}
}

// call is what a step calls; why says why that cannot be.
func (r *run) call(t *optemplate.Step, one item) (call *HTTPCall, why string) {
	fill := func(source string) string {
		text, v := r.text(t, source, one)
		if !v.done() && why == "" {
			why = v.failed
		}
		return text
	}
	call = &HTTPCall{
		Method: cmp.Or(t.HTTP.Method, "GET"), URL: fill(t.HTTP.URL), Body: fill(t.HTTP.Body),
		Headers: slices.Clone(t.HTTP.Headers), Authority: t.HTTP.Authority,
		Within: cmp.Or(t.HTTP.Within.Duration(), optemplate.DefaultHTTPTime),
	}
	for i := range call.Headers {
		call.Headers[i].Value = fill(call.Headers[i].Value)
	}
	if problem := optemplate.CheckURL(call.URL); why == "" && problem != "" {
		why = fmt.Sprintf("the URL of step %q %s", t.Name, problem)
	}
	return call, why
}
