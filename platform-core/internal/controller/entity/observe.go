// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// observation is all that was read for one turn.
type observation struct {
	key types.NamespacedName
	// app is nil where it is absent.
	app   *platformv1.Application
	state plugin.State
	items []*item
	pods  []corev1.Pod
	now   time.Time
	*remembered
	// again is when to look again; 0 for when something wakes us.
	again time.Duration
}

// lookAgain has the next turn come at the latest then.
func (seen *observation) lookAgain(after time.Duration) {
	seen.again = outcome.Done().Within(seen.again).Within(after).After()
}

// observe reads the Entities of an Application, and what they need.
func (c *Controller) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	seen := &observation{key: key, now: c.Now(), remembered: c.memory.of(key)}
	var list platformv1.EntityList
	// What the cache has is not copied: items change copies of their own.
	if err := c.client.List(ctx, &list, client.InNamespace(key.Namespace),
		client.MatchingFields{applicationField: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("cannot list the Entities of Application %q: %w", key, err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		entity := seen.latest(&list.Items[i])
		there[entity.UID] = true
		seen.items = append(seen.items, newItem(entity))
	}
	seen.keepOnly(there)
	if len(seen.items) == 0 {
		return seen, nil
	}
	// The oldest first: it has the name when two ask for the same.
	slices.SortFunc(seen.items, func(a, b *item) int {
		return cmp.Or(a.entity.CreationTimestamp.Compare(b.entity.CreationTimestamp.Time),
			cmp.Compare(a.entity.UID, b.entity.UID))
	})
	if err := c.observeApplication(ctx, seen); err != nil || seen.app == nil {
		return seen, err
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(key.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: key.Name}); err != nil {
		return nil, fmt.Errorf("cannot list the pods of Application %q: %w", key, err)
	}
	seen.pods = pods.Items
	if err := c.observeOwners(ctx, seen); err != nil {
		return nil, err
	}
	return seen, c.observePasswords(ctx, seen)
}

// observeOwners sees whether what declares an Entity that is to go goes as well, where it declares the Application too.
// Then the instance goes, and what becomes of its data is not for the Entity to say. Of an instance of somebody else,
// such as the cluster of a topic, it is.
func (c *Controller) observeOwners(ctx context.Context, seen *observation) error {
	leaves, instance := map[types.UID]bool{}, metav1.GetControllerOf(seen.app)
	for _, it := range seen.items {
		above := metav1.GetControllerOf(it.entity)
		if above == nil || instance == nil || instance.UID != above.UID || !it.deleting() || !it.finalizer() {
			continue
		}
		if _, known := leaves[above.UID]; !known {
			owner := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: above.APIVersion, Kind: above.Kind}}
			err := c.live.Get(ctx, types.NamespacedName{Namespace: seen.key.Namespace, Name: above.Name}, owner)
			// One that we may not read is none of ours: the Entity goes by itself.
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
				return fmt.Errorf("cannot read %s %q, which has Entity %q: %w", above.Kind, above.Name, it.entity.Name, err)
			}
			leaves[above.UID] = apierrors.IsNotFound(err) || err == nil &&
				(owner.UID != above.UID || !owner.DeletionTimestamp.IsZero())
		}
		it.ownerLeaves = leaves[above.UID]
	}
	return nil
}

// observeApplication reads the Application. Objects are let go of when it is absent.
func (c *Controller) observeApplication(ctx context.Context, seen *observation) error {
	app := &platformv1.Application{}
	err := livereader.Reader{Cached: c.client, Live: c.live}.Get(ctx, seen.key, app)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("cannot read Application %q: %w", seen.key, err)
	}
	seen.app = app
	seen.state, _ = c.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	return nil
}

