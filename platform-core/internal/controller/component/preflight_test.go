// SPDX-License-Identifier: Apache-2.0

package component

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsRefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":          {nil, false},
		"invalid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a-0", nil), true},
		"no such class": {apierrors.NewForbidden(pods, "a-0", errors.New("no PriorityClass with name x was found")), true},
		"quota": {apierrors.NewForbidden(pods, "a-0",
			errors.New("exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3")), false},
		"it is there":     {apierrors.NewAlreadyExists(pods, "a-0"), false},
		"server troubles": {apierrors.NewInternalError(errors.New("webhook")), false},
	} {
		if got := isRefusal(test.err); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
