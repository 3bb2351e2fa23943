// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Instance compiles, reports and writes through what platformv1.InstanceSpec and InstanceStatus cover, for a kind
// whose objects each run one instance. The kind adds what is special to it.
type Instance struct {
	// Plugin is the name of the plugin that knows the middleware.
	Plugin string
	// PluginVersion is the version for an object that names none.
	PluginVersion string
	// Component is the one that the fields of the spec are about, by its name in the plugin.
	Component string
	// Size of each volume of the component where the spec names none; zero for a component without volumes. It never
	// changes once it is released: a volume cannot shrink.
	Size resource.Quantity
	// Role of the pods that status.endpoint leads to; empty for any.
	Role string
	// Replicas is the field of the object, such as replicas, that counts the pods of each set beside its primary.
	// Operations do not change the number of pods when it is empty.
	Replicas string
	// Sets is the field of the object, such as shards, that counts the sets of the component; empty where there is one.
	Sets string
	// Whole is what has one primary, in words such as "a Redis". It is used where Replicas is.
	Whole string
}

// Application returns what an object with this spec compiles to: topology and the number of pods are the kind's to
// add. The first component is Component, whose parameters are never nil: the kind sets those that are its fields.
func (i *Instance) Application(from *platformv1.InstanceSpec,
	version platformv1.PluginVersion) *platformv1.Application {
	spec := from.DeepCopy()
	app := &platformv1.Application{Spec: platformv1.ApplicationSpec{
		Plugin:        i.Plugin,
		PluginVersion: cmp.Or(string(version), i.PluginVersion),
		Version:       spec.Version,
		Components: []platformv1.ApplicationComponent{{
			Name:                i.Component,
			Resources:           spec.Resources,
			Storage:             i.storage(&spec.Storage),
			Parameters:          spec.Parameters,
			Service:             spec.Service,
			Scheduling:          spec.Scheduling,
			PodDisruptionBudget: spec.PodDisruptionBudget,
			Monitoring:          spec.Monitoring,
		}},
		NetworkPolicy:    spec.NetworkPolicy,
		TLS:              spec.TLS,
		Maintenance:      spec.Maintenance,
		Schedules:        spec.Schedules,
		Suspend:          spec.Suspend,
		DeletionPolicy:   cmp.Or(spec.DeletionPolicy, platformv1.DeletionPolicyRetain),
		DataProtection:   spec.DataProtection,
		RestoreFrom:      spec.RestoreFrom,
		OperationHistory: spec.OperationHistory,
	}}
	if spec.Running != nil && !*spec.Running {
		// It is written down only where it is false: true is the default.
		app.Spec.Running = spec.Running
	}
	if main := &app.Spec.Components[0]; main.Parameters == nil {
		main.Parameters = platformv1.Parameters{}
	}
	return app
}

// storage of each pod; nil for a component without volumes.
func (i *Instance) storage(asked *platformv1.InstanceStorage) *platformv1.Storage {
	if i.Size.IsZero() {
		return nil
	}
	size := asked.Size
	if size.IsZero() {
		size = i.Size.DeepCopy()
	}
	return &platformv1.Storage{Size: size, StorageClassName: asked.StorageClassName}
}

// Report fills in all of the status but the conditions, the phase and observedGeneration, which the frame fills in.
func (i *Instance) Report(s *platformv1.InstanceStatus, app *platformv1.Application) {
	from := app.Status.DeepCopy()
	s.Application, s.Version, s.Ready, s.Schedules = app.Name, from.Version, from.Ready, from.Schedules
	s.LastBackup, s.LastVerifiedRestore = from.LastBackup, from.LastVerifiedRestore
	s.Endpoint, s.BindingName, s.Members = EndpointOf(app, i.Role), "", nil
	if from.Binding != nil {
		s.BindingName = from.Binding.Name
	}
	for _, c := range from.Components {
		for _, pod := range c.Pods {
			if pod.Role == "" {
				continue
			}
			member := platformv1.InstanceMember{Name: pod.Name, Role: pod.Role}
			if pod.Set != platformv1.DefaultSet {
				member.Shard = pod.Set
			}
			s.Members = append(s.Members, member)
		}
	}
}

// EndpointOf returns the address, as "host:port", of the first Service of an Application for pods of a role, which is
// empty for any pod; empty when there is none.
func EndpointOf(app *platformv1.Application, role string) string {
	for _, e := range app.Status.Endpoints {
		if e.Role == role {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}

// WriteThrough returns the fields that Operations change of any instance, as Writer has them. The map is the caller's
// to add to.
func (i *Instance) WriteThrough() map[string]string {
	of := "components[" + i.Component + "]."
	fields := map[string]string{
		"running": "running", "version": "version", "pluginVersion": "pluginVersion", of + "resources": "resources", of +
			"parameters": "parameters",
	}
	if !i.Size.IsZero() {
		fields[of+"storage.size"] = "storage.size"
	}
	if i.Replicas != "" {
		fields[of+"replicas"] = i.Replicas
	}
	if i.Sets != "" {
		fields[of+"sets.count"] = i.Sets
	}
	return fields
}

// Convert implements Converter for a kind that counts the replicas beside a primary: the Application counts pods.
func (i *Instance) Convert(field string, value any) (any, error) {
	if i.Replicas == "" || field != "components["+i.Component+"].replicas" {
		return value, nil
	}
	pods, ok := value.(int64)
	if !ok || pods < 1 {
		return nil, fmt.Errorf("%v pods are asked for, and %s has 1 at least: its primary. To have none, use the Operation "+
			"Stop", value, i.Whole)
	}
	return pods - 1, nil
}
