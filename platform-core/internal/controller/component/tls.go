// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/certmanager"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// tlsFacts are what one turn knows of the TLS of a component.
type tlsFacts struct {
	wanted bool
	// installed says that cert-manager is there.
	installed bool
	// certificate that the component owns; nil when there is none.
	certificate *unstructured.Unstructured
	// secret that it was issued to; nil when there is none.
	secret *corev1.Secret
	// trust is the Secret with the authorities that the pods mount; nil when there is none.
	trust *corev1.Secret
	// problem says why the certificate is not ready, and issuer what keeps a named issuer from giving it; "" when all is
	// well.
	problem, issuer string
}

func (c *Controller) observeTLS(ctx context.Context, component *platformv1.Component, f *facts) error {
	f.tls.wanted = component.Spec.TLS.On()
	key := client.ObjectKey{Namespace: component.Namespace,
		Name: platformv1.CertificateNameFor(component.Spec.Application, component.Spec.Component)}
	secret := &corev1.Secret{}
	switch err := c.client.Get(ctx, key, secret); {
	case err == nil:
		f.tls.secret = secret
	case !apierrors.IsNotFound(err):
		return err
	case !f.tls.wanted && !c.Certificates.Watching():
		// Nothing is left of a certificate, and so cert-manager need not be looked for.
		return nil
	}
	if f.tls.wanted {
		trust := &corev1.Secret{}
		key := client.ObjectKey{Namespace: component.Namespace, Name: platformv1.TrustNameFor(component.Spec.Application)}
		err := c.client.Get(ctx, key, trust)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			f.tls.trust = trust
		}
	}
	var err error
	if f.tls.installed, err = c.Certificates.Installed(ctx); err != nil || !f.tls.installed {
		return err
	}
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(render.CertificateKind)
	if err = c.Certificates.Client().Get(ctx, key, certificate); client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && metav1.IsControlledBy(certificate, component) {
		f.tls.certificate, f.tls.problem = certificate, certmanager.Problem(certificate)
	}
	if f.tls.wanted && (f.tls.problem != "" || certmanager.Digest(f.tls.secret) == "") {
		f.tls.issuer, err = certmanager.IssuerProblem(ctx, c.Certificates.Live(), component.Namespace,
			component.Spec.TLS.IssuerRef)
		return err
	}
	return nil
}

// certify keeps the certificate of a component that speaks TLS. Until it is issued the pods are left as they are: new
// ones could not be started.
func (c *Controller) certify(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	switch {
	case output.Certificate == nil:
		return outcome.Done()
	case !f.tls.installed:
		return outcome.StalledFor(certmanager.Recheck, platformv1.ReasonCertManagerNotFound, certmanager.Missing)
	}
	if err := controllerutil.SetControllerReference(component, output.Certificate, c.client.Scheme()); err != nil {
		return outcome.Failed(err)
	}
	change, err := c.others.Apply(ctx, output.Certificate)
	switch {
	case apierrors.IsInvalid(err):
		return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
	case err != nil:
		return apply.Outcome(err)
	case len(component.Status.Pods) == 0 && change != apply.Unchanged:
		return outcome.Waiting(platformv1.ReasonCertificateNotReady, "the certificate is being issued")
	case len(component.Status.Pods) == 0 && f.tls.problem != "":
		// All pods begin with the same certificate, not some with one of another issuer.
		return f.tls.pending()
	}
	return c.issued(ctx, component, f)
}

// pending says why there is no certificate as it is asked for, and what to do about it.
func (t tlsFacts) pending() outcome.Outcome {
	if t.issuer != "" {
		return outcome.StalledFor(certmanager.Recheck, platformv1.ReasonIssuerNotReady, t.issuer)
	}
	// A Certificate that was just made says nothing, and one whose Secret was deleted is still well for a moment.
	return outcome.Waiting(platformv1.ReasonCertificateNotReady, cmp.Or(t.problem, "the certificate is being issued"))
}

