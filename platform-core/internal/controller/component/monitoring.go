// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
)

// noPodMonitors says what to do where the Prometheus Operator is not installed.
const noPodMonitors = "the pods serve their metrics, and the cluster has no kind PodMonitor " +
	"(monitoring.coreos.com/v1) to say so: " +
	"install the Prometheus Operator, or have your Prometheus read them by another way; once the kind is there, this " +
	"goes on by itself"

// monitoringFacts are what one turn knows of the metrics of a component.
type monitoringFacts struct {
	// installed says that the kind PodMonitor is there.
	installed bool
	// monitor that the component owns; nil when there is none.
	monitor *unstructured.Unstructured
}

// observeMonitoring looks for a PodMonitor only where one is wanted, or was: the condition stays until it is gone.
func (c *Controller) observeMonitoring(ctx context.Context, component *platformv1.Component, f *facts) error {
	if !component.Spec.Monitoring.On() && conditions.Get(component, platformv1.MonitoredCondition) == nil {
		return nil
	}
	var err error
	if f.monitoring.installed, err = c.Monitors.Installed(ctx); err != nil || !f.monitoring.installed {
		return err
	}
	monitor := &unstructured.Unstructured{}
	monitor.SetGroupVersionKind(render.PodMonitorKind)
	if err := c.Monitors.Client().Get(ctx, client.ObjectKeyFromObject(component), monitor); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(monitor, component) {
		f.monitoring.monitor = monitor
	}
	return nil
}

// monitor keeps the PodMonitor, says in a condition how that went, and returns how soon to look again; 0 for not before
// something changes. The instance itself is well without it.
func (c *Controller) monitor(ctx context.Context, component *platformv1.Component, f *facts,
	wanted *unstructured.Unstructured) time.Duration {
	report := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(component, metav1.Condition{Type: platformv1.MonitoredCondition, Status: status, Reason: reason,
			Message: message})
	}
	switch {
	case wanted == nil && f.monitoring.monitor != nil:
		if err := c.others.Delete(ctx, f.monitoring.monitor); err != nil {
			report(metav1.ConditionFalse, platformv1.ReasonPodMonitorRefused, "the PodMonitor cannot be removed: "+err.Error())
			return refusedRecheck
		}
		return frame.Recheck
	case wanted == nil:
		conditions.Remove(component, platformv1.MonitoredCondition)
		return 0
	case !f.monitoring.installed:
		report(metav1.ConditionFalse, platformv1.ReasonPodMonitorNotFound, noPodMonitors)
		c.Monitors.Await("Component", client.ObjectKeyFromObject(component))
		return 0
	case conditions.Get(component, platformv1.MonitoredCondition) == nil:
		// That there may be one is on record before there is: whatever happens, it is looked for when it is no longer wanted.
		report(metav1.ConditionFalse, platformv1.ReasonProgressing, "the PodMonitor is being made")
		return frame.Recheck
	}
	err := controllerutil.SetControllerReference(component, wanted, c.client.Scheme())
	if err == nil {
		_, err = c.others.Apply(ctx, wanted)
	}
	switch {
	case apierrors.IsConflict(err):
		return frame.Recheck
	case err != nil:
		report(metav1.ConditionFalse, platformv1.ReasonPodMonitorRefused, "the PodMonitor cannot be made: "+err.Error())
		return refusedRecheck
	}
	report(metav1.ConditionTrue, platformv1.ReasonPodMonitorApplied, "PodMonitor "+wanted.GetName()+
		" leads Prometheus to the pods")
	return 0
}
