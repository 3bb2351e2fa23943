// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/render"
)

// mostBytes is the largest request that is read: an object and the one before it, each within the limit of etcd.
const mostBytes = 7 << 20

// judge decides about one kind of request. An error says that nothing can be said: then the failure policy of the
// webhook holds, as when nobody answers.
type judge func(ctx context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error)

// endpoint serves one path.
type endpoint struct {
	judge judge
	// ready says why nothing can be judged yet.
	ready func() error
}

// ServeHTTP implements http.Handler.
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := e.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(io.LimitReader(r.Body, mostBytes)).Decode(review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("cannot read an AdmissionReview: %v", err), http.StatusBadRequest)
		return
	}
	verdict, err := e.judge(r.Context(), review.Request)
	if err != nil {
		log.FromContext(r.Context()).Error(err, "cannot judge", "kind", review.Request.Kind.Kind, "namespace",
			review.Request.Namespace, "name", review.Request.Name)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer := &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answerOf(review.Request.UID, verdict)}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.FromContext(r.Context()).Error(err, "cannot answer the API server")
	}
}

func answerOf(uid types.UID, verdict accept.Verdict) *admissionv1.AdmissionResponse {
	answer := &admissionv1.AdmissionResponse{UID: uid, Allowed: true, Warnings: verdict.Warnings}
	if refusal := render.Join(verdict.Refused); refusal != nil {
		answer.Allowed = false
		answer.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: strings.TrimSpace(refusal.Message),
		}
	}
	return answer
}

// objects decodes the object of a request and the one before it; old is false at creation, and where the one before
// cannot be decoded: what corrects it is judged by itself.
func objects(request *admissionv1.AdmissionRequest, object, before any) (old bool, err error) {
	if err := json.Unmarshal(request.Object.Raw, object); err != nil {
		return false, fmt.Errorf("cannot read the object: %w", err)
	}
	return len(request.OldObject.Raw) > 0 && json.Unmarshal(request.OldObject.Raw, before) == nil, nil
}

var errNotReady = errors.New("this replica has not read all plugins yet")
