// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"strconv"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// doorComponent of the plugin takes requests in topology doorTopology. Its Service has the same name.
const (
	doorComponent = "door"
	doorTopology  = "server-door"
)

// needed are the pods of servers, or how they are scaled: none while no request comes. The first ones come without an
// autoscaler, which leaves a set alone that has none.
func needed(phase aiv1.IdlePhase, spec *aiv1.InferenceSpec) (*int32, *platformv1.Autoscaling) {
	count, scaled := replicas(spec)
	switch {
	case phase == aiv1.IdleNoServers:
		return new(int32(0)), nil
	case phase == aiv1.IdleStarting && scaled != nil:
		return new(scaled.MinReplicas), nil
	}
	return count, scaled
}

// door adds the door where there is to be one, with the settings of the Service that clients go to. Its pods run where
// those of the servers do, with resources of their own: they need no GPU. It returns nil for none.
func door(app *platformv1.Application, i *aiv1.Inference) *platformv1.ApplicationComponent {
	idle := i.Spec.Idle
	if idle == nil {
		return nil
	}
	app.Spec.Topology = doorTopology
	main := &app.Spec.Components[0]
	parameters := platformv1.Parameters{}
	seconds(parameters, "idle.after", idle.After)
	seconds(parameters, "idle.maxWait", idle.MaxWait)
	seconds(parameters, "drain.timeout", i.Spec.DrainTimeout)
	if idle.MaxWaiting != nil {
		parameters["idle.maxWaiting"] = platformv1.ParameterValue(strconv.Itoa(int(*idle.MaxWaiting)))
	}
	app.Spec.Components = append(app.Spec.Components, platformv1.ApplicationComponent{Name: doorComponent,
		Replicas: idle.Doors, Parameters: parameters, Service: main.Service, Monitoring: main.Monitoring,
		Scheduling: main.Scheduling.DeepCopy()})
	app.Spec.Components[0].Service = nil
	return &app.Spec.Components[1]
}

// reportIdle says whether there are servers.
func reportIdle(i *aiv1.Inference) {
	i.Status.Idle = nil
	if i.Spec.Idle == nil {
		return
	}
	p := i.IdleProgress()
	i.Status.Idle = &aiv1.InferenceIdleStatus{Phase: cmp.Or(p.Phase, aiv1.IdleActive)}
	if !p.Since.IsZero() {
		i.Status.Idle.Since = &p.Since
	}
}
