// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Refusal is why an Operation cannot run, for good.
type Refusal struct {
	// Reason is one of platformv1.Reason… or of this package.
	Reason string
	// Message is a sentence that says what to do.
	Message string
}

// Reasons of Operations. These are of those that cannot begin.
const (
	// ReasonNotSupported: the plugin of the target cannot do what the template asks for. The Operation fails
	// before it changes anything. Use the template that the message names.
	ReasonNotSupported = "NotSupported"
	// ReasonPreconditionFailed: a precondition of the template does not hold. The Operation fails before it
	// changes anything. Do what the message says, and create another Operation.
	ReasonPreconditionFailed = "PreconditionFailed"
)

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason, message string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(message, args...)}
}

// PinnedTo returns the bundle that an Application uses: the one that its status pins, else the one that its spec names.
func PinnedTo(app *platformv1.Application) platformv1.PluginReference {
	if app.Status.Plugin != nil {
		return *app.Status.Plugin
	}
	return platformv1.PluginReference{Name: app.Spec.Plugin,
		Version: platformv1.CanonicalPluginVersion(app.Spec.PluginVersion)}
}

// Knowledge says whether something is known at all.
type Knowledge string

// Values of Knowledge.
const (
	Known   Knowledge = "Known"
	Unknown Knowledge = "Unknown"
)

// BundleOf checks that the bundle that an Application uses is loaded and is the one that is pinned.
// state is what the index of plugins knows; known says whether that is anything.
func BundleOf(pinned platformv1.PluginReference, state plugin.State, known Knowledge) (*plugin.Bundle, *Refusal) {
	switch {
	case known == Unknown:
		return nil, refuse(platformv1.ReasonPluginMissing,
			"plugin %q version %q of the target is not loaded: install it again", pinned.Name, pinned.Version)
	case state.Bundle == nil:
		return nil, refuse(platformv1.ReasonPluginInvalid,
			"plugin %q version %q of the target was refused: kubectl describe plugin %s-%s says why",
			pinned.Name, pinned.Version, pinned.Name, pinned.Version)
	case pinned.Digest != "" && state.Bundle.Digest != pinned.Digest:
		return nil, refuse(platformv1.ReasonPluginChanged, "plugin %q version %q is loaded with digest %s, and the target "+
			"is pinned to %s: install the bundle that it was made from",
			pinned.Name, pinned.Version, state.Bundle.Digest, pinned.Digest)
	}
	return state.Bundle, nil
}

// FindTemplate returns the template that an Operation names, from the bundle of its target.
func FindTemplate(spec platformv1.OperationSpec, bundle *plugin.Bundle) (optemplate.Template, *Refusal) {
	name := spec.TemplateRef
	if source, rest, qualified := strings.Cut(spec.TemplateRef, "/"); qualified {
		own := bundle.Manifest.Name + "@" + bundle.Manifest.Version
		if of, version, _ := strings.Cut(source, "@"); of+"@"+platformv1.CanonicalPluginVersion(version) != own {
			return optemplate.Template{}, refuse(platformv1.ReasonTemplateNotFound,
				"templateRef %q is of another plugin than the target, which uses %s: write %q or just %q", spec.TemplateRef, own,
				own+"/"+rest, rest)
		}
		if name = rest; MakesOrRemoves(name) {
			return optemplate.Template{}, refuse(platformv1.ReasonTemplateNotFound,
				"template %q is the engine's and no plugin's: write %q", name, name)
		}
	}
	template, found := bundle.Operations[name]
	if !found || MakesOrRemoves(name) {
		template, found = Defaults()[name]
	}
	if !found {
		known := slices.Concat(slices.Collect(maps.Keys(bundle.Operations)), slices.Collect(maps.Keys(Defaults())))
		slices.Sort(known)
		return optemplate.Template{}, refuse(platformv1.ReasonTemplateNotFound,
			"plugin %q version %q has no Operation template %q; it has: %s",
			bundle.Manifest.Name, bundle.Manifest.Version, name, list(slices.Compact(known)))
	}
	if len(template.Steps) == 0 {
		return optemplate.Template{}, refuse(platformv1.ReasonPluginInvalid, "template %q of plugin %q has no steps",
			name, bundle.Manifest.Name)
	}
	for i := range template.Steps {
		step := &template.Steps[i]
		if kindOf(step) == nil {
			return optemplate.Template{}, refuse(platformv1.ReasonPluginInvalid,
				"step %q of template %q is of a type that this operator does not know", step.Name, name)
		}
	}
	return template, nil
}

