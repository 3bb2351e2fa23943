// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Times until something is said about an object that nobody claims. A plugin and the Application that
// uses it are often created together, as are an Operation and its target.
const (
	// unknownAfter is how long a plugin or a target may be absent.
	unknownAfter = 3 * time.Second
	// unattendedAfter is how long an operator may take that is known to have the plugin.
	unattendedAfter = 30 * time.Second
)

// verdict is what is to be done about an Application without a domain.
type verdict struct {
	// action to take.
	action action
	// problem to report, and the words that its message must hold.
	problem  outcome.Outcome
	mentions []string
	// after is when to look again.
	after time.Duration
}

type action string

const (
	actClaim  action = "Claim"
	actReport action = "Report"
	actWait   action = "Wait"
)

// judge decides about an Application without a domain of the given age.
func judge(app *platformv1.Application, domain string, index *plugin.Index, published []platformv1.Plugin,
	age time.Duration) verdict {
	name, version := app.Spec.Plugin, platformv1.CanonicalPluginVersion(app.Spec.PluginVersion)
	state, known := index.Get(name, version)
	if known && state.Bundle != nil && state.Bundle.Manifest.Domain == domain {
		return verdict{action: actClaim}
	}
	found := find(published, name, version)
	switch {
	case found == nil:
		known := alternatives(name, published)
		v := reportAfter(unknownAfter, age, platformv1.ReasonPluginNotFound,
			fmt.Sprintf("no operator has plugin %q version %q: %s", name, version, sentence(known)))
		v.mentions = known.words
		return v
	case domainOf(found) == domain:
		return verdict{action: actClaim}
	case found.Spec.Domain == "" && found.Labels[platformv1.DomainLabel] == "":
		return reportAfter(unknownAfter, age, platformv1.ReasonPluginInvalid, fmt.Sprintf(
			"plugin %q version %q was refused, and its domain cannot be read: kubectl describe plugin %s says why", name,
			version, found.Name))
	}
	return reportAfter(unattendedAfter, age, platformv1.ReasonPluginNotFound, fmt.Sprintf(
		"plugin %q version %q is of domain %q, and no operator of that domain takes this Application: check that it runs",
		name, version, domainOf(found)))
}

// reportAfter reports a problem once the object is old enough.
func reportAfter(patience, age time.Duration, reason, message string) verdict {
	if age < patience {
		// A clock that is behind gives a negative age.
		return verdict{action: actWait, after: min(patience, patience-age)}
	}
	return verdict{action: actReport, problem: outcome.Stalled(reason, message)}
}

func find(published []platformv1.Plugin, name, version string) *platformv1.Plugin {
	for i := range published {
		if published[i].Spec.Plugin == name && published[i].Spec.Version == version {
			return &published[i]
		}
	}
	return nil
}

// domainOf returns the domain that a bundle declares, else that of the operator that found it.
func domainOf(p *platformv1.Plugin) string {
	if p.Spec.Domain != "" {
		return p.Spec.Domain
	}
	return p.Labels[platformv1.DomainLabel]
}

// known is what there is in place of a plugin that no operator has.
type known struct {
	what  string
	words []string
}

// alternatives returns the versions of the plugin that are there, else the plugins.
func alternatives(name string, published []platformv1.Plugin) known {
	versions, plugins := known{what: "versions"}, known{what: "plugins"}
	for _, p := range published {
		if p.Spec.Plugin == name {
			versions.words = append(versions.words, p.Spec.Version)
		}
		plugins.words = append(plugins.words, p.Spec.Plugin)
	}
	if len(versions.words) > 0 {
		slices.Sort(versions.words)
		return versions
	}
	slices.Sort(plugins.words)
	plugins.words = slices.Compact(plugins.words)
	return plugins
}

func sentence(k known) string {
	if len(k.words) == 0 {
		return "no plugin is known; install the operator that brings it"
	}
	return fmt.Sprintf("known %s are %s", k.what, strings.Join(k.words, ", "))
}

// said says whether an Application already tells of a problem. Another operator may have said it in
// the words of another release: what counts is the reason and the facts, so that two releases never
// write over each other.
func said(app *platformv1.Application, v verdict) bool {
	accepted := conditions.Get(app, platformv1.AcceptedCondition)
	if accepted == nil || accepted.Status != metav1.ConditionFalse || accepted.Reason != v.problem.Reason() ||
		accepted.ObservedGeneration != app.Generation {
		return false
	}
	for _, word := range v.mentions {
		if !strings.Contains(accepted.Message, word) {
			return false
		}
	}
	return true
}
