// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

// HandoverRequest is the content of SwitchWriterAnnotation.
type HandoverRequest struct {
	// From is the pod that is to stop writing.
	From string
	// To is the one that is to take over; any that can when empty.
	To string
	// Request tells one request from the next.
	Request string
}

// String returns the request as it is in the annotation: <from>, or <from>/<to>, and #<request> after it.
func (h HandoverRequest) String() string {
	text := h.From
	if h.To != "" {
		text += "/" + h.To
	}
	if h.Request != "" {
		text += "#" + h.Request
	}
	return text
}

// ParseHandoverRequest reads the annotation; the zero value for none.
func ParseHandoverRequest(text string) HandoverRequest {
	pods, request, _ := strings.Cut(text, "#")
	from, to, _ := strings.Cut(pods, "/")
	return HandoverRequest{From: from, To: to, Request: request}
}
