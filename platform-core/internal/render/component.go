// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/resources"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Component renders the sets and Services of one component.
func Component(b *plugin.Bundle, s Settings, owner Meta, spec *platformv1.ComponentSpec) (*ComponentOutput, *Refusal) {
	b = b.In(spec.Topology)
	declared, ok := b.Component(spec.Component)
	if !ok {
		return nil, refuse(platformv1.ReasonComponentNotFound, "plugin %q has no component %q", b.Manifest.Name,
			spec.Component)
	}
	if r := Join(checkVersion(b, spec.Version)); r != nil {
		return nil, r
	}
	if r := checkTLS(b, spec, declared); r != nil {
		return nil, r
	}
	if r := Join(checkParameters(b, spec, spec.Parameters)); r != nil {
		return nil, r
	}
	if r := checkExternal(spec, declared); r != nil {
		return nil, r
	}
	if r := checkMounts(spec, declared); r != nil {
		return nil, r
	}
	if r := checkMonitoring(b, spec, declared); r != nil {
		return nil, r
	}
	if r := checkLogs(b, spec, declared); r != nil {
		return nil, r
	}
	for _, set := range spec.Sets {
		if r := Join(checkParameters(b, spec, set.Parameters)); r != nil {
			return nil, r
		}
	}
	if s.ClusterDomain == "" {
		s.ClusterDomain = DefaultClusterDomain
	}
	c := &context{bundle: b, settings: s, owner: owner, spec: spec, declared: withGiven(declared, b, spec)}
	output := &ComponentOutput{}
	for i := range spec.Sets {
		set := c.of(&spec.Sets[i])
		ws, r := set.workloadSet()
		if r != nil {
			return nil, r
		}
		output.WorkloadSets = append(output.WorkloadSets, WorkloadSetOutput{Name: set.name, Spec: *ws})
		if budget := set.budget(); budget != nil {
			output.Budgets = append(output.Budgets, budget)
		}
		if autoscaler := set.autoscaler(); autoscaler != nil {
			output.Autoscalers = append(output.Autoscalers, autoscaler)
		}
	}
	output.NetworkPolicy = c.networkPolicy()
	output.Role, output.RoleBinding = c.permissions(output.WorkloadSets)
	if r := c.routes(output); r != nil {
		return nil, r
	}
	output.Services, output.Endpoints = c.services()
	output.External = c.external()
	output.Certificate = c.certificate(output.Services)
	output.PodMonitor = c.podMonitor()
	return output, nil
}

// context is what the rendering of one component works with.
type context struct {
	bundle   *plugin.Bundle
	settings Settings
	owner    Meta
	spec     *platformv1.ComponentSpec
	declared *schema.Component
}

// setContext is what the rendering of one set works with.
type setContext struct {
	*context
	set setSpec
	// name of the WorkloadSet.
	name string
}

func (c *context) of(set *platformv1.ComponentSet) *setContext {
	return &setContext{
		context: c, set: resolve(c.spec, set),
		name: platformv1.WorkloadSetNameFor(c.owner.Application, c.spec.Component, set.Name),
	}
}

func (c *setContext) values() placeholder.Values {
	v := placeholder.Values{
		App: placeholder.App{
			Name: c.owner.Application, Namespace: c.owner.Namespace, Version: c.spec.Version, Topology: c.spec.Topology,
			TLS:      c.spec.TLS.On(),
			Supplied: supplied(c.bundle, c.spec),
		},
		Component: placeholder.Component{
			Name: c.spec.Component, Replicas: int64(c.spec.Replicas), Headless: c.headlessDomain(),
			Monitoring: c.spec.Monitoring.On(), Logs: c.spec.Logs.On(), External: c.spec.External != nil,
			Mounts: given(c.spec), AdditionalVolumes: c.additionalPaths(),
			ExtendedResources: resources.Extended(c.set.resources),
		},
		Set: placeholder.Set{Name: c.set.name, Replicas: int64(c.set.replicas)},
	}
	if limit, ok := c.set.resources.Limits[corev1.ResourceMemory]; ok {
		v.Component.MemoryLimit = limit.Value()
	}
	if limit, ok := c.set.resources.Limits[corev1.ResourceCPU]; ok {
		v.Component.CPULimit = limit.MilliValue()
	}
	return v
}

// peers are all pods that the component is to have.
func (c *context) peers() []placeholder.Peer {
	var peers []placeholder.Peer
	for i := range c.spec.Sets {
		set := c.of(&c.spec.Sets[i])
		for _, ordinal := range platformv1.OrdinalsOf(set.set.replicas, set.set.excluded) {
			name := platformv1.PodNameFor(set.name, ordinal)
			peers = append(peers, placeholder.Peer{
				Name: name, Ordinal: int64(ordinal), Set: set.set.name, FQDN: name + "." + c.headlessDomain(),
			})
		}
	}
	return peers
}

// sets are all that the component is to have.
func (c *context) sets() []placeholder.Set {
	var sets []placeholder.Set
	for i := range c.spec.Sets {
		sets = append(sets, placeholder.Set{Name: c.spec.Sets[i].Name, Replicas: int64(c.spec.ReplicasOf(&c.spec.Sets[i]))})
	}
	return sets
}

