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

// Judge is a Controller whose objects are judged before they are stored, where the operator has a webhook.
type Judge interface {
	Controller
	// Judge says what is wrong with an object, by what it says alone; nil for nothing. Of the settings it has those that
	// check something.
	Judge(obj client.Object, s ControllerSettings) error
}

// checks are those of the webhook.
func checks(o Options) []engine.Check {
	var all []engine.Check
	settings := ControllerSettings{CheckSchedule: engine.CheckSchedule, CheckTemplate: engine.CheckTemplate}
	for _, c := range o.Controllers {
		if j, judges := c.(Judge); judges {
			all = append(all, engine.Check{Object: c.Object,
				Judge: func(obj client.Object) error { return j.Judge(obj, settings) }})
		}
	}
	return all
}

// ControllerSettings are what a Controller needs to know of its operator.
type ControllerSettings struct {
	// Workers is how many objects are reconciled at a time.
	Workers *queue.Limit
	// Namespaces that the operator serves; all when nil.
	Namespaces map[string]cache.Config
	// CheckSchedule says what is wrong with a schedule as Applications have them.
	CheckSchedule func(line platformv1.CronLine, zone platformv1.TimeZone) error
	// CheckTemplate says what is wrong with an inline template of an Operation.
	CheckTemplate func(text string) error
	// AgentImage is the image of the agents, which a step of an Operation may run.
	AgentImage string
}

// setupControllers adds those that the operator has of its own.
func setupControllers(mgr ctrl.Manager, o Options, s settings, l *live) error {
	for _, c := range o.Controllers {
		err := c.Setup(mgr, ControllerSettings{
			Workers: l.workers, Namespaces: watched(s.watchNamespaces), CheckSchedule: engine.CheckSchedule,
			CheckTemplate: engine.CheckTemplate,
			AgentImage:    s.agentImage,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
