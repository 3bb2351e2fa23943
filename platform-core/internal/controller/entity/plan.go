// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/secretvalue"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// item is one Entity in a turn.
type item struct {
	// before is the Entity as it was read, entity the one whose status is filled in.
	before, entity *platformv1.Entity
	// wanted is nil until the plugin takes the spec.
	wanted *accept.EntityWanted
	// password, and the version of the Secret that it is from; problem says why there is none, and unusable why what the
	// Secret has is refused.
	password, secret, secretBefore string
	problem, unusable              string
	// found is the object as it was before anything was done; there says whether it was there.
	found agentclient.EntityState
	there bool
	// intent is what is to be done; empty for nothing.
	intent agentclient.EntityIntent
	// drift is what was found changed by somebody else; empty for nothing.
	drift string
	// pending is what the middleware has yet to do for an object that is as wanted; empty for nothing.
	pending string
	// outcome of the turn; nil leaves the status as it is.
	outcome *outcome.Outcome
	// release says that the finalizer can go.
	release bool
	// ownerLeaves says that the object which declares the Entity goes as a whole.
	ownerLeaves bool
	// mine says that this turn wrote the Entity, and claimed that it wrote down that the object is to be the Entity's.
	mine, claimed bool
	// again says that its call was asked for before, with the same key and no answer.
	again bool
	// refused says that the middleware will not make it and no other call can have; absent that it was read back then, and
	// was not there.
	refused, absent bool
	// circumstances are what an attempt to make it depends on, as far as is known.
	circumstances string
	// attempt is how often the change was asked for before.
	attempt int
	// since is that of a change that is under way; nil where none is.
	since *string
	// form is how this very process puts what is wanted; nil where that is not known beside the status.
	form map[string]string
	// parts are what became of it in each pod, where every pod has its object.
	parts []*item
}

func newItem(entity *platformv1.Entity) *item {
	return &item{before: entity, entity: entity.DeepCopy()}
}

func (it *item) end(o outcome.Outcome) { it.outcome = &o }

// told is the outcome for the status: an object that the middleware is still at work on is not ready.
func (it *item) told() outcome.Outcome {
	if it.done() && it.pending != "" {
		return outcome.WaitingFor(pendingPoll, platformv1.ReasonProgressing, it.pending)
	}
	return *it.outcome
}

func (it *item) done() bool { return it.outcome != nil && it.outcome.Kind() == outcome.KindDone }

func (it *item) deleting() bool { return !it.entity.DeletionTimestamp.IsZero() }

func (it *item) finalizer() bool {
	return slices.Contains(it.entity.Finalizers, platformv1.EntityFinalizer)
}

