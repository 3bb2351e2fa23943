// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// NameOf returns the name of the Application that a target is or compiles to. That of a typed object follows from the
// name of the object, unless the object took over the instance of another one.
func NameOf(ctx context.Context, reader client.Reader, namespace string, target opsflow.Target) (string, error) {
	if target.Kind != opsflow.TargetTyped {
		return target.Application, nil
	}
	app := &platformv1.Application{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: target.Application}, app)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("cannot read Application %q: %w", target.Application, err)
	case err == nil && target.Owns(app):
		return target.Application, nil
	}
	var adopted platformv1.ApplicationList
	err = reader.List(ctx, &adopted, client.InNamespace(namespace),
		client.MatchingLabels{platformv1.DeclaredAsLabel: target.Application})
	if err != nil {
		return "", fmt.Errorf("cannot list the Applications that others took over: %w", err)
	}
	for i := range adopted.Items {
		if target.Owns(&adopted.Items[i]) {
			return adopted.Items[i].Name, nil
		}
	}
	return target.Application, nil
}
