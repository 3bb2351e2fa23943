// SPDX-License-Identifier: Apache-2.0

package operator

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

// Controller looks after a kind of an operator that compiles to no Application.
type Controller interface {
	// Object returns an empty object of the kind. The operator's cache has every one.
	Object() client.Object
	// Setup registers the controller with a manager.
	Setup(mgr ctrl.Manager, s ControllerSettings) error
}

// ControllerSettings are what a Controller needs to know of its operator.
type ControllerSettings struct {
	// Workers is how many objects are reconciled at a time.
	Workers *queue.Limit
	// Namespaces that the operator serves; all when nil.
	Namespaces map[string]cache.Config
	// CheckSchedule says what is wrong with a schedule as Applications have them.
	CheckSchedule func(line platformv1.CronLine, zone platformv1.TimeZone) error
}

// setupControllers adds those that the operator has of its own.
func setupControllers(mgr ctrl.Manager, o Options, s settings, l *live) error {
	for _, c := range o.Controllers {
		err := c.Setup(mgr, ControllerSettings{Workers: l.workers, Namespaces: watched(s.watchNamespaces), CheckSchedule: engine.CheckSchedule})
		if err != nil {
			return err
		}
	}
	return nil
}
