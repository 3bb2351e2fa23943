// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/resources"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Components checks an Application against the plugin and returns the spec of each of
// its components, in the order in which they are updated, with every default filled in.
func Components(b *plugin.Bundle, app *platformv1.Application) ([]platformv1.ComponentSpec, *Refusal) {
	specs, refusals := CheckedComponents(b, app)
	return specs, Join(refusals)
}

// CheckedComponents is Components with each thing that is wrong by itself. What cannot be judged before something else
// is right is left out: the components of an unknown topology, parameters for an unknown version, sets of a component
// that is wrong.
func CheckedComponents(b *plugin.Bundle, app *platformv1.Application) ([]platformv1.ComponentSpec, []*Refusal) {
	var refusals []*Refusal
	if length := len(app.Name); length > platformv1.MaxApplicationName {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
			"the name %q has %d characters: at most %d are allowed", app.Name, length, platformv1.MaxApplicationName))
	}
	if len(validation.IsDNS1035Label(app.Name)) > 0 {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec, "the name %q cannot be that of a Service: create "+
			"the Application under a name of lower-case letters, digits and hyphens, with a letter first", app.Name))
	}
	refusals = append(refusals, checkVersion(b, app.Spec.Version)...)
	topology, ok := b.Topology(app.Spec.Topology)
	if !ok {
		return nil, append(refusals, refuse(platformv1.ReasonTopologyNotFound, "plugin %q has no topology %q: it has %s",
			b.Manifest.Name, app.Spec.Topology, listTopologies(b)))
	}
	refusals = append(refusals, checkComponentNames(topology, app)...)
	b = b.In(app.Spec.Topology)
	credentials, wrong := credentials(b, app)
	refusals = append(refusals, wrong...)
	parts := topology.Wanted(app.Spec.Names)
	specs := make([]platformv1.ComponentSpec, 0, len(parts))
	for _, tc := range parts {
		spec, wrong := componentSpec(b, app, tc)
		if refusals = append(refusals, wrong...); len(refusals) > 0 {
			continue
		}
		spec.Credentials = credentials
		specs = append(specs, *spec)
	}
	if r := checkFailover(b, app, specs); r != nil && len(refusals) == 0 {
		refusals = append(refusals, r)
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	return specs, nil
}

// Join makes one refusal of several, with the reason of the first and a few of the sentences; nil of none.
func Join(refusals []*Refusal) *Refusal {
	const most = 5
	if len(refusals) == 0 {
		return nil
	}
	var list []string
	for i, r := range refusals {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(refusals)-most))
			break
		}
		list = append(list, r.Message)
	}
	return &Refusal{Reason: refusals[0].Reason, Message: strings.Join(list, "; ")}
}

func supports(b *plugin.Bundle, version string) bool {
	return slices.Contains(b.Manifest.SupportedVersions, version)
}

func checkVersion(b *plugin.Bundle, version string) []*Refusal {
	if supports(b, version) {
		return nil
	}
	return []*Refusal{refuse(platformv1.ReasonVersionNotSupported,
		"plugin %q %s does not support version %q: it supports %s",
		b.Manifest.Name, b.Manifest.Version, version, strings.Join(b.Manifest.SupportedVersions, ", "))}
}

func listTopologies(b *plugin.Bundle) string {
	var list []string
	for _, t := range b.Components.Topologies {
		list = append(list, t.Name)
	}
	return strings.Join(list, ", ")
}

func checkComponentNames(topology *schema.Topology, app *platformv1.Application) []*Refusal {
	var known []string
	var refusals []*Refusal
	for _, c := range topology.Components {
		known = append(known, c.Name)
	}
	for _, c := range app.Spec.Components {
		if !slices.Contains(known, c.Name) {
			refusals = append(refusals, refuse(platformv1.ReasonComponentNotFound, "topology %q has no component %q: it has %s",
				topology.Name, c.Name, strings.Join(known, ", ")))
		}
	}
	return refusals
}

