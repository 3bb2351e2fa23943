// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/operator/internal/scope"
)

const (
	// standDownPatience is how long an operator may take to end and give its lease back.
	standDownPatience = 45 * time.Second
	// standDownLook is how often the lease is looked at meanwhile.
	standDownLook = 200 * time.Millisecond
)

// standDown stops the operator and waits until nobody holds its lease. Helm deletes rights and
// Deployment in one go: an operator that ends after its rights could not give the lease back, and the
// next one would wait until it has run out.
func standDown(ctx context.Context, live client.Client, out io.Writer, deployment types.NamespacedName,
	lease string) error {
	stopped := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	none := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	err := live.SubResource("scale").Patch(ctx, stopped, none, client.WithSubResourceBody(&autoscalingv1.Scale{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot stop Deployment %q: %w", deployment, err)
	}
	key := types.NamespacedName{Namespace: deployment.Namespace, Name: lease}
	holder := ""
	err = wait.PollUntilContextTimeout(ctx, standDownLook, standDownPatience, true,
		func(ctx context.Context) (bool, error) {
			found := &coordinationv1.Lease{}
			if err := live.Get(ctx, key, found); err != nil {
				return true, client.IgnoreNotFound(err)
			}
			holder = scope.HolderAt(found, time.Now())
			return holder == "", nil
		})
	if wait.Interrupted(err) && ctx.Err() == nil {
		// It costs the next operator a wait, and no one anything else.
		fmt.Fprintf(out, "%s still holds the lease %q after %v\n", holder, key, standDownPatience)
		return nil
	}
	return err
}
