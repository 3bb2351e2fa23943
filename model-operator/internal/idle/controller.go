// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/progress"
)

const (
	// owner names the controller, and owns what it writes.
	owner = "idle"
	// door and server are the components of the plugin.
	door, server = "door", "server"
)

// Servers is the controller of the servers that nobody asks, for operator.Options.
type Servers struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

var _ operator.Controller = Servers{}

// Object implements operator.Controller.
func (Servers) Object() client.Object { return &aiv1.Inference{} }

// Setup implements operator.Controller.
func (s Servers) Setup(mgr ctrl.Manager, settings operator.ControllerSettings) error {
	c := &Controller{client: mgr.GetClient(), now: s.Now}
	if c.now == nil {
		c.now = time.Now
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&aiv1.Inference{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(progress.InferenceOf),
			builder.WithPredicates(ofComponent(door), reported())).
		Watches(&platformv1.WorkloadSet{}, handler.EnqueueRequestsFromMapFunc(progress.InferenceOf),
			builder.WithPredicates(ofComponent(server), predicate.GenerationChangedPredicate{})).
		WithOptions(queue.Options(settings.Workers)).
		Complete(c)
}

// ofComponent lets those of a component pass.
func ofComponent(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetLabels()[platformv1.ComponentLabel] == name
	})
}

// reported lets pods pass that report something else.
func reported() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[platformv1.ReportAnnotation] !=
			e.ObjectNew.GetAnnotations()[platformv1.ReportAnnotation]
	}}
}

// Controller decides whether Inferences have servers.
type Controller struct {
	client client.Client
	now    func() time.Time
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	i := &aiv1.Inference{}
	if err := c.client.Get(ctx, request.NamespacedName, i); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	_, recorded := i.Annotations[aiv1.IdleProgressAnnotation]
	switch {
	case i.Spec.Idle == nil && !recorded, i.Spec.Suspend, !i.DeletionTimestamp.IsZero():
		return reconcile.Result{}, nil
	case i.Spec.Running != nil && !*i.Spec.Running:
		// What is started again has servers.
		return reconcile.Result{}, c.record(ctx, i, aiv1.IdleProgress{Phase: aiv1.IdleActive})
	}
	f, err := c.observe(ctx, i)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.record(ctx, i, decide(i, f))
}

// observe reads what is decided on.
func (c *Controller) observe(ctx context.Context, i *aiv1.Inference) (facts, error) {
	f := facts{now: c.now()}
	app := platformv1.ApplicationNameFor("Inference", i.Name)
	var pods corev1.PodList
	err := c.client.List(ctx, &pods, client.InNamespace(i.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app, platformv1.ComponentLabel: door})
	if err != nil {
		return f, fmt.Errorf("cannot list the pods of the door: %w", err)
	}
	for n := range pods.Items {
		if made := metav1.GetControllerOf(&pods.Items[n]); made != nil && made.Kind == "WorkloadSet" {
			f.doors = append(f.doors, demandOf(&pods.Items[n]))
		}
	}
	set := &platformv1.WorkloadSet{}
	key := client.ObjectKey{Namespace: i.Namespace,
		Name: platformv1.WorkloadSetNameFor(app, server, platformv1.DefaultSet)}
	switch err := c.client.Get(ctx, key, set); {
	case client.IgnoreNotFound(err) != nil:
		return f, fmt.Errorf("cannot read WorkloadSet %q: %w", key.Name, err)
	case err == nil:
		f.servers = set.Spec.Replicas > 0
	default:
		// It is made with pods, unless it is to have none.
		f.servers = i.IdleProgress().Phase != aiv1.IdleNoServers
	}
	return f, nil
}

// demandOf is what the agent of a pod reports.
func demandOf(pod *corev1.Pod) demand {
	var said struct {
		Health     string            `json:"health"`
		Attributes map[string]string `json:"attributes"`
	}
	if json.Unmarshal([]byte(pod.Annotations[platformv1.ReportAnnotation]), &said) != nil || said.Health != typed.Healthy {
		return unknown
	}
	switch d := demand(said.Attributes["demand"]); d {
	case waiting, active, quiet:
		return d
	}
	return unknown
}

// record writes what is decided, unless that is on record.
func (c *Controller) record(ctx context.Context, i *aiv1.Inference, p aiv1.IdleProgress) error {
	decided := &p
	if p.Phase == aiv1.IdleActive {
		decided = nil
	}
	at := progress.Place{Annotation: aiv1.IdleProgressAnnotation, Owner: owner}
	err := progress.Record(ctx, c.client, i, at, decided)
	if apierrors.IsConflict(err) {
		// The cache was behind: what changed brings another turn.
		return nil
	}
	return err
}
