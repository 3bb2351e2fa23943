// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// failoverParameters are the parameters that a failover names.
func failoverParameters(f *schema.Failover) []string {
	if f == nil || f.SynchronousReplicas == nil {
		return nil
	}
	return slices.DeleteFunc([]string{f.SynchronousReplicas.Parameter, f.SynchronousReplicas.Shortage},
		func(name string) bool { return name == "" })
}

func (l *loader) checkFailover(at document.Path, c *schema.Component) {
	f, path := c.Failover, at.With("failover")
	if f == nil {
		return
	}
	authorities := l.authorities(c)
	if len(authorities) > 0 && !slices.Contains(authorities, schema.AuthorityEngine) {
		l.wrong(path, "is for a component whose authority is engine: with authority %s the members elect "+
			"a primary themselves", authorities[0])
	}
	if !slices.ContainsFunc(c.Roles, func(r schema.Role) bool { return r.Access == platformv1.RoleReadWrite }) {
		l.wrong(path, "is for a component with a role that takes writes: give one of the roles the access ReadWrite")
	}
	if !slices.ContainsFunc(c.Roles, func(r schema.Role) bool { return r.Access != platformv1.RoleReadWrite }) {
		l.wrong(path, "is for a component with a role for the pods that follow: give one of the roles the access ReadOnly "+
			"or None")
	}
	if c.PodManagementPolicy == platformv1.PodManagementOrderedReady {
		l.wrong(path, "is for a component with podManagementPolicy Parallel: the first primary is named when all pods are "+
			"there")
	}
	if c.Switchover != nil && !slices.Contains(authorities, schema.AuthorityMiddleware) {
		l.wrong(path, "and switchover cannot both be there: with a failover the engine has the primary hand over itself, "+
			"take switchover out, or give the component the authority middleware in a topology")
	}
	if c.Process.Dir == "" {
		l.wrong(path, "is for a component with process.dir: what a pod has promised is kept there")
	}
	actions := map[string]string{"promote": f.Promote, "follow": f.Follow, "measure": f.Measure, "handover": f.Handover,
		"updateMembers": f.UpdateMembers}
	for _, key := range slices.Sorted(maps.Keys(actions)) {
		if name := actions[key]; name != "" {
			l.checkWritingAction(path.With(key), c, name, parametersOf[key])
		}
	}
	l.checkBefore(path.With("before"), c)
	if f.SynchronousReplicas != nil {
		if f.UpdateMembers == "" {
			l.wrong(path.With("synchronousReplicas"),
				"is for a failover with an action updateMembers, by which the primary learns for whom it waits")
		}
		for key, name := range map[string]string{"parameter": f.SynchronousReplicas.Parameter,
			"shortage": f.SynchronousReplicas.Shortage} {
			if set := l.parameters[c.Parameters]; name != "" && (set == nil || !slices.Contains(l.parameterNames(set), name)) {
				l.wrong(path.With("synchronousReplicas").With(key),
					"names the parameter %q, which is not in the schema of the component", name)
			}
		}
	}
	attributes := slices.Collect(maps.Keys(c.Probe.Attributes))
	if f.InSync != "" {
		l.checkFormula(path.With("inSync"), f.InSync, cel.BoolType, "true or false", attributes)
	}
	if f.HistoryAttribute != "" {
		l.oneOf(path.With("historyAttribute"), f.HistoryAttribute, "attribute of the probe", slices.Clone(attributes))
	}
	if i := slices.IndexFunc(c.Actions, func(a plan.Action) bool { return a.Name == f.Measure }); i >= 0 {
		attributes = slices.AppendSeq(attributes, maps.Keys(c.Actions[i].Outputs))
	}
	l.checkFormula(path.With("order"), f.Order, cel.IntType, "a whole number, for example int(attributes['offset'])",
		attributes)
	if f.LagAttribute != "" {
		l.oneOf(path.With("lagAttribute"), f.LagAttribute, "attribute", attributes)
	}
	for _, of := range []struct{ field, attribute string }{{"earlierAttribute", f.EarlierAttribute},
		{"lastContactAttribute", f.LastContactAttribute}} {
		switch {
		case of.attribute != "" && f.HistoryAttribute == "":
			l.wrong(path.With(of.field), "is for a failover with a historyAttribute")
		case of.attribute != "":
			l.oneOf(path.With(of.field), of.attribute, "attribute", attributes)
		}
	}
}

