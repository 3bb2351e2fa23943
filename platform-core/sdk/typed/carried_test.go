// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"maps"
	"testing"
)

// What people say of an object is said of its Application, too; what tools say of it is not.
func TestCarriedLabels(t *testing.T) {
	got := carried(map[string]string{
		"tier": "gold", "example.com/team": "shop", "app.kubernetes.io/name": "cart",
		"app.kubernetes.io/instance": "cart-prod", "app.kubernetes.io/managed-by": "Helm",
		"argocd.argoproj.io/instance":      "cart",
		"kustomize.toolkit.fluxcd.io/name": "cart", "platform.zeroinfra.github.com/domain": "message",
	})
	if want := map[string]string{"tier": "gold", "example.com/team": "shop",
		"app.kubernetes.io/name": "cart"}; !maps.Equal(got, want) {
		t.Errorf("they are %v, want %v", got, want)
	}
}