// headlessDomain is the DNS name below which each pod has its own.
func (c *context) headlessDomain() string {
	return plugin.HeadlessServiceName(c.owner.Application, c.spec.Component) + "." + c.owner.Namespace + ".svc." +
		c.settings.ClusterDomain
}

func (c *setContext) workloadSet() (*platformv1.WorkloadSetSpec, *Refusal) {
	failed := func(err error) (*platformv1.WorkloadSetSpec, *Refusal) {
		return nil, refuse(platformv1.ReasonInvalidSpec, "component %q cannot be rendered: %v", c.spec.Component, err)
	}
	values := c.values()
	params, err := c.bundle.ParametersInForce(c.declared, values, c.withArchive(c.set.parameters))
	if err != nil {
		return nil, refuse(platformv1.ReasonInvalidParameters, "component %q: %v", c.spec.Component, err)
	}
	values.Params, values.Peers, values.Sets = params, c.peers(), c.sets()
	p, err := c.bundle.RenderPlan(c.spec.Component, values)
	if err != nil {
		return failed(err)
	}
	p.Domain, p.Credentials, p.Logs = c.headlessDomain(), c.passwords(), c.logsPlan()
	c.takesOverKeys(&p)
	c.withWriting(&p)
	p.Digest, p.RestartDigest = planDigests(&p)
	if c.spec.External != nil {
		p.External = &plan.External{}
	}
	template, err := c.bundle.RenderPodTemplate(c.declared, values)
	if err != nil {
		return failed(err)
	}
	c.withoutExporter(&template)
	c.withToken(&template)
	exporterEnv, err := c.exporterEnv(values)
	if err != nil {
		return failed(err)
	}
	set := c.shell()
	set.Failover = c.setFailover(params)
	if set.Restore, err = c.restore(values); err != nil {
		return failed(err)
	}
	if set.Revision, err = c.revision(&template, &p, exporterEnv); err != nil {
		return failed(err)
	}
	if r := c.inject(&template, &p, exporterEnv); r != nil {
		return nil, r
	}
	if err := c.schedule(&template.Spec); err != nil {
		return failed(err)
	}
	for target, value := range map[*runtime.RawExtension]any{&set.Template: template, &set.Plan: p} {
		if target.Raw, err = canonical(value); err != nil {
			return failed(err)
		}
	}
	return set, nil
}

// shell is all of the spec but template, revision and plan.
func (c *setContext) shell() *platformv1.WorkloadSetSpec {
	set := &platformv1.WorkloadSetSpec{
		Application:         c.owner.Application,
		Component:           c.spec.Component,
		Set:                 c.set.name,
		Plugin:              c.spec.Plugin,
		Version:             c.spec.Version,
		Topology:            c.spec.Topology,
		Replicas:            c.set.replicas,
		Scaling:             c.setScaling(),
		ExcludedOrdinals:    c.set.excluded,
		Running:             new(c.spec.IsRunning()),
		Suspend:             c.spec.Suspend,
		Maintenance:         c.spec.Maintenance.DeepCopy(),
		PodManagementPolicy: cmp.Or(c.declared.PodManagementPolicy, platformv1.PodManagementParallel),
		RestartStrategy:     c.declared.RestartStrategy,
		Authority:           string(c.declared.Authority),
		DeletionPolicy:      c.spec.DeletionPolicy,
		AdoptVolumes:        c.spec.AdoptVolumes,
	}
	if topology, ok := c.bundle.Topology(c.spec.Topology); ok {
		set.UpdateAfter = slices.Clone(topology.UpdatedBefore(c.spec.Component))
	}
	set.Volumes = c.ownVolumes()
	for _, role := range c.declared.Roles {
		set.Roles = append(set.Roles, platformv1.SetRole{Name: role.Name, Access: role.Access})
	}
	for _, p := range c.declared.Conditions {
		set.Conditions = append(set.Conditions,
			platformv1.SetCondition{Type: p.Type, Roles: p.Roles, Status: p.Status, Reason: p.Reason, Message: p.Message})
	}
	if c.declared.Membership != nil {
		set.Members = Members(set.Replicas, set.ExcludedOrdinals)
	}
	if e := c.declared.Election; e != nil {
		set.Election = &platformv1.SetElection{Member: e.Member, Primary: e.Primary, Epoch: e.Epoch}
	}
	if s := c.declared.Switchover; s != nil {
		set.Switchover = &platformv1.SetSwitchover{Action: s.Action, Roles: s.Roles, When: s.When, Parameters: s.Parameters}
	}
	return set
}

// canonical is JSON with all keys in order, however the value holds them.
func canonical(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return canonicalJSON(data)
}

// canonicalJSON puts the keys of JSON in order. An API server does not keep their order either.
func canonicalJSON(data []byte) ([]byte, error) {
	tree, err := decodeTree(data)
	if err != nil {
		return nil, err
	}
	return marshal(tree)
}

// marshal writes JSON as people read it: <, > and & stay themselves.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
