// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/queue"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/progress"
)

// owner names the controller, and owns what it writes.
const owner = "canary"

// component of the plugin that the servers are.
const component = "server"

// Steps is the controller of the steps of canaries, for operator.Options.
type Steps struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

var _ operator.Controller = Steps{}

// Object implements operator.Controller.
func (Steps) Object() client.Object { return &aiv1.Inference{} }

// Setup implements operator.Controller.
func (s Steps) Setup(mgr ctrl.Manager, settings operator.ControllerSettings) error {
	c := &Controller{client: mgr.GetClient(), live: mgr.GetAPIReader(), ask: newAsker(), now: s.Now,
		memory: map[client.ObjectKey]*memory{}}
	if c.now == nil {
		c.now = time.Now
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&aiv1.Inference{}).
		Watches(&platformv1.WorkloadSet{}, handler.EnqueueRequestsFromMapFunc(progress.InferenceOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(queue.Options(settings.Workers)).
		Complete(c)
}

// Controller takes the steps of canaries.
type Controller struct {
	client client.Client
	// live reads Secrets, which the cache does not have.
	live   client.Reader
	ask    *asker
	now    func() time.Time
	lock   sync.Mutex
	memory map[client.ObjectKey]*memory
}

// memory is what is known of a step of a canary. Only one turn at a time has that of an Inference.
type memory struct {
	// of is the step: what is known of another one does not count.
	of string
	// measured are the last rounds, and last is when the last of them was.
	measured window
	last     time.Time
	// key is what the servers ask for; empty for nothing, and where it is to be read.
	key string
	// unready is since when no pod is ready.
	unready time.Time
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	i := &aiv1.Inference{}
	if err := c.client.Get(ctx, request.NamespacedName, i); err != nil {
		c.forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p, f := i.CanaryProgress(), facts{now: c.now()}
	switch {
	case p.Of == "", !runs(i) && !p.Phase.Ended():
		// What is stopped begins the steps anew.
		c.forget(request.NamespacedName)
		kept, wake := released(i, f.now)
		return c.record(ctx, i, kept, wake)
	case p.Phase.Ended():
		c.forget(request.NamespacedName)
	default:
		var err error
		if f, err = c.observe(ctx, i); err != nil {
			return reconcile.Result{}, err
		}
	}
	d := decide(i, f)
	return c.record(ctx, i, &d.progress, d.wake)
}

// runs says whether an Inference is to have pods, and the engine looks after them.
func runs(i *aiv1.Inference) bool {
	return (i.Spec.Running == nil || *i.Spec.Running) && !i.Spec.Suspend && i.DeletionTimestamp.IsZero()
}

// observe reads what is decided on, and measures where it is time for that.
func (c *Controller) observe(ctx context.Context, i *aiv1.Inference) (facts, error) {
	p := i.CanaryProgress()
	m := c.recall(client.ObjectKeyFromObject(i), fmt.Sprintf("%s %s/%d", i.UID, p.Of, p.Step))
	refused, err := c.refused(ctx, i)
	if err != nil || refused != "" || p.Phase != aiv1.CanaryMeasuring {
		return facts{now: c.now(), unmeasurable: refused}, err
	}
	if now := i.Status.Canary; now != nil && now.ReadyReplicas > 0 {
		m.unready = time.Time{}
	} else if m.unready.IsZero() {
		m.unready = c.now()
	}
	f := facts{now: c.now(), unready: m.unready}
	if measures(i.Spec.Canary.Gate) && !c.now().Before(m.last.Add(interval)) {
		pods, err := c.pods(ctx, i)
		if err != nil {
			return facts{}, err
		}
		if err := c.unlock(ctx, i, m); err != nil {
			return facts{}, err
		}
		m.last = c.now()
		if len(pods) > 0 {
			m.measured = m.measured.with(c.ask.round(ctx, pods, m.key))
		}
	}
	f.now, f.measured = c.now(), m.measured
	return f, nil
}

// unlock reads the key that the servers ask for, at first and after a round in which one of them failed: it may have
// another one.
func (c *Controller) unlock(ctx context.Context, i *aiv1.Inference, m *memory) error {
	ref := i.Spec.APIKeySecretRef
	if ref == nil {
		m.key = ""
		return nil
	}
	if m.key != "" && !m.measured.failed() {
		return nil
	}
	secret := &corev1.Secret{}
	if err := c.live.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: ref.Name}, secret); err != nil {
		return fmt.Errorf("cannot read Secret %q, which has the API key: %w", ref.Name, err)
	}
	m.key = string(secret.Data[cmp.Or(ref.Key, "password")])
	return nil
}

// refused says why the plugin cannot measure what the gate has; empty where it can, and as long as it has rendered no
// pods that would say so.
func (c *Controller) refused(ctx context.Context, i *aiv1.Inference) (string, error) {
	set := &platformv1.WorkloadSet{}
	key := client.ObjectKey{Namespace: i.Namespace, Name: platformv1.WorkloadSetNameFor(
		platformv1.ApplicationNameFor("Inference", i.Name), component, platformv1.DefaultSet)}
	switch err := c.client.Get(ctx, key, set); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot read WorkloadSet %q: %w", key.Name, err)
	}
	annotations, err := annotationsOf(set)
	if err != nil {
		return "", err
	}
	return unmeasurable(i, new(metersOf(annotations)), set.Spec.Plugin), nil
}

// pods are those of the canary that have an address and are not about to go.
func (c *Controller) pods(ctx context.Context, i *aiv1.Inference) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.client.List(ctx, &list, client.InNamespace(i.Namespace), client.MatchingLabels{
		platformv1.ApplicationLabel: platformv1.ApplicationNameFor("Inference", i.Name), platformv1.SetLabel: aiv1.CanarySet,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods of the canary: %w", err)
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		made := metav1.GetControllerOf(&pod)
		if pod.Status.PodIP != "" && pod.DeletionTimestamp.IsZero() && made != nil && made.Kind == "WorkloadSet" {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// record writes how far a canary is, unless that is on record; nil for nothing. It has the Inference be looked at again
// at a time; zero for not at all.
func (c *Controller) record(ctx context.Context, i *aiv1.Inference, p *aiv1.CanaryProgress,
	wake time.Time) (reconcile.Result, error) {
	err := progress.Record(ctx, c.client, i, progress.Place{Annotation: aiv1.CanaryProgressAnnotation, Owner: owner}, p)
	switch {
	case apierrors.IsConflict(err):
		// The cache was behind: what changed brings another turn.
		return reconcile.Result{}, nil
	case err != nil, wake.IsZero():
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(wake.Sub(c.now()), time.Millisecond)}, nil
}

// recall is what is known of a step.
func (c *Controller) recall(key client.ObjectKey, of string) *memory {
	c.lock.Lock()
	defer c.lock.Unlock()
	if m := c.memory[key]; m != nil && m.of == of {
		return m
	}
	c.memory[key] = &memory{of: of}
	return c.memory[key]
}

func (c *Controller) forget(key client.ObjectKey) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.memory, key)
}
