// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

func withTLS(issuer *platformv1.IssuerReference) func(*platformv1.Application) {
	return func(app *platformv1.Application) { app.Spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer} }
}

func TestTLSIsRefusedWhereThePluginCannot(t *testing.T) {
	b := loadRelay(t)
	app := application(withTLS(nil))
	app.Spec.Plugin, app.Spec.Version, app.Spec.Topology = "relay", b.Manifest.SupportedVersions[0],
		b.Components.Topologies[0].Name
	_, refusal := Components(b, app)
	if refusal == nil || refusal.Reason != platformv1.ReasonInvalidSpec ||
		!strings.Contains(refusal.Message, `of plugin "relay" 1.0.0 cannot speak TLS`) {
		t.Errorf("got %v", refusal)
	}
}

func loadRelay(t *testing.T) *plugin.Bundle {
	t.Helper()
	sources, errs := plugin.LoadFolder(os.DirFS("../plugin/testdata/relay/1.0.0"), "relay")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	bundle, errs := plugin.Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return bundle
}

// TLS that is off is none; on, it is another pod; and who issues is nothing that a pod knows.
func TestRevisionKnowsTLSAndNotItsIssuer(t *testing.T) {
	b := redis(t)
	without, _ := render(t, b, settings, application(nil))
	off, output := render(t, b, settings,
		application(func(app *platformv1.Application) { app.Spec.TLS = &platformv1.TLS{} }))
	if off.Spec.Revision != without.Spec.Revision || string(off.Spec.Plan.Raw) != string(without.Spec.Plan.Raw) ||
		output.Certificate != nil {
		t.Error("TLS that is off changes something")
	}
	own, first := render(t, b, settings, application(withTLS(nil)))
	if own.Spec.Revision == without.Spec.Revision {
		t.Error("TLS does not change the revision")
	}
	named, second := render(t, b, settings,
		application(withTLS(&platformv1.IssuerReference{Name: "house", Kind: "ClusterIssuer"})))
	if named.Spec.Revision != own.Spec.Revision || string(named.Spec.Template.Raw) != string(own.Spec.Template.Raw) ||
		string(named.Spec.Plan.Raw) != string(own.Spec.Plan.Raw) {
		t.Error("another issuer changes the pods")
	}
	for name, output := range map[string]*ComponentOutput{"cache-ca": first, "house": second} {
		if got, _, _ := unstructured.NestedString(output.Certificate.Object, "spec", "issuerRef", "name"); got != name {
			t.Errorf("the issuer is %q; want %q", got, name)
		}
	}
}

func TestAuthorityIsForThoseWithoutAnIssuer(t *testing.T) {
	if got := Authority(application(withTLS(nil))); len(got) != 3 {
		t.Errorf("got %v", got)
	}
	for name, app := range map[string]*platformv1.Application{
		"issuer": application(withTLS(&platformv1.IssuerReference{Name: "house"})), "no TLS": application(nil),
		"off": application(func(app *platformv1.Application) { app.Spec.TLS = &platformv1.TLS{} }),
	} {
		if got := Authority(app); len(got) != 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A CA that is renewed has its key again: what it signed before is trusted under its next certificate, and the other
// way round.
func TestARenewedAuthorityIsTheSameKey(t *testing.T) {
	_, output := render(t, redis(t), settings, application(withTLS(nil)))
	for name, want := range map[string]struct {
		certificate *unstructured.Unstructured
		rotation    string
	}{"CA": {Authority(application(withTLS(nil)))[1], "Never"}, "component": {output.Certificate, "Always"}} {
		got, _, _ := unstructured.NestedString(want.certificate.Object, "spec", "privateKey", "rotationPolicy")
		if got != want.rotation {
			t.Errorf("the key of the %s goes by %q when its certificate is renewed, want %q", name, got, want.rotation)
		}
	}
}

func TestBindingOfTLS(t *testing.T) {
	b := redis(t)
	_, output := render(t, b, settings, application(withTLS(nil)))
	data := Binding(b, "cache", "standalone", output.Endpoints, Login{Username: "default", Password: "p"}, []byte("CA"))
	if string(data["ca.crt"]) != "CA" || string(data["uri"]) != "rediss://default:p@cache.shop.svc:6379" {
		t.Errorf("got %q", data)
	}
}