// Check refuses what a spec asks for and its template does not offer.
func Check(op *platformv1.Operation, target Target, component string, template optemplate.Template) *Refusal {
	spec := op.Spec
	if refusal := checkCommon(spec, template); refusal != nil {
		return refusal
	}
	if refusal := checkTargetSpec(spec, template); refusal != nil {
		return refusal
	}
	// What a step runs has the account of its parent, whatever it does.
	if spec.ServiceAccountName != "" && ParentOf(op) == "" && !slices.ContainsFunc(template.Steps, writesObjects) {
		return refuse(platformv1.ReasonInvalidSpec,
			"template %q has no step that writes objects or runs a job, and serviceAccountName is for those only: leave it out",
			template.Name)
	}
	if spec.ServiceAccountName == "" &&
		slices.ContainsFunc(template.Steps,
			func(s optemplate.Step) bool { return s.HTTP != nil && s.HTTP.ReadsObjects() }) {
		return refuse(platformv1.ReasonInvalidSpec, "template %q makes a call with a Secret or a ConfigMap of the "+
			"namespace: set serviceAccountName to a ServiceAccount that may read it", template.Name)
	}
	if component != "" && len(template.Targets) > 0 && !slices.Contains(template.Targets, component) {
		return refuse(platformv1.ReasonInvalidSpec,
			"template %q cannot act on %s, which is of component %q; it can act on: %s",
			template.Name, target, component, list(template.Targets))
	}
	return nil
}

// checkCommon refuses what no template offers, wherever it is from.
func checkCommon(spec platformv1.OperationSpec, template optemplate.Template) *Refusal {
	if _, err := ParametersOf(spec, template); err != nil {
		return refuse(platformv1.ReasonInvalidParameters, "%v", err)
	}
	if spec.Timeout != nil && spec.Timeout.Duration <= 0 {
		return refuse(platformv1.ReasonInvalidSpec, "timeout %s is not allowed: it must be greater than 0",
			spec.Timeout.Duration)
	}
	return checkRetry(spec.Retry, template)
}

func writesObjects(step optemplate.Step) bool {
	return step.Apply != nil || step.Patch != nil || step.Delete != nil || step.Operation != nil || step.Job != nil ||
		step.HTTP != nil && step.HTTP.ReadsObjects() || livesOn(step)
}

// Supported refuses a template of the engine that the plugin of a target cannot do.
func Supported(template optemplate.Template, bundle *plugin.Bundle, components []string,
	component string) *Refusal {
	if component != "" {
		components = []string{component}
	}
	_, own := bundle.Operations[template.Name]
	for _, step := range template.Steps {
		switchover, failover, rebuild := does(step, optemplate.EngineSwitchover), does(step, optemplate.EngineFailover),
			does(step, optemplate.EngineRebuild)
		able, names, stuck, reloads := false, false, "", false
		for _, name := range components {
			c, ok := bundle.Component(name)
			if !ok {
				continue
			}
			able = able || c.Switchover != nil || c.Failover != nil
			names = names || c.Failover != nil
			if acts(template, name) && c.Process.Reload == nil {
				stuck = cmp.Or(stuck, name)
			}
			reloads = reloads || acts(template, name) && c.Process.Reload != nil
		}
		// Of several components those reload that can: the others have no setting that a process takes over while it runs on.
		if step.Agent != nil && step.Agent.Call == optemplate.AgentReload && stuck != "" && !reloads {
			return refuse(ReasonNotSupported, "component %q of plugin %q cannot reload: use the template Restart", stuck,
				bundle.Manifest.Name)
		}
		if switchover && !able {
			return refuse(ReasonNotSupported, "plugin %q declares no switchover for %s", bundle.Manifest.Name, list(components))
		}
		if failover && !names {
			return refuse(ReasonNotSupported, "plugin %q declares no failover for %s: its members elect a primary themselves, "+
				"or there is none", bundle.Manifest.Name, list(components))
		}
		if methods, _ := bundle.BackupMethodsOf(components); does(step, optemplate.EngineBackup) && len(methods) == 0 {
			return refuse(ReasonNotSupported, "plugin %q version %q does not say how data of %s is backed up: bring the "+
				"instance to a later version of it, where one says so, or use what the middleware has itself",
				bundle.Manifest.Name, bundle.Manifest.Version, list(components))
		}
		if does(step, optemplate.EngineDrill) && !verifies(bundle, components) {
			return refuse(ReasonNotSupported, "plugin %q version %q does not say how data of %s that was restored is "+
				"verified, so that no drill is possible: bring the instance to a later version of it, where one says so",
				bundle.Manifest.Name, bundle.Manifest.Version, list(components))
		}
		if rebuild && !names && !own {
			return refuse(ReasonNotSupported, "plugin %q does not say how a member of %s is made anew: its members elect a "+
				"primary themselves, and what they know of each other is not the engine's; "+
				"a plugin that can brings a template %s of its own", bundle.Manifest.Name, list(components), template.Name)
		}
	}
	return nil
}