// issued says what is missing of the Secret, and has it go with its Certificate.
func (c *Controller) issued(ctx context.Context, component *platformv1.Component, f *facts) outcome.Outcome {
	if certmanager.Digest(f.tls.secret) == "" || f.tls.certificate == nil {
		return f.tls.pending()
	}
	if len(f.tls.secret.Data[plan.CAFile]) == 0 {
		return outcome.Stalled(platformv1.ReasonCertificateNotReady,
			fmt.Sprintf("Secret %s has no %s: the issuer does not give the certificate of its CA; "+
				"name one that does in tls.issuerRef, or none", f.tls.secret.Name, plan.CAFile))
	}
	if f.tls.trust == nil {
		// The Secret wakes us.
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonCertificateNotReady,
			fmt.Sprintf("Secret %s with the authorities to trust is being made",
				platformv1.TrustNameFor(component.Spec.Application)))
	}
	return apply.Outcome(certmanager.Bind(ctx, c.apply, f.tls.secret, f.tls.certificate))
}

// retire removes a certificate that no pod has any more, once all else is as asked. Its Secret goes with it.
func (c *Controller) retire(ctx context.Context, f *facts, o outcome.Outcome) outcome.Outcome {
	if o.Kind() != outcome.KindDone || f.tls.wanted || f.tls.certificate == nil {
		return o
	}
	if err := c.others.Delete(ctx, f.tls.certificate); err != nil {
		return outcome.Failed(err)
	}
	return o
}

// settleTLS: a certificate that cert-manager says is not good is nothing to be content with.
func settleTLS(f *facts) outcome.Outcome {
	if !f.tls.wanted || f.tls.problem == "" {
		return outcome.Done()
	}
	return f.tls.pending()
}

// reportCertificate says which pods serve a certificate from before. The kubelet brings a new one to a pod within a
// minute or two.
func reportCertificate(component *platformv1.Component, f *facts) {
	present := certmanager.Digest(f.tls.secret)
	if !f.tls.wanted || present == "" {
		conditions.Remove(component, platformv1.CertificateServedCondition)
		return
	}
	var behind []string
	for _, pod := range component.Status.Pods {
		if pod.CertificateDigest != present {
			behind = append(behind, pod.Name)
		}
	}
	condition := metav1.Condition{
		Type: platformv1.CertificateServedCondition, Status: metav1.ConditionTrue,
		Reason:  platformv1.ReasonCertificateCurrent,
		Message: "every pod serves the present certificate",
	}
	if len(behind) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, platformv1.ReasonCertificateOutdated
		condition.Message = fmt.Sprintf("%s: not yet served by %s", f.tls.secret.Name, strings.Join(behind, ", "))
	}
	conditions.Set(component, condition)
}

// onlyMade passes objects that are new.
var onlyMade = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// ofTrust wakes the Components of an Application whose authorities to trust are there.
func (c *Controller) ofTrust(ctx context.Context, obj client.Object) []reconcile.Request {
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	if application == "" || obj.GetName() != platformv1.TrustNameFor(application) {
		return nil
	}
	var components platformv1.ComponentList
	// One that cannot be listed looks again by itself.
	if err := c.client.List(ctx, &components, client.InNamespace(obj.GetNamespace()),
		client.MatchingLabels{platformv1.ApplicationLabel: application}); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range components.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&components.Items[i])})
	}
	return requests
}

// ofIssued wakes the Component whose certificate was issued.
func ofIssued(_ context.Context, obj client.Object) []reconcile.Request {
	application, component := obj.GetLabels()[platformv1.ApplicationLabel], obj.GetLabels()[platformv1.ComponentLabel]
	// Those of the pods' agents belong to a set.
	if secret, ok := obj.(*corev1.Secret); !ok || secret.Type != corev1.SecretTypeTLS || application == "" ||
		component == "" || obj.GetLabels()[platformv1.SetLabel] != "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: obj.GetNamespace(), Name: platformv1.ComponentNameFor(application, component),
	}}}
}