// settled says whether the object was as this very spec asks when it was last looked at.
func (it *item) settled() bool {
	ready := conditions.Get(it.before, platformv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == it.entity.Generation
}

func (it *item) query() agentclient.EntityQuery {
	return agentclient.EntityQuery{Name: it.entity.Spec.Name, Password: it.password}
}

// readPassword takes the password out of its Secret, which is nil where it is absent.
func (it *item) readPassword(secret *corev1.Secret) {
	from := it.entity.Spec.PasswordFrom
	switch {
	case secret == nil:
		it.problem = fmt.Sprintf("there is no Secret %q: create it, with the password under the key %q", from.Name, from.Key)
	case len(secret.Data[from.Key]) == 0:
		it.problem = fmt.Sprintf("Secret %q has nothing under the key %q: put the password there", from.Name, from.Key)
	default:
		if it.unusable = secretvalue.Problem(from.Name, from.Key, secret.Data[from.Key]); it.unusable != "" {
			return
		}
		it.password, it.secret = string(secret.Data[from.Key]), string(secret.UID)+"/"+secret.ResourceVersion
	}
}

// triage ends the turn of those Entities whose object nobody needs to be asked about.
func (c *Controller) triage(seen *observation) {
	names := map[string]string{}
	for _, it := range seen.items {
		it.secretBefore = seen.secrets[it.entity.UID]
		held := holdUp(seen, it)
		name := it.entity.Spec.Type + "/" + it.entity.Spec.Name
		first, taken := names[name]
		switch {
		case held != nil:
			it.end(*held)
		case it.release:
		case taken:
			it.end(outcome.Stalled(platformv1.ReasonNameTaken,
				fmt.Sprintf("Entity %q is of the same object, and older: delete one of them", first)))
			it.release = it.deleting()
		}
		if !taken && !it.release {
			names[name] = it.entity.Name
		}
	}
}

// holdUp says what is in the way of an Entity; nil when nothing is.
func holdUp(seen *observation, it *item) *outcome.Outcome {
	stalled := func(reason, format string, args ...any) *outcome.Outcome {
		return new(outcome.Stalled(reason, fmt.Sprintf(format, args...)))
	}
	app := seen.app
	switch {
	case it.deleting() && (app == nil || !app.DeletionTimestamp.IsZero() || it.ownerLeaves || !it.finalizer() ||
		it.entity.Status.Origin == "" ||
		it.entity.Spec.DeletionPolicy != platformv1.EntityDelete):
		// What holds the object goes too, or the object is to stay.
		it.release = true
		return nil
	case app == nil:
		return stalled(platformv1.ReasonApplicationNotFound,
			"there is no Application %q in namespace %q any more: delete the Entity, or create it anew", seen.key.Name,
			seen.key.Namespace)
	case !app.DeletionTimestamp.IsZero():
		return new(outcome.Waiting(platformv1.ReasonDeleting, fmt.Sprintf("Application %q is being deleted", app.Name)))
	case app.Spec.Suspend:
		return new(outcome.Held(platformv1.ReasonSuspended,
			fmt.Sprintf("nothing is done while Application %q has suspend: true", app.Name)))
	}
	if r := accept.Plugin(app, seen.state); r != nil {
		return stalled(r.Reason, "%s", r.Message)
	}
	wanted, refusals := seen.accept(it.entity)
	if it.deleting() && len(refusals) > 0 {
		// Its name and type are all that is needed to remove it.
		declared, roles, ok := seen.state.Bundle.In(app.Spec.Topology).Entity(it.entity.Spec.Type)
		if ok {
			wanted, refusals = &accept.EntityWanted{Type: declared, Roles: roles}, nil
		}
	}
	if len(refusals) > 0 {
		return stalled(refusals[0].Reason, "%s", sentences(refusals))
	}
	if it.problem != "" && !it.deleting() {
		return stalled(platformv1.ReasonSecretNotFound, "%s", it.problem)
	}
	if it.unusable != "" && !it.deleting() {
		return stalled(platformv1.ReasonSecretInvalid, "%s", it.unusable)
	}
	it.wanted = wanted
	return nil
}

func sentences(refusals []*render.Refusal) string {
	var all []string
	for _, refusal := range refusals {
		all = append(all, refusal.Message)
	}
	return strings.Join(all, "; ")
}

// group is the Entities of one type, whose objects one pod is asked about.
type group struct {
	entityType, component string
	roles                 []string
	items                 []*item
	// each says that every pod has the objects: those of one pod are a group of its own, with its name.
	each bool
	pod  string
	// whole says that all of them were looked at in this turn.
	whole bool
	// agent of the pod that is asked, and the objects that it has.
	agent    agentclient.Entities
	states   map[string]agentclient.EntityState
	instance instance
	// term of the set whose pod is asked.
	term     int64
	attempts map[string]int
	// running is what Entities whose change was under way in the last turn were settled at.
	running map[types.UID]string
	// claims to objects that were never read back.
	claims map[types.UID]*claim
	// self is this very controller.
	self string
}

// id is what is remembered of a group by. Types have no slash in their name.
func (g *group) id() string {
	if g.pod == "" {
		return g.entityType
	}
	return g.entityType + "/" + g.pod
}

// instance is the process that is asked: another one than before may have forgotten what it had. before is empty while
// that is not known.
type instance struct {
	now, before string
	// ofMany says that there are others, and that this one may be new.
	ofMany bool
}

func (i instance) same() bool { return i.before == i.now || i.before == "" && !i.ofMany }

// groups are the types of the Entities whose turn has not ended, in order.
func (seen *observation) groups() []*group {
	byType := map[string]*group{}
	for _, it := range seen.items {
		if it.outcome != nil || it.wanted == nil {
			continue
		}
		declared := it.wanted.Type
		g := byType[declared.Type]
		if g == nil {
			g = &group{entityType: declared.Type, component: declared.Component, roles: it.wanted.Roles,
				each: declared.Pods == schema.EntityEach}
			byType[declared.Type] = g
		}
		g.items = append(g.items, it)
	}
	var all []*group
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		all = append(all, byType[name])
	}
	return all
}

// wait ends the turn of a group that cannot be asked. One that was settled stays so: nothing is known to have changed.
func (seen *observation) wait(g *group, o outcome.Outcome) {
	seen.lookAgain(o.After())
	for _, it := range g.items {
		if it.deleting() || !it.settled() {
			it.end(o)
		}
	}
}

// decide compares an object with what is wanted.
func decide(it *item, states map[string]agentclient.EntityState, process instance, now time.Time) {
	state, there := states[it.entity.Spec.Name]
	it.found, it.there = state, there
	status := &it.entity.Status
	switch {
	case it.deleting() && !there:
		it.release = true
	case it.deleting():
		it.intent = agentclient.EntityDelete
	case !there:
		it.intent = agentclient.EntityCreate
		status.Origin = cmp.Or(status.Origin, platformv1.EntityCreated)
		it.noteDrift(process, "it was gone")
	case it.foreign():
		it.leave()
	case it.fits(state):
		status.Origin = cmp.Or(status.Origin, platformv1.EntityAdopted)
		it.observed(state)
	case it.wanted.Type.Actions != nil && it.wanted.Type.Actions.Update == "":
		it.end(outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf(
			"the %s %q differs from the spec, and an object of this type cannot change: set the spec back, or create "+
				"another Entity",
			it.entity.Spec.Type, it.entity.Spec.Name)))
	default:
		it.intent = agentclient.EntityUpdate
		if status.Origin == "" {
			status.Origin = platformv1.EntityAdopted
		} else {
			it.noteDrift(process, it.difference(state))
		}
	}
	if it.drift != "" {
		status.LastDrift = &platformv1.EntityDrift{Time: metav1.NewTime(now), Message: it.drift}
	}
}

