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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/certmanager"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
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
}

func (c *Controller) observeTLS(ctx context.Context, component *platformv1.Component, f *facts) error {
	f.tls.wanted = component.Spec.TLS.On()
	key := client.ObjectKey{Namespace: component.Namespace, Name: platformv1.CertificateNameFor(component.Spec.Application, component.Spec.Component)}
	secret := &corev1.Secret{}
	switch err := c.client.Get(ctx, key, secret); {
	case err == nil:
		f.tls.secret = secret
	case !apierrors.IsNotFound(err):
		return err
	case !f.tls.wanted:
		// Nothing is left of a certificate, and so cert-manager need not be looked for.
		return nil
	}
	var err error
	if f.tls.installed, err = c.Certificates.Installed(ctx); err != nil || !f.tls.installed {
		return err
	}
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(render.CertificateKind)
	if err := c.Certificates.Client().Get(ctx, key, certificate); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(certificate, component) {
		f.tls.certificate = certificate
	}
	return nil
}

// certify keeps the certificate of a component that speaks TLS. Until it is issued the pods are left as they are: new ones
// could not be started.
func (c *Controller) certify(ctx context.Context, component *platformv1.Component, f *facts, output *render.ComponentOutput) outcome.Outcome {
	switch {
	case output.Certificate == nil && f.tls.certificate != nil:
		// Pods that are still to be replaced have its Secret.
		return outcome.Failed(c.others.Delete(ctx, f.tls.certificate))
	case output.Certificate == nil:
		return outcome.Done()
	case !f.tls.installed:
		return outcome.StalledFor(certmanager.Recheck, platformv1.ReasonCertManagerNotFound, certmanager.Missing)
	}
	if err := controllerutil.SetControllerReference(component, output.Certificate, c.client.Scheme()); err != nil {
		return outcome.Failed(err)
	}
	_, err := c.others.Apply(ctx, output.Certificate)
	if apierrors.IsInvalid(err) {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
	}
	if err != nil {
		return apply.Outcome(err)
	}
	return c.issued(ctx, component, f)
}

// issued says what is missing of the Secret, which goes with the component.
func (c *Controller) issued(ctx context.Context, component *platformv1.Component, f *facts) outcome.Outcome {
	if certmanager.Digest(f.tls.secret) == "" {
		problem := ""
		if f.tls.certificate != nil {
			problem = certmanager.Problem(f.tls.certificate)
		}
		// A Certificate that was just made says nothing, and one whose Secret was deleted is still well for a moment.
		return outcome.Waiting(platformv1.ReasonCertificateNotReady, cmp.Or(problem, "the certificate is being issued"))
	}
	if len(f.tls.secret.Data[plan.CAFile]) == 0 {
		return outcome.Stalled(platformv1.ReasonCertificateNotReady, fmt.Sprintf("Secret %s has no %s: the issuer does not give the certificate of its CA; "+
			"name one that does in tls.issuerRef, or none", f.tls.secret.Name, plan.CAFile))
	}
	if metav1.IsControlledBy(f.tls.secret, component) {
		return outcome.Done()
	}
	_, err := c.applyOwned(ctx, component, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: f.tls.secret.Name},
		Type:       f.tls.secret.Type,
	})
	return apply.Outcome(err)
}

// settleTLS: a certificate that cert-manager says is not good is nothing to be content with.
func settleTLS(f *facts) outcome.Outcome {
	if !f.tls.wanted || f.tls.certificate == nil {
		return outcome.Done()
	}
	if problem := certmanager.Problem(f.tls.certificate); problem != "" {
		return outcome.Waiting(platformv1.ReasonCertificateNotReady, problem)
	}
	return outcome.Done()
}

// reportCertificate says which pods serve a certificate from before. The kubelet brings a new one to a pod within a minute or two.
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
		Type: platformv1.CertificateServedCondition, Status: metav1.ConditionTrue, Reason: platformv1.ReasonCertificateCurrent,
		Message: "every pod serves the present certificate",
	}
	if len(behind) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, platformv1.ReasonCertificateOutdated
		condition.Message = fmt.Sprintf("%s: not yet served by %s", f.tls.secret.Name, strings.Join(behind, ", "))
	}
	conditions.Set(component, condition)
}

// ofIssued wakes the Component whose certificate was issued.
func ofIssued(_ context.Context, obj client.Object) []reconcile.Request {
	application, component := obj.GetLabels()[platformv1.ApplicationLabel], obj.GetLabels()[platformv1.ComponentLabel]
	if secret, ok := obj.(*corev1.Secret); !ok || secret.Type != corev1.SecretTypeTLS || application == "" || component == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: obj.GetNamespace(), Name: platformv1.ComponentNameFor(application, component),
	}}}
}