// credentials lists each credential of the plugin with the user's Secret, or the one that the engine makes.
func credentials(b *plugin.Bundle, app *platformv1.Application) ([]platformv1.ComponentCredential, []*Refusal) {
	var refusals []*Refusal
	own := map[string]platformv1.SecretKeyReference{}
	for _, c := range app.Spec.Credentials {
		if _, ok := b.Credential(c.Name); !ok {
			refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec, "plugin %q has no credential %q: it has %s",
				b.Manifest.Name, c.Name, listCredentials(b)))
		}
		if problems := validation.IsDNS1123Subdomain(c.PasswordFrom.Name); len(problems) > 0 {
			refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
				"credential %q has passwordFrom.name %q, which is no name of a Secret", c.Name, c.PasswordFrom.Name))
		}
		if problems := validation.IsConfigMapKey(c.PasswordFrom.Key); c.PasswordFrom.Key != "" && len(problems) > 0 {
			refusals = append(refusals, refuse(platformv1.ReasonInvalidSpec,
				"credential %q has passwordFrom.key %q, which is no key of a Secret", c.Name, c.PasswordFrom.Key))
		}
		own[c.Name] = c.PasswordFrom
	}
	var list []platformv1.ComponentCredential
	for _, c := range b.Components.Credentials {
		reference, ok := own[c.Name]
		if !ok && c.Supplied {
			continue
		}
		if !ok {
			reference.Name = platformv1.CredentialNameFor(app.Name, c.Name)
		}
		if reference.Key == "" {
			reference.Key = plugin.SecretKeyPassword
		}
		list = append(list, platformv1.ComponentCredential{
			Credential: platformv1.Credential{Name: c.Name, PasswordFrom: reference}})
	}
	return list, refusals
}

