// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// HTTPStep makes a call and judges the answer. Redirects are not followed: they are answers. A call that was not seen
// to end is made again, with the same header Idempotency-Key.
type HTTPStep struct {
	// Method of the call. Default GET.
	Method string `json:"method,omitempty"`
	// URL, with placeholders: http or https, and without a user.
	URL string `json:"url"`
	// Headers of the call.
	Headers []HTTPHeader `json:"headers,omitempty"`
	// Body of the call, with placeholders.
	Body string `json:"body,omitempty"`
	// Authority is the key of a ConfigMap with the certificates that the server's is checked against; those of the
	// operator's image when left out.
	Authority *KeyReference `json:"authority,omitempty"`
	// Within is how long one call may take. Default 30s, at most 10m.
	Within Span `json:"within,omitempty"`
	// Status are the codes that are a success; 200 to 299 when left out.
	Status []int `json:"status,omitempty"`
	// Check is an expression over response, which has status, headers, body and json: where it gives false, the step
	// fails.
	Check string `json:"check,omitempty"`
	// Outputs are expressions over response.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// HTTPHeader is one header: a value with placeholders, or a key of a Secret after Prefix.
type HTTPHeader struct {
	Name   string        `json:"name"`
	Value  string        `json:"value,omitempty"`
	Prefix string        `json:"prefix,omitempty"`
	Secret *KeyReference `json:"secret,omitempty"`
}

const (
	// DefaultHTTPTime is how long a call may take whose step says nothing.
	DefaultHTTPTime = 30 * time.Second
	maxHTTPTime     = 10 * time.Minute
)

// IdempotencyHeader has the same value for all calls of one step, so that a server can tell a repetition.
const IdempotencyHeader = "Idempotency-Key"

// ownHeaders are those that no template sets.
var ownHeaders = []string{IdempotencyHeader, "Host", "Content-Length", "Connection", "Transfer-Encoding", "Upgrade",
	"Te", "Trailer"}

// responseShape is what expressions see of an answer.
var responseShape = placeholder.Fields(map[string]placeholder.Shape{
	"status": placeholder.IntShape, "headers": placeholder.ObjectShape, "body": placeholder.TextShape,
	"json": placeholder.AnyShape,
})

// http checks what a step says of its call.
func (c checker) http(path document.Path, step *HTTPStep) {
	if why := CheckURL(step.URL); !placeholder.In(step.URL) && why != "" {
		c.fail(path.With("url"), "%s", why)
	}
	seen := map[string]bool{}
	for i, header := range step.Headers {
		at, name := path.With("headers").Index(i), textproto.CanonicalMIMEHeaderKey(header.Name)
		if seen[name] {
			c.fail(at.With("name"), "is %q, which another one has", header.Name)
		}
		seen[name] = true
		switch {
		case slices.Contains(ownHeaders, name):
			c.fail(at.With("name"), "is %q, which the engine sets", header.Name)
		case header.Secret != nil && header.Value != "":
			c.fail(at, "has a value and a secret: it can have one of them")
		case header.Secret == nil && header.Prefix != "":
			c.fail(at.With("prefix"), "is for a secret")
		}
	}
	if within := step.Within.Duration(); step.Within != "" && (within <= 0 || within > maxHTTPTime) {
		c.fail(path.With("within"), "is %s: it must be greater than 0 and at most %s", step.Within, maxHTTPTime)
	}
}

// CheckURL says why a URL cannot be called; empty when it can.
func CheckURL(text string) string {
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		return "is no URL"
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return "must begin with http:// or https://"
	case parsed.Hostname() == "":
		return "names no host"
	case parsed.User != nil:
		return "must not have a user or a password in it: use a header with a secret"
	}
	return ""
}

// httpTexts are the texts of a call that may hold placeholders, by path within the step.
func (s *HTTPStep) httpTexts(add func(text string, path ...string)) {
	add(s.URL, "http", "url")
	add(s.Body, "http", "body")
	for i, header := range s.Headers {
		add(header.Value, document.Path{"http", "headers"}.Index(i).With("value")...)
	}
}

// Succeeds says whether a status is a success.
func (s *HTTPStep) Succeeds(status int) bool {
	if len(s.Status) == 0 {
		return status >= 200 && status < 300
	}
	return slices.Contains(s.Status, status)
}

// http compiles the expressions over the answer of a call.
func (c formulaCompiler) http(path document.Path, s *Step) {
	language := c.languageWith(s, map[string]placeholder.Shape{variableResponse: responseShape})
	if language == nil {
		return
	}
	if s.HTTP.Check != "" {
		c.expression(language, path.With("http").With("check"), s.Name, s.HTTP.Check, placeholder.Bool)
	}
	for _, name := range slices.Sorted(maps.Keys(s.HTTP.Outputs)) {
		c.output(language, path.With("http").With("outputs").With(name), s, name, s.HTTP.Outputs[name])
	}
}

// ReadsObjects says whether a call has a header out of a Secret, or certificates out of a ConfigMap.
func (s *HTTPStep) ReadsObjects() bool {
	return s.Authority != nil || slices.ContainsFunc(s.Headers, func(h HTTPHeader) bool { return h.Secret != nil })
}

// Redact leaves secrets out of a text.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