// checkBefore: what is run before a planned change are actions of other components that can be run by themselves.
func (l *loader) checkBefore(path document.Path, c *schema.Component) {
	f := c.Failover
	if len(f.Before) > 0 && f.Handover == "" {
		l.wrong(path, "is for a failover with a handover: without one there is nothing that it could come before")
	}
	unique(l, path, f.Before, func(b schema.FailoverBefore) string { return b.Component })
	all := l.components.Components.Components
	others := slices.DeleteFunc(names(all, func(o schema.Component) string { return o.Name }),
		func(name string) bool { return name == c.Name })
	for i, before := range f.Before {
		at := path.Index(i)
		l.oneOf(at.With("component"), before.Component, "other component", slices.Clone(others))
		j := slices.IndexFunc(all, func(o schema.Component) bool { return o.Name == before.Component && o.Name != c.Name })
		if j < 0 {
			continue
		}
		l.checkActionName(at.With("action"), &all[j], before.Action)
		if k := slices.IndexFunc(all[j].Actions, func(a plan.Action) bool { return a.Name == before.Action }); k >= 0 &&
			len(all[j].Actions[k].Parameters) > 0 {
			l.wrong(at.With("action"), "names the action %q, which takes parameters: nobody would give it any", before.Action)
		}
	}
}

// checkActionName: what is to be done is an action of the component.
func (l *loader) checkActionName(path document.Path, c *schema.Component, name string) {
	l.oneOf(path, name, "action of component \""+c.Name+"\"",
		names(c.Actions, func(a plan.Action) string { return a.Name }))
}

// parametersOf are those that the actions of a failover are given.
var parametersOf = map[string][]string{"follow": {plan.ParameterPrimary}}

// checkWritingAction: what the agents run by themselves takes no parameters that they would not know.
func (l *loader) checkWritingAction(path document.Path, c *schema.Component, name string, allowed []string) {
	l.checkActionName(path, c, name)
	i := slices.IndexFunc(c.Actions, func(a plan.Action) bool { return a.Name == name })
	if i < 0 {
		return
	}
	action := &c.Actions[i]
	if key := path[len(path)-1]; key != "measure" && key != "handover" &&
		(action.Success != "" || len(action.Outputs) > 0) {
		l.wrong(path, "names the action %q, which has success or outputs: the process manager runs it and goes by its exit "+
			"code alone, take them out", name)
	}
	if key := path[len(path)-1]; key != "measure" && key != "handover" && action.Query != nil {
		l.wrong(path, "names the action %q, which is a query: the process manager runs it and has no driver, make it a "+
			"command", name)
	}
	for _, parameter := range slices.Sorted(maps.Keys(action.Parameters)) {
		if !slices.Contains(allowed, parameter) {
			l.wrong(path, "names the action %q, which takes the parameter %q: nobody would give it one", name, parameter)
		}
	}
}

// checkFormula checks an expression over what a pod reports.
func (l *loader) checkFormula(path document.Path, source string, want *cel.Type, wanted string, attributes []string) {
	checked, issues := reportexpr.Compile(source)
	if issues.Err() != nil {
		l.wrong(path, "is not a valid expression: %s; known here: role, attributes", placeholder.Explain(issues))
		return
	}
	if !checked.OutputType().IsExactType(want) {
		l.wrong(path, "gives %s: it must give %s", checked.OutputType(), wanted)
	}
	keys, exact := placeholder.KeysUsed(checked, "attributes")
	if !exact {
		l.wrong(path, "must name each attribute that it looks at, as in attributes['offset']")
	}
	for _, key := range keys {
		l.oneOf(path, key, "attribute", slices.Clone(attributes))
	}
}

// ofWritingArgs says whether a path leads to an argument of a process by what its pod is.
func ofWritingArgs(path document.Path) bool {
	return len(path) == 5 && path[0] == "components" && path[2] == "failover" &&
		(path[3] == "primaryArgs" || path[3] == "replicaArgs")
}

// checkWritingArg: the agents fill these texts in, and know no more than the pod and, of one that follows, the writer.
func checkWritingArg(path document.Path, text string) error {
	pod := podtext.PodOf("sample-component-main-0", "sample.example")
	if path[3] == "replicaArgs" {
		pod.Primary = "sample-component-main-1.sample.example"
	}
	_, err := podtext.Expand(text, pod)
	return err
}