// observePasswords reads the Secrets that Entities name, and watches these and no others.
func (c *Controller) observePasswords(ctx context.Context, seen *observation) error {
	secrets := map[string]*corev1.Secret{}
	var wanted []types.NamespacedName
	for _, it := range seen.items {
		from := it.entity.Spec.PasswordFrom
		if from == nil || !it.entity.DeletionTimestamp.IsZero() {
			continue
		}
		secret, known := secrets[from.Name]
		if !known {
			name := types.NamespacedName{Namespace: seen.key.Namespace, Name: from.Name}
			wanted = append(wanted, name)
			c.secrets.Ensure(ctx, name, seen.key)
			var err error
			if secret, err = c.secrets.Get(ctx, name); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("cannot read Secret %q: %w", name, err)
			} else if err != nil {
				secret = nil
			}
			secrets[from.Name] = secret
		}
		it.readPassword(secret)
	}
	c.secrets.Release(seen.key, wanted...)
	return nil
}

// reach makes a pod the one that is asked about a type.
func (c *Controller) reach(ctx context.Context, seen *observation, g *group, pod *corev1.Pod) outcome.Outcome {
	var err error
	if g.term, err = c.termOf(ctx, pod); err != nil {
		return outcome.Failed(err)
	}
	g.instance = instance{now: processOf(pod, reportOf(pod).Starts), before: seen.instances[g.id()], ofMany: g.each}
	if seen.attempts[g.id()] == nil {
		seen.attempts[g.id()] = map[string]int{}
	}
	g.attempts, g.running, g.claims, g.self = seen.attempts[g.id()], seen.running, seen.claims, c.memory.name()
	if g.agent, err = c.Dialer.DialEntities(ctx, pod); err != nil {
		return unanswered(err)
	}
	return outcome.Done()
}

// processOf names a process by its number in a pod.
func processOf(pod *corev1.Pod, starts int64) string { return fmt.Sprintf("%s/%d", pod.UID, starts) }

// termOf is the term of the set that a pod is of; 0 where nobody names its writer.
func (c *Controller) termOf(ctx context.Context, pod *corev1.Pod) (int64, error) {
	above := metav1.GetControllerOf(pod)
	if above == nil {
		return 0, nil
	}
	set := &platformv1.WorkloadSet{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: above.Name}, set)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("cannot read WorkloadSet %q: %w", above.Name, err)
	}
	if set.Status.Primary == nil {
		return 0, nil
	}
	return set.Status.Primary.Term, nil
}

// podFor returns the healthy pod that takes writes; nil when there is none. Of several the first by name is asked.
func podFor(pods []corev1.Pod, g *group) *corev1.Pod {
	var found *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		fit := pod.Labels[platformv1.ComponentLabel] == g.component && pod.DeletionTimestamp.IsZero() &&
			pod.Status.PodIP != "" &&
			(len(g.roles) == 0 || slices.Contains(g.roles, pod.Labels[platformv1.RoleLabel])) &&
			reportOf(pod).Health == report.Healthy
		if fit && (found == nil || pod.Name < found.Name) {
			found = pod
		}
	}
	return found
}

// errRestarted is told where one look was answered by several processes.
var errRestarted = errors.New("the process was restarted while its objects were read")

// observeAll asks for the objects of the items, as many at once as a call takes.
func observeAll(ctx context.Context, agent agentclient.Entities, entityType string, items []*item) (
	agentclient.EntityStates, error) {
	all := agentclient.EntityStates{Objects: map[string]agentclient.EntityState{}}
	first := true
	for batch := range slices.Chunk(items, agentclient.MaxEntityQueries) {
		var queries []agentclient.EntityQuery
		for _, it := range batch {
			queries = append(queries, it.query())
		}
		states, err := agent.Observe(ctx, entityType, queries)
		switch {
		case err != nil:
			return agentclient.EntityStates{}, err
		case !first && states.Starts != all.Starts:
			return agentclient.EntityStates{}, errRestarted
		}
		maps.Copy(all.Objects, states.Objects)
		all.Starts, first = states.Starts, false
	}
	return all, nil
}
