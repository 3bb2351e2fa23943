// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentplan "github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/certmanager"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// tlsFacts are what one turn knows of the TLS of an instance.
type tlsFacts struct {
	wanted bool
	// installed says that cert-manager is there.
	installed bool
	// authority is the Secret of the instance's own CA; nil when there is none.
	authority *corev1.Secret
	// issued are the Secrets of the certificates that are there, by component.
	issued map[string]*corev1.Secret
}

func (c *Controller) observeTLS(ctx context.Context, app *platformv1.Application, f *facts) error {
	f.tls = tlsFacts{wanted: app.Spec.TLS.On(), issued: map[string]*corev1.Secret{}}
	read := func(name string) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: name}, secret)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return secret, nil
	}
	authority, err := read(platformv1.AuthorityNameFor(app.Name))
	if err != nil {
		return err
	}
	f.tls.authority = authority
	if !f.tls.wanted && f.tls.authority == nil {
		return nil
	}
	if f.tls.installed, err = c.Certificates.Installed(ctx); err != nil {
		return err
	}
	for name := range f.components {
		secret, err := read(platformv1.CertificateNameFor(app.Name, name))
		if err != nil {
			return err
		}
		if secret != nil {
			f.tls.issued[name] = secret
		}
	}
	return nil
}

// checkCertManager says what to install when TLS is wanted and cannot be had.
func checkCertManager(f *facts) *outcome.Outcome {
	if !f.tls.wanted || f.tls.installed {
		return nil
	}
	o := outcome.StalledFor(certmanager.Recheck, platformv1.ReasonCertManagerNotFound, certmanager.Missing)
	return &o
}

// ca returns the certificate of the CA that issued the certificate of a component; known is false while that is not issued.
// It is empty without TLS.
func (f *facts) ca(component string) (ca []byte, known bool) {
	if !f.tls.wanted {
		return nil, true
	}
	secret := f.tls.issued[component]
	if secret == nil {
		return nil, false
	}
	ca = secret.Data[agentplan.CAFile]
	return ca, len(ca) > 0
}

// ensureAuthority keeps the CA that an instance has of its own, and has its Secret go with its Certificate.
func (c *Controller) ensureAuthority(ctx context.Context, app *platformv1.Application, f *facts) error {
	wanted := render.Authority(app)
	for _, object := range wanted {
		render.LabelIssued(object, meta(app, object.GetName(), "").Labels)
		if err := controllerutil.SetControllerReference(app, object, c.client.Scheme()); err != nil {
			return err
		}
		if _, err := c.issue.Apply(ctx, object); err != nil {
			return err
		}
	}
	if len(wanted) == 0 {
		return c.dissolve(ctx, app, f)
	}
	if f.tls.authority == nil {
		return nil
	}
	certificate := &unstructured.Unstructured{}
	certificate.SetGroupVersionKind(render.CertificateKind)
	if err := c.Certificates.Client().Get(ctx, client.ObjectKeyFromObject(f.tls.authority), certificate); err != nil {
		// One that was just made wakes us when the cache has it.
		return client.IgnoreNotFound(err)
	}
	return certmanager.Bind(ctx, c.apply, f.tls.authority, certificate)
}

// dissolve removes a CA that is no longer wanted. Its Secret goes with its Certificate.
func (c *Controller) dissolve(ctx context.Context, app *platformv1.Application, f *facts) error {
	if f.tls.authority == nil || !f.tls.installed {
		return nil
	}
	name := platformv1.AuthorityNameFor(app.Name)
	for _, id := range []struct {
		kind schema.GroupVersionKind
		name string
	}{{render.IssuerKind, name}, {render.CertificateKind, name}, {render.IssuerKind, platformv1.SelfSignedNameFor(app.Name)}} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(id.kind)
		err := c.Certificates.Client().Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: id.name}, object)
		if err == nil && metav1.IsControlledBy(object, app) {
			err = c.issue.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// ofIssued wakes the Application whose certificate was issued.
func ofIssued(_ context.Context, obj client.Object) []reconcile.Request {
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	// Those of the pods' agents belong to a set.
	if secret, ok := obj.(*corev1.Secret); !ok || secret.Type != corev1.SecretTypeTLS || application == "" || obj.GetLabels()[platformv1.SetLabel] != "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: application}}}
}