func listCredentials(b *plugin.Bundle) string {
	var list []string
	for _, c := range b.Components.Credentials {
		list = append(list, c.Name)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func componentSpec(b *plugin.Bundle, app *platformv1.Application,
	tc schema.TopologyComponent) (*platformv1.ComponentSpec, []*Refusal) {
	declared, ok := b.Component(tc.Name)
	if !ok {
		return nil, []*Refusal{refuse(platformv1.ReasonComponentNotFound, "plugin %q has no component %q", b.Manifest.Name,
			tc.Name)}
	}
	var set platformv1.ApplicationComponent
	if i := slices.IndexFunc(app.Spec.Components,
		func(c platformv1.ApplicationComponent) bool { return c.Name == tc.Name }); i >= 0 {
		set = app.Spec.Components[i]
	}
	spec := &platformv1.ComponentSpec{
		Application:    app.Name,
		Component:      tc.Name,
		Plugin:         b.Reference(),
		Version:        app.Spec.Version,
		Topology:       app.Spec.Topology,
		Parameters:     maps.Clone(set.Parameters),
		Running:        new(app.Spec.IsRunning()),
		Suspend:        app.Spec.Suspend,
		Maintenance:    app.Spec.Maintenance.DeepCopy(),
		Scheduling:     set.Scheduling.DeepCopy(),
		NetworkPolicy:  app.Spec.NetworkPolicy.DeepCopy(),
		AdoptVolumes:   app.Spec.AdoptVolumes,
		TLS:            tls(app.Spec.TLS),
		External:       external(set.External),
		Mounts:         set.DeepCopy().Mounts,
		Monitoring:     monitoring(set.Monitoring),
		Logs:           logs(set.Logs),
		DeletionPolicy: app.Spec.VolumePolicy(),

		Autoscaling:         set.Autoscaling.DeepCopy(),
		PodDisruptionBudget: set.PodDisruptionBudget.DeepCopy(),
	}
	allowed := declared.Replicas
	if tc.Replicas != nil {
		allowed = *tc.Replicas
	}
	refusals := checkParameters(b, spec, spec.Parameters)
	for _, fill := range []func() *Refusal{
		func() *Refusal { return checkAutoscaling(spec, declared, allowed, &set) },
		func() *Refusal { return fillReplicas(spec, allowed, &set) },
		func() *Refusal { return fillFailover(spec, declared, allowed, app.Spec.Failover) },
		func() *Refusal { return fillResources(spec, declared, set.Resources) },
		func() *Refusal { return fillStorage(spec, declared, set.Storage) },
		func() *Refusal { return fillAdditional(spec, declared, set.AdditionalVolumes) },
		func() *Refusal { return fillService(spec, declared, set.Service) },
		func() *Refusal { return checkExternal(spec, declared) },
		func() *Refusal { return checkMounts(spec, declared) },
		func() *Refusal { return checkTLS(b, spec, declared) },
		func() *Refusal { return checkMonitoring(b, spec, declared) },
		func() *Refusal { return checkLogs(b, spec, declared) },
		func() *Refusal {
			return checkScheduling(fmt.Sprintf("component %q", spec.Component), spec.Scheduling)
		},
		func() *Refusal { return checkBudget(spec) },
	} {
		if r := fill(); r != nil {
			refusals = append(refusals, r)
		}
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	if refusals = fillSets(b, spec, declared, allowed, set.Sets); len(refusals) == 0 {
		for _, r := range []*Refusal{checkAutoscaledSets(spec, &set), checkExternalSets(spec)} {
			if r != nil {
				refusals = append(refusals, r)
			}
		}
	}
	return spec, refusals
}

func fillReplicas(spec *platformv1.ComponentSpec, allowed schema.Range,
	wanted *platformv1.ApplicationComponent) *Refusal {
	spec.Replicas = allowed.Default
	if a := wanted.Autoscaling; a != nil {
		spec.Replicas = min(max(allowed.Default, a.MinReplicas), a.MaxReplicas)
	}
	if wanted.Replicas != nil {
		spec.Replicas = *wanted.Replicas
	}
	if allowed.Allows(spec.Replicas) {
		return nil
	}
	return refuse(platformv1.ReasonInvalidSpec, "component %q has %d replicas: topology %q takes %s", spec.Component,
		spec.Replicas, spec.Topology, allowed)
}

func fillResources(spec *platformv1.ComponentSpec, declared *schema.Component,
	wanted corev1.ResourceRequirements) *Refusal {
	spec.Resources = *declared.Resources.DeepCopy()
	if hasResources(wanted) {
		spec.Resources = *wanted.DeepCopy()
	}
	return checkResources(fmt.Sprintf("component %q", spec.Component), spec.Resources)
}

func checkResources(where string, r corev1.ResourceRequirements) *Refusal {
	if err := resources.Check(r); err != nil {
		return refuse(platformv1.ReasonInvalidSpec, "%s %v", where, err)
	}
	return nil
}

func fillStorage(spec *platformv1.ComponentSpec, declared *schema.Component, wanted *platformv1.Storage) *Refusal {
	switch {
	case len(declared.Volumes) == 0 && wanted != nil:
		return refuse(platformv1.ReasonInvalidSpec, "component %q has storage set: it keeps no data on volumes, take it out",
			spec.Component)
	case len(declared.Volumes) == 0:
		return nil
	case wanted == nil:
		spec.Storage = &platformv1.Storage{Size: declared.Volumes[0].Size.DeepCopy()}
	case wanted.Size.Sign() <= 0:
		return refuse(platformv1.ReasonInvalidSpec, "component %q has storage of size %s: it must be greater than 0",
			spec.Component, wanted.Size.String())
	case resources.TooFewBytes(wanted.Size):
		return refuse(platformv1.ReasonInvalidSpec, "component %q has storage of size %s: %s",
			spec.Component, wanted.Size.String(), resources.InBytes(wanted.Size))
	default:
		spec.Storage = wanted.DeepCopy()
	}
	return nil
}

// checkParameters judges them one by one, for a version that the plugin knows.
func checkParameters(b *plugin.Bundle, spec *platformv1.ComponentSpec, parameters platformv1.Parameters) []*Refusal {
	if !supports(b, spec.Version) {
		return nil
	}
	var refusals []*Refusal
	for _, err := range b.CheckParameters(spec.Component, spec.Version, parameters) {
		refusals = append(refusals, refuse(platformv1.ReasonInvalidParameters, "%s", err.Message))
	}
	return refusals
}
