// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// HandoverRequest is the content of SwitchPrimaryAnnotation.
type HandoverRequest struct {
	// From is the pod that is to stop writing.
	From string
	// To is the one that is to take over; any that can when empty.
	To string
	// Way in which it is to happen.
	Way HandoverWay
	// Request tells one request from the next: RequestOf the Operation that asks for it, or empty.
	Request string
}

// HandoverWay says how the pod that writes is replaced.
type HandoverWay string

// Ways of a handover.
const (
	// HandOver: it hands over, and goes on where it cannot.
	HandOver HandoverWay = ""
	// TakeOver: another one takes over, although it cannot be asked. It takes an Operation.
	TakeOver HandoverWay = "!"
)

// RequestOf is how the requests of an Operation are known.
func RequestOf(op *Operation) string { return op.Name + "/" + string(op.UID) }

// Operation returns the Operation that a request is of; an empty name for none.
func (h HandoverRequest) Operation() (name string, uid types.UID) {
	name, text, _ := strings.Cut(h.Request, "/")
	return name, types.UID(text)
}

// String returns the request as it is in the annotation: <from>, or <from>/<to>, then ! for TakeOver, and #<request>
// after it.
func (h HandoverRequest) String() string {
	text := h.From
	if h.To != "" {
		text += "/" + h.To
	}
	text += string(h.Way)
	if h.Request != "" {
		text += "#" + h.Request
	}
	return text
}

// ParseHandoverRequest reads the annotation; the zero value for none.
func ParseHandoverRequest(text string) HandoverRequest {
	pods, request, _ := strings.Cut(text, "#")
	pods, takes := strings.CutSuffix(pods, string(TakeOver))
	from, to, _ := strings.Cut(pods, "/")
	h := HandoverRequest{From: from, To: to, Request: request}
	if takes {
		h.Way = TakeOver
	}
	return h
}
