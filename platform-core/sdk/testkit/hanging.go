// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostCalls is how many calls of a HangingAdmission are told of, as long as nobody listens.
const mostCalls = 1000

// HangingAdmission is an admission of the pods of one namespace that takes calls and never answers.
type HangingAdmission struct {
	client   client.Client
	webhook  *admissionregistrationv1.ValidatingWebhookConfiguration
	listener net.Listener

	begun, ended chan struct{}
}

// HangAdmission has the API server ask one whenever a pod is made in the namespace. End takes it away.
func HangAdmission(ctx context.Context, c client.Client, namespace string) (*HangingAdmission, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	h := &HangingAdmission{
		client: c, listener: listener, webhook: askedAbout(namespace, listener.Addr()),
		begun: make(chan struct{}, mostCalls), ended: make(chan struct{}, mostCalls),
	}
	if err := c.Create(ctx, h.webhook); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot have an admission asked about the pods of namespace %q: %w", namespace,
			err), listener.Close())
	}
	go h.take()
	return h, nil
}

// Begun tells of calls.
func (h *HangingAdmission) Begun() <-chan struct{} { return h.begun }

// Ended tells of calls that their callers gave up.
func (h *HangingAdmission) Ended() <-chan struct{} { return h.ended }

// End has nobody asked any more. Calls that hang are left to their callers.
func (h *HangingAdmission) End() error {
	err := h.client.Delete(context.Background(), h.webhook)
	return errors.Join(err, h.listener.Close())
}

func (h *HangingAdmission) take() {
	for {
		call, err := h.listener.Accept()
		if err != nil {
			return
		}
		tell(h.begun)
		go func() {
			_, _ = io.Copy(io.Discard, call) // Until the caller hangs up.
			_ = call.Close()
			tell(h.ended)
		}()
	}
}

func tell(listeners chan<- struct{}) {
	select {
	case listeners <- struct{}{}:
	default:
	}
}

// askedAbout is what has the API server ask at an address about the pods of a namespace.
func askedAbout(namespace string, address net.Addr) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "never-answers"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "never.answers.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address.String())},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(30)),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
		}},
	}
}
