// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
)

// memory is what a turn leaves for the next one. It is lost with the process, which costs a look more and nothing else.
type memory struct {
	mu           sync.Mutex
	self         string
	applications map[types.NamespacedName]*remembered
}

// remembered is of one Application. Its turns come one after another.
type remembered struct {
	// written are Entities as our last write left them, which the cache may not have yet.
	written map[types.UID]*platformv1.Entity
	// instances are the processes that were asked, by group.
	instances map[string]string
	// looks are the last ones at all objects of a group.
	looks map[string]look
	// owed are Entities whose objects were not as asked at the end of the last turn that looked at them.
	owed map[types.UID]bool
	// secrets are the versions of the Secrets whose passwords objects were found or made with.
	secrets map[types.UID]string
	// attempts counts how often a batch was tried that is not settled, by its group and key.
	attempts map[string]map[string]int
	// running is what Entities whose change is under way were settled at.
	running map[types.UID]string
	// forms are how each of many processes puts what it was asked for, by group.
	forms map[string]*forms
	// claims to objects that were never read back, by Entity.
	claims map[types.UID]*claim
	// judged are Entities whose specs were checked.
	judged map[types.UID]judgement
	// changes counts the turns' calls that changed something.
	changes int
}

// judgement is what a plugin makes of one generation of an Entity, for one generation of its Application: another look
// comes to the same, and thousands of them take longer than all else in a turn.
type judgement struct {
	of          *plugin.Bundle
	entity, app int64
	wanted      *accept.EntityWanted
	refusals    []*render.Refusal
}

// forms are how one process puts what it was asked for, by Entity: another version may do so in other words.
type forms struct {
	process string
	by      map[types.UID]form
}

// form of an object whose digest is that of what is wanted.
type form struct {
	digest     string
	parameters map[string]string
}

// formsOf the process that is asked.
func (r *remembered) formsOf(g *group) *forms {
	known := r.forms[g.id()]
	if known == nil || known.process != g.instance.now {
		known = &forms{process: g.instance.now, by: map[types.UID]form{}}
		r.forms[g.id()] = known
	}
	return known
}

// name is this memory's own, which no other process has.
func (m *memory) name() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.self == "" {
		m.self = rand.Text()
	}
	return m.self
}

func (m *memory) of(application types.NamespacedName) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applications == nil {
		m.applications = map[types.NamespacedName]*remembered{}
	}
	r := m.applications[application]
	if r == nil {
		r = &remembered{written: map[types.UID]*platformv1.Entity{}, instances: map[string]string{},
			looks: map[string]look{}, owed: map[types.UID]bool{},
			secrets: map[types.UID]string{}, attempts: map[string]map[string]int{}, running: map[types.UID]string{},
			forms: map[string]*forms{}, claims: map[types.UID]*claim{}, judged: map[types.UID]judgement{}}
		m.applications[application] = r
	}
	return r
}

func (m *memory) forget(application types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applications, application)
}

// latest returns an Entity as it is after our own last write, when that is newer than what the cache has.
func (r *remembered) latest(cached *platformv1.Entity) *platformv1.Entity {
	written := r.written[cached.UID]
	if written == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion); err == nil &&
		order < 0 {
		return written.DeepCopy()
	}
	delete(r.written, cached.UID)
	return cached
}

// rememberItems notes what became of the Entities of one type.
func (r *remembered) rememberItems(g *group) {
	for _, it := range g.items {
		delete(r.running, it.entity.UID)
		if it.since != nil {
			r.running[it.entity.UID] = *it.since
		}
		if it.mine {
			r.written[it.entity.UID] = it.before
		}
		if it.done() {
			r.secrets[it.entity.UID] = it.secret
		}
	}
}

// rememberProcess notes the process that was asked, once all that it is asked for is as asked: what was not is to be
// seen again as it was before.
func (r *remembered) rememberProcess(g *group) {
	if g.instance.now == "" || slices.ContainsFunc(g.items, func(it *item) bool { return !it.done() && !it.release }) {
		return
	}
	r.instances[g.id()] = g.instance.now
	clear(g.attempts)
}

// keepProcesses forgets the pods of a type that are gone.
func (r *remembered) keepProcesses(entityType string, ids map[string]bool) {
	gone := func(id string) bool { return strings.HasPrefix(id, entityType+"/") && !ids[id] }
	maps.DeleteFunc(r.instances, func(id, _ string) bool { return gone(id) })
	maps.DeleteFunc(r.attempts, func(id string, _ map[string]int) bool { return gone(id) })
	maps.DeleteFunc(r.forms, func(id string, _ *forms) bool { return gone(id) })
}

// keepOnly forgets Entities that are gone.
func (r *remembered) keepOnly(there map[types.UID]bool) {
	maps.DeleteFunc(r.written, func(uid types.UID, _ *platformv1.Entity) bool { return !there[uid] })
	maps.DeleteFunc(r.secrets, func(uid types.UID, _ string) bool { return !there[uid] })
	maps.DeleteFunc(r.running, func(uid types.UID, _ string) bool { return !there[uid] })
	maps.DeleteFunc(r.owed, func(uid types.UID, _ bool) bool { return !there[uid] })
	maps.DeleteFunc(r.claims, func(uid types.UID, _ *claim) bool { return !there[uid] })
	maps.DeleteFunc(r.judged, func(uid types.UID, _ judgement) bool { return !there[uid] })
}

// accept says what the plugin makes of an Entity.
func (seen *observation) accept(entity *platformv1.Entity) (*accept.EntityWanted, []*render.Refusal) {
	j, known := seen.judged[entity.UID]
	if !known || j.of != seen.state.Bundle || j.entity != entity.Generation || j.app != seen.app.Generation {
		j = judgement{of: seen.state.Bundle, entity: entity.Generation, app: seen.app.Generation}
		j.wanted, j.refusals = accept.Entity(entity, seen.app, seen.state.Bundle)
		seen.judged[entity.UID] = j
	}
	return j.wanted, j.refusals
}
