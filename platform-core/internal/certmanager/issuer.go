// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// clusterIssuer is the kind of issuers for all namespaces.
const clusterIssuer = "ClusterIssuer"

// IssuerProblem says why an issuer that a user named cannot issue, and what to do; "" when nothing is known to be
// wrong, as with an issuer that another project provides. It is read live: users' issuers are not watched.
func IssuerProblem(ctx context.Context, live client.Reader, namespace string, named *platformv1.IssuerReference) (
	string, error) {
	if named == nil {
		return "", nil
	}
	kind := schema.GroupVersionKind{Group: cmp.Or(named.Group, render.IssuerKind.Group),
		Version: render.IssuerKind.Version, Kind: cmp.Or(named.Kind, render.IssuerKind.Kind)}
	if kind.Group != render.IssuerKind.Group {
		return "", nil
	}
	where := fmt.Sprintf("namespace %q", namespace)
	switch kind.Kind {
	case render.IssuerKind.Kind:
	case clusterIssuer:
		namespace, where = "", "the cluster"
	default:
		return fmt.Sprintf("tls.issuerRef.kind is %s: cert-manager has the kinds %s and %s", kind.Kind,
			render.IssuerKind.Kind, clusterIssuer), nil
	}
	issuer := &unstructured.Unstructured{}
	issuer.SetGroupVersionKind(kind)
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: named.Name}, issuer)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %q, which tls.issuerRef names, is not in %s: create it, or name another one", kind.Kind,
			named.Name, where), nil
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		// An operator of some namespaces may not look at the cluster's.
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot read %s %q: %w", kind.Kind, named.Name, err)
	}
	return issuerProblem(issuer), nil
}

// issuerProblem is what an issuer says of itself; one that cert-manager has not looked at yet says nothing.
func issuerProblem(issuer *unstructured.Unstructured) string {
	ready := readyOf(issuer)
	if ready == nil || ready["status"] == string(metav1.ConditionTrue) {
		return ""
	}
	kind, name := issuer.GetKind(), issuer.GetName()
	message, _ := ready["message"].(string)
	return fmt.Sprintf("%s %q, which tls.issuerRef names, is not ready: %s; mend it or name another one; kubectl "+
		"describe %s %s says more",
		kind, name, message, strings.ToLower(kind), name)
}
