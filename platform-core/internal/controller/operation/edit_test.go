// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/outermost"
)

// emptied is an API server that has nothing any more.
type emptied struct{ client.Reader }

func (emptied) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: platformv1.GroupVersion.Group, Resource: "applications"},
		key.Name)
}

// What was deleted a moment ago, and is in the cache still, fails no step: the run ends once the cache knows.
func TestAnEditOfWhatWasDeletedAMomentAgoIsTriedAgain(t *testing.T) {
	c := &Controller{editor: outermost.Editor{Live: emptied{}}}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "a"}}
	answer, err := c.edit(t.Context(), &observation{facts: opsflow.Facts{Application: app}}, &opsflow.Edit{})
	if err != nil || answer == nil || answer.Failure != opsflow.FailureUnreachable {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
}
