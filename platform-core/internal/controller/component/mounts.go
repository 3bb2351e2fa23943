// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// mountable waits for what a user names as volumes, before pods are made with them: a pod with a volume that is not
// there starts on no node.
func (c *Controller) mountable(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	if len(component.Spec.Mounts) == 0 || !f.replaces(output) {
		return outcome.Done()
	}
	for i := range component.Spec.Mounts {
		problem, err := c.mountProblem(ctx, component, &component.Spec.Mounts[i])
		switch {
		case err != nil:
			return outcome.Failed(err)
		case problem != "":
			return outcome.WaitingFor(refusedRecheck, platformv1.ReasonVolumeUnavailable,
				fmt.Sprintf("mount %q: %s", component.Spec.Mounts[i].Name, problem))
		}
	}
	return outcome.Done()
}

// replaces says whether pods of a set are to be made of another template.
func (f *facts) replaces(output *render.ComponentOutput) bool {
	for _, wanted := range output.WorkloadSets {
		if live := f.sets[wanted.Name]; live == nil || live.Spec.Revision != wanted.Spec.Revision {
			return true
		}
	}
	return false
}

// mountProblem says why the object that a mount names cannot be mounted; empty where it can, or where it names none.
func (c *Controller) mountProblem(ctx context.Context, component *platformv1.Component,
	m *platformv1.Mount) (string, error) {
	var named client.Object
	var kind, name string
	switch {
	case m.PersistentVolumeClaim != nil:
		named, kind, name = &corev1.PersistentVolumeClaim{}, "PersistentVolumeClaim", m.PersistentVolumeClaim.Name
	case m.ConfigMap != nil:
		named, kind, name = &corev1.ConfigMap{}, "ConfigMap", m.ConfigMap.Name
	case m.Secret != nil:
		named, kind, name = &corev1.Secret{}, "Secret", m.Secret.Name
	default:
		return "", nil
	}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: component.Namespace, Name: name}, named)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("there is no %s %q: create it in namespace %q", kind, name, component.Namespace), nil
	case err != nil:
		return "", fmt.Errorf("cannot read %s %q of a mount: %w", kind, name, err)
	case named.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("%s %q is being deleted: name another one", kind, name), nil
	}
	if app := named.GetLabels()[platformv1.ApplicationLabel]; app != "" && m.PersistentVolumeClaim != nil {
		return fmt.Sprintf("PersistentVolumeClaim %q has data of a pod of Application %q, which is that pod's "+
			"alone: name another one", name, app), nil
	}
	return "", nil
}