// foreign says that an object, where there is one, is somebody else's.
func (it *item) foreign() bool { return it.entity.Status.Origin == "" && !it.entity.Spec.Adopt }

// leave leaves an object alone.
func (it *item) leave() {
	it.end(outcome.Stalled(platformv1.ReasonAlreadyExists, fmt.Sprintf(
		"the middleware has a %s %q already, which this Entity did not make: set adopt to true to have it become what the "+
			"spec says, or take another name", it.entity.Spec.Type, it.entity.Spec.Name)))
}

// noteDrift notes what somebody else did: not what a process forgot when it was started anew, and not what this Entity
// asks for now.
func (it *item) noteDrift(process instance, found string) {
	if found != "" && it.settled() && process.same() && it.before.Status.Applied == it.digest() {
		it.drift = found
	}
}

// difference says what is not as it was read back; empty where only a new password is to be set.
func (it *item) difference(state agentclient.EntityState) string {
	for _, name := range it.compared() {
		if was, is := it.seenAs()[name], state.Parameters[name]; was != is {
			return fmt.Sprintf("parameter %q was %q and had to be %q", name, is, was)
		}
	}
	if state.OtherPassword && it.secretBefore == it.secret && it.secret != "" {
		return "it had another password"
	}
	return ""
}

// fits says whether an object is as wanted: word by word, or as the middleware put it when this was last asked for.
func (it *item) fits(state agentclient.EntityState) bool {
	if state.OtherPassword && it.wanted.Type.Password != "" && it.password != "" {
		return false
	}
	return it.has(state)
}

// has says whether the parameters of an object are as wanted.
func (it *item) has(state agentclient.EntityState) bool {
	applied := it.form != nil || it.before.Status.Applied == it.digest()
	return applied && it.same(state, it.seenAs()) || (applied || !it.versioned()) && it.same(state, it.wanted.Parameters)
}

// seenAs is the object as it read back right after it was last asked for.
func (it *item) seenAs() map[string]string {
	if it.form != nil {
		return it.form
	}
	return it.before.Status.Observed
}

// same says whether an object has these parameters.
func (it *item) same(state agentclient.EntityState, parameters map[string]string) bool {
	return !slices.ContainsFunc(it.compared(),
		func(name string) bool { return state.Parameters[name] != parameters[name] })
}

// compared are the parameters that can be wanted, and those that were read back: what the middleware tells beside them
// is for people.
func (it *item) compared() []string {
	all := slices.Collect(maps.Keys(it.wanted.Parameters))
	if it.wanted.Type.Driver != "" {
		// A driver tells of nothing else, and of all that there is.
		all = slices.AppendSeq(all, maps.Keys(it.seenAs()))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// observed notes what was read back, and what else the middleware tells.
func (it *item) observed(state agentclient.EntityState) {
	it.entity.Status.Observed, it.entity.Status.Applied = state.Parameters, it.digest()
	if len(state.Parameters) == 0 {
		it.entity.Status.Observed = nil
	}
	it.entity.Status.Facts = state.Facts
	if len(state.Facts) == 0 {
		it.entity.Status.Facts = nil
	}
	it.pending = state.Pending
	it.end(outcome.Done())
}

// versioned says that nobody can read whether the object has the password, so that the version of its Secret has to do.
func (it *item) versioned() bool {
	return it.wanted.Type.Driver == "" && it.wanted.Type.Password != "" && it.password != ""
}

// digest is over what the object is to be, without the password.
func (it *item) digest() string {
	what := struct {
		Parameters map[string]string `json:"parameters"`
		Secret     string            `json:"secret,omitempty"`
	}{Parameters: it.wanted.Parameters}
	if it.versioned() {
		what.Secret = it.secret
	}
	// Maps of texts.
	data, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// readBackProblem says what is not as asked after a change.
func (it *item) readBackProblem(state agentclient.EntityState, there bool) string {
	switch {
	case it.intent == agentclient.EntityDelete && there:
		return "the middleware accepted the deletion, and still has it"
	case it.intent == agentclient.EntityDelete:
		return ""
	case !there:
		return "the middleware accepted it, and does not have it"
	case state.OtherPassword && it.password != "":
		return "the middleware accepted it, and has another password"
	}
	return ""
}

// unchanged says that an object whose parameters were to change is exactly as it was before, at the first time of
// asking: the answer may have been that of an earlier call, made for the same reason by a controller that died. At the
// second it is this controller's own, so that the middleware has but one form for what was there and what is asked for,
// as with rules that say the same.
func (it *item) unchanged(state agentclient.EntityState) bool {
	return it.intent == agentclient.EntityUpdate && it.attempt == 0 && it.there && it.same(state, it.found.Parameters) &&
		!it.has(it.found)
}
