// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"maps"
	"slices"

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
	"github.com/zeroinfra/platform-core/internal/pki"
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
	// kept is the Secret with the authorities to trust; nil when there is none. trust is what it is to have.
	kept  *corev1.Secret
	trust []byte
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
	if f.tls.kept, err = read(platformv1.TrustNameFor(app.Name)); err != nil {
		return err
	}
	if !f.tls.wanted && f.tls.authority == nil && f.tls.kept == nil {
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
	f.tls.trust = f.trusted(app)
	return nil
}

// trusted are the authorities that members and clients are to trust, as PEM.
func (f *facts) trusted(app *platformv1.Application) []byte {
	var t pki.Trust
	// The Issuer signs with this one. An issuer that users name shows its own only with what it issued.
	if f.tls.authority != nil && app.Spec.TLS.On() && app.Spec.TLS.IssuerRef == nil {
		t.Authority = f.tls.authority.Data[agentplan.CertificateFile]
	}
	if f.tls.kept != nil {
		t.Former = f.tls.kept.Data[agentplan.CAFile]
	}
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		secret := f.tls.issued[name]
		if secret != nil {
			t.Issued = append(t.Issued, pki.Issued{
				Certificate: secret.Data[agentplan.CertificateFile], CA: secret.Data[agentplan.CAFile],
			})
		}
		present := certmanager.Digest(secret)
		t.Behind = t.Behind || slices.ContainsFunc(f.components[name].Status.Pods, func(pod platformv1.PodState) bool {
			return pod.CertificateDigest != present
		})
	}
	return t.Bundle()
}

// ensureTrust keeps the Secret with the authorities to trust, which the pods mount. It keeps former authorities, too,
// which may be nowhere else. Without TLS it stays until the Application goes, since an engine has no right to delete
// Secrets.
func (c *Controller) ensureTrust(ctx context.Context, app *platformv1.Application, f *facts) error {
	if !f.tls.wanted || len(f.tls.trust) == 0 {
		return nil
	}
	_, err := c.applyOwned(ctx, app, &corev1.Secret{
		ObjectMeta: meta(app, platformv1.TrustNameFor(app.Name), ""),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{agentplan.CAFile: f.tls.trust},
	})
	return err
}

// checkCertManager says what to install when TLS is wanted and cannot be had.
func checkCertManager(f *facts) *outcome.Outcome {
	if !f.tls.wanted || f.tls.installed {
		return nil
	}
	o := outcome.StalledFor(certmanager.Recheck, platformv1.ReasonCertManagerNotFound, certmanager.Missing)
	return &o
}

// ca returns the CAs that clients of a component are to trust; known is false while its certificate is not issued. It
// is empty without TLS.
func (f *facts) ca(component string) (ca []byte, known bool) {
	if !f.tls.wanted {
		return nil, true
	}
	if secret := f.tls.issued[component]; secret == nil || len(secret.Data[agentplan.CAFile]) == 0 {
		return nil, false
	}
	return f.tls.trust, len(f.tls.trust) > 0
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
	}{{render.IssuerKind, name}, {render.CertificateKind, name},
		{render.IssuerKind, platformv1.SelfSignedNameFor(app.Name)}} {
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
	if secret, ok := obj.(*corev1.Secret); !ok || secret.Type != corev1.SecretTypeTLS || application == "" ||
		obj.GetLabels()[platformv1.SetLabel] != "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: application}}}
}