// verifies says whether a method of some component can be verified.
func verifies(bundle *plugin.Bundle, components []string) bool {
	methods, _ := bundle.BackupMethodsOf(components)
	return slices.ContainsFunc(methods, func(m schema.BackupMethod) bool { return m.Verify != nil })
}

func does(step optemplate.Step, verb optemplate.EngineVerb) bool {
	return step.Engine != nil && step.Engine.Do == verb
}

func acts(template optemplate.Template, component string) bool {
	return len(template.Targets) == 0 || slices.Contains(template.Targets, component)
}

// ParametersInForce are the parameters of an Operation that was checked, defaults included.
func ParametersInForce(spec platformv1.OperationSpec, template optemplate.Template) map[string]string {
	values := map[string]string{}
	for name, p := range template.Parameters {
		if p.Default != nil {
			values[name] = *p.Default
		}
		if given, ok := spec.Parameters[name]; ok {
			values[name] = string(given)
		}
	}
	return values
}

// ParametersOf returns the parameters that an Operation runs with; the error is a sentence.
func ParametersOf(spec platformv1.OperationSpec, template optemplate.Template) (map[string]string, error) {
	given := map[string]string{}
	for name, value := range spec.Parameters {
		given[name] = string(value)
	}
	return template.CheckParameters(given)
}

// Retryable says why an Operation cannot go on where an earlier one stopped; nil when it can.
func Retryable(op, earlier *platformv1.Operation, facts Facts) *Refusal {
	a, b := op.Spec, earlier.Spec
	switch {
	case earlier.Status.Phase != platformv1.OperationFailed && earlier.Status.Phase != platformv1.OperationCancelled:
		return refuse(platformv1.ReasonInvalidSpec,
			"retryOf names Operation %q, which is %s: only one that failed or was cancelled can be tried again", earlier.Name,
			earlier.Status.Phase)
	case a.TemplateRef != b.TemplateRef || a.Template != b.Template || a.TargetRef != b.TargetRef ||
		!maps.Equal(a.Parameters, b.Parameters):
		return refuse(platformv1.ReasonInvalidSpec, "retryOf names Operation %q, which has another template, target or "+
			"parameters: what succeeded there says nothing here", earlier.Name)
	case a.Author != "" && a.Author != b.Author:
		return refuse(platformv1.ReasonInvalidSpec,
			"retryOf names Operation %q, which is not of %s: create the Operation without retryOf", earlier.Name, a.Author)
	case facts.Application != nil && earlier.Status.CompletionTime.Before(&facts.Application.CreationTimestamp):
		return refuse(platformv1.ReasonInvalidSpec,
			"retryOf names Operation %q, which ended before %s was made: create the Operation without retryOf", earlier.Name,
			facts.Target)
	}
	for _, step := range earlier.Status.Steps {
		if facts.Template.Compensates(step.Name) && step.Attempts > 0 {
			return refuse(platformv1.ReasonInvalidSpec,
				"retryOf names Operation %q, whose step %q undid what was done: create the Operation without retryOf", earlier.Name,
				step.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(step.Outputs)) {
			if _, err := facts.Template.RecordOutput(step.Name, name, step.Outputs[name]); err != nil {
				return refuse(platformv1.ReasonInvalidSpec,
					"retryOf names Operation %q, whose record the template cannot go on with: %v; create the Operation "+
						"without retryOf", earlier.Name, err)
			}
		}
	}
	return nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return strings.Join(quoted, ", ")
}
