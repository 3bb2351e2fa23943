// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// report fills in the status but for conditions and phase. output is nil when
// nothing could be rendered; the endpoints stay as they were then.
func report(component *platformv1.Component, f *facts, output *render.ComponentOutput) {
	s := &component.Status
	s.ReadyReplicas, s.Sets, s.Pods = 0, nil, nil
	version, agreed := "", true
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		set := f.sets[name]
		s.ReadyReplicas += set.Status.ReadyReplicas
		state := platformv1.SetState{
			Name: set.Spec.Set, Phase: set.Status.Phase, Replicas: set.Spec.Replicas,
			ReadyReplicas: set.Status.ReadyReplicas, UpdatedReplicas: set.Status.UpdatedReplicas,
			Restore: set.Status.Restore.DeepCopy(),
		}
		if set.Status.Primary != nil {
			state.Term, state.SynchronousReplicas = set.Status.Primary.Term, certainCopies(set.Status.Primary)
			state.Changes = set.Status.Primary.DeepCopy().Changes
		}
		s.Sets = append(s.Sets, state)
		for _, pod := range set.Status.Pods {
			pod.Set = set.Spec.Set
			s.Pods = append(s.Pods, pod)
		}
		agreed = agreed && (version == "" || set.Status.Version == version)
		version = set.Status.Version
	}
	s.Replicas = component.WantedPods()
	s.Version = ""
	if agreed {
		s.Version = version
	}
	reportCertificate(component, f)
	reportAutoscaled(component, f)
	conditions.Sum(component, platformv1.RestoredCondition, conditions.Parts(f.sets))
	conditions.SumDeclared(component, conditions.Parts(f.sets), platformv1.MembershipConditions...)
	if output != nil {
		s.Endpoints = slices.Clone(output.Endpoints)
	}
	for i := range s.Endpoints {
		reachable(&s.Endpoints[i], f.services[s.Endpoints[i].Name])
	}
}

// certainCopies are those that there are of each write, whichever list the writer goes by.
func certainCopies(w *platformv1.PrimaryRecord) int32 {
	if w.Previous != nil {
		return min(w.List.SynchronousReplicas, w.Previous.SynchronousReplicas)
	}
	return w.List.SynchronousReplicas
}

// reachable fills in what the cluster gave the Service for those outside of it.
func reachable(endpoint *platformv1.Endpoint, service *corev1.Service) {
	endpoint.NodePort, endpoint.ExternalHost = 0, ""
	if service == nil || service.Spec.Type == corev1.ServiceTypeClusterIP {
		return
	}
	for _, port := range service.Spec.Ports {
		if port.Port == endpoint.Port {
			endpoint.NodePort = port.NodePort
		}
	}
	if ingress := service.Status.LoadBalancer.Ingress; len(ingress) > 0 {
		endpoint.ExternalHost = cmp.Or(ingress[0].Hostname, ingress[0].IP)
	}
}

func finish(component *platformv1.Component, o outcome.Outcome) {
	if o.Kind() == outcome.KindDone {
		component.Status.UpdatedGeneration = component.Generation
	}
	component.Status.Phase = frame.Phase(component, component.Status.Phase, component.Status.Version)
}
