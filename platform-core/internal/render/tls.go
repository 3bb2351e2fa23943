// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// What cert-manager calls things. Its own types would bring in far more than these few fields.
const (
	issuerGroup = "cert-manager.io"
	issuerKind  = "Issuer"
)

var (
	// CertificateKind is cert-manager's kind of certificates.
	CertificateKind = kubeschema.GroupVersionKind{Group: issuerGroup, Version: "v1", Kind: "Certificate"}
	// IssuerKind is its kind of issuers of one namespace.
	IssuerKind = kubeschema.GroupVersionKind{Group: issuerGroup, Version: "v1", Kind: issuerKind}
)

// Times as cert-manager writes them.
const (
	authorityLife    = "87600h0m0s" // 10 years
	certificateLife  = "2160h0m0s"  // 90 days
	certificateRenew = "720h0m0s"   // 30 days
)

// tls is what a component has of it: nothing when it is off.
func tls(wanted *platformv1.TLS) *platformv1.TLS {
	if !wanted.On() {
		return nil
	}
	return wanted.DeepCopy()
}

func checkTLS(b *plugin.Bundle, spec *platformv1.ComponentSpec, declared *schema.Component) *Refusal {
	if !spec.TLS.On() || declared.TLS != nil {
		return nil
	}
	return refuse(platformv1.ReasonInvalidSpec,
		"tls.enabled is set, and component %q of plugin %q %s cannot speak TLS: take it out",
		spec.Component, b.Manifest.Name, b.Manifest.Version)
}

// Authority returns the CA that an Application has of its own, as objects of cert-manager without labels: an Issuer
// that signs itself, the CA's Certificate, and the Issuer that signs with it. None when the user names an issuer, or
// wants no TLS.
func Authority(app *platformv1.Application) []*unstructured.Unstructured {
	if !app.Spec.TLS.On() || app.Spec.TLS.IssuerRef != nil {
		return nil
	}
	name, root := platformv1.AuthorityNameFor(app.Name), platformv1.SelfSignedNameFor(app.Name)
	return []*unstructured.Unstructured{
		certManagerObject(IssuerKind, app.Namespace, root, map[string]any{"selfSigned": map[string]any{}}),
		certManagerObject(CertificateKind, app.Namespace, name, map[string]any{
			"isCA":       true,
			"commonName": name,
			"secretName": name,
			"duration":   authorityLife,
			// Whatever the key signed is trusted under the next certificate as well, so that members go on trusting each other
			// while some have a certificate of before and some one of after.
			"privateKey": privateKey("Never"),
			"issuerRef":  map[string]any{"name": root, "kind": issuerKind, "group": issuerGroup},
		}),
		certManagerObject(IssuerKind, app.Namespace, name, map[string]any{"ca": map[string]any{"secretName": name}}),
	}
}

func certManagerObject(kind kubeschema.GroupVersionKind, namespace, name string,
	spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// privateKey is of a certificate whose renewal comes with another key (Always) or the same one (Never).
func privateKey(rotation string) map[string]any {
	return map[string]any{"algorithm": "ECDSA", "size": int64(256), "rotationPolicy": rotation}
}

// LabelIssued has cert-manager label the Secret of a Certificate as the Certificate itself, so that the engine sees it.
func LabelIssued(certificate *unstructured.Unstructured, labels map[string]string) {
	certificate.SetLabels(labels)
	if certificate.GetKind() == CertificateKind.Kind {
		// The path is a map that this package made.
		_ = unstructured.SetNestedStringMap(certificate.Object, labels, "spec", "secretTemplate", "labels")
	}
}

// certificate is for all names of the Services of the component and of its pods; nil without TLS.
func (c *context) certificate(services []*corev1.Service) *unstructured.Unstructured {
	if !c.spec.TLS.On() {
		return nil
	}
	issuer := map[string]any{"name": platformv1.AuthorityNameFor(c.owner.Application), "kind": issuerKind,
		"group": issuerGroup}
	if wanted := c.spec.TLS.IssuerRef; wanted != nil {
		issuer = map[string]any{"name": wanted.Name, "kind": cmp.Or(wanted.Kind, issuerKind),
			"group": cmp.Or(wanted.Group, issuerGroup)}
	}
	name := platformv1.CertificateNameFor(c.owner.Application, c.spec.Component)
	certificate := certManagerObject(CertificateKind, c.owner.Namespace, name, map[string]any{
		"secretName":  name,
		"duration":    certificateLife,
		"renewBefore": certificateRenew,
		"privateKey":  privateKey("Always"),
		"usages":      []any{"digital signature", "server auth", "client auth"},
		"dnsNames":    c.dnsNames(services),
		"ipAddresses": []any{"127.0.0.1", "::1"},
		"issuerRef":   issuer,
	})
	LabelIssued(certificate, c.labels())
	return certificate
}

// dnsNames are the names of each Service, and, below the headless one, of each pod that there may ever be.
func (c *context) dnsNames(services []*corev1.Service) []any {
	headless := plugin.HeadlessServiceName(c.owner.Application, c.spec.Component)
	var names []any
	for _, service := range services {
		for _, prefix := range []string{"", "*."} {
			if prefix != "" && service.Name != headless {
				continue
			}
			for _, domain := range []string{"", "." + c.owner.Namespace, "." + c.owner.Namespace + ".svc", "." +
				c.owner.Namespace + ".svc." + c.settings.ClusterDomain} {
				names = append(names, prefix+service.Name+domain)
			}
		}
	}
	return slices.Concat(names, []any{"localhost"})
}
