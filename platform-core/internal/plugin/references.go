// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/resources"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkReferences checks what the schema of one document cannot: names that
// must be unique, and names that must be there.
func (l *loader) checkReferences() {
	c := &l.components.Components
	unique(l, document.Path{"components"}, c.Components, func(x schema.Component) string { return x.Name })
	unique(l, document.Path{"topologies"}, c.Topologies, func(x schema.Topology) string { return x.Name })
	unique(l, document.Path{"credentials"}, c.Credentials, func(x schema.Credential) string { return x.Name })
	for i := range c.Components {
		l.checkComponent(i, &c.Components[i])
	}
	l.checkServiceNames()
	l.checkTopologies()
	l.checkNeeds()
	l.checkDynamic()
	l.checkBindings()
	l.checkEntities()
	l.checkBackupNames()
	l.checkUnused()
	l.checkOperations()
}

// wrong notes an error at a path of components.yaml.
func (l *loader) wrong(path document.Path, format string, args ...any) {
	l.fail(PartComponents, componentsKey, l.components.document.Line(path), "%s %s", path, fmt.Sprintf(format, args...))
}

// unique refuses two elements of a list with the same name.
func unique[T any](l *loader, path document.Path, list []T, name func(T) string) {
	seen := map[string]int{}
	for i, element := range list {
		if first, ok := seen[name(element)]; ok {
			l.wrong(path.Index(i), "has the name %q of %s: names must differ", name(element), path.Index(first))
			continue
		}
		seen[name(element)] = i
	}
}

// oneOf notes an error unless a name is among those that are known.
func (l *loader) oneOf(path document.Path, name, what string, known []string) {
	if slices.Contains(known, name) {
		return
	}
	slices.Sort(known)
	hint := "there is none"
	if len(known) > 0 {
		hint = "there is " + strings.Join(known, ", ")
	}
	l.wrong(path, "names the %s %q, which is not there: %s", what, name, hint)
}

func names[T any](list []T, name func(T) string) []string {
	all := make([]string, 0, len(list))
	for _, element := range list {
		all = append(all, name(element))
	}
	return all
}

func (l *loader) credentialNames() []string {
	return names(l.components.Credentials, func(c schema.Credential) string { return c.Name })
}

// certain are those of some credentials that are there whatever a user supplies.
func (l *loader) certain(credentials []string) []string {
	return slices.DeleteFunc(slices.Clone(credentials), func(name string) bool {
		return slices.ContainsFunc(l.components.Credentials,
			func(c schema.Credential) bool { return c.Name == name && c.Supplied })
	})
}

func (l *loader) parameterSetNames() []string { return slices.Collect(maps.Keys(l.parameters)) }

func portNames(c *schema.Component) []string {
	return names(c.Ports, func(p schema.Port) string { return p.Name })
}

func (l *loader) checkComponent(i int, c *schema.Component) {
	at := componentPath(i)
	unique(l, at.With("ports"), c.Ports, func(p schema.Port) string { return p.Name })
	for i, p := range c.Ports {
		if first := slices.IndexFunc(c.Ports, func(other schema.Port) bool { return other.Port == p.Port }); first < i {
			l.wrong(at.With("ports").Index(i), "has the port %d of %s: one port has one name", p.Port,
				at.With("ports").Index(first))
		}
	}
	l.checkVolumes(at.With("volumes"), c)
	unique(l, at.With("roles"), c.Roles, func(r schema.Role) string { return r.Name })
	unique(l, at.With("files"), c.Files, func(f schema.File) string { return f.Path })
	if _, ok := l.sources[PartPodTemplates]; ok {
		l.oneOf(at.With("podTemplate"), c.PodTemplate, "pod template", slices.Collect(maps.Keys(l.templates)))
	}
	if _, ok := l.part(PartParams)[c.Parameters+".yaml"]; c.Parameters != "" && !ok {
		l.oneOf(at.With("parameters"), c.Parameters, "parameter set", l.parameterSetNames())
	}
	for j, name := range c.Credentials {
		l.oneOf(at.With("credentials").Index(j), name, "credential", l.credentialNames())
	}
	l.checkImages(at.With("images"), c)
	if err := resources.Check(c.Resources); err != nil {
		l.wrong(at.With("resources"), "%v", err)
	}
	l.checkScale(at, c)
	for j, s := range c.Services {
		path := at.With("services").Index(j)
		if s.Role != "" {
			l.oneOf(path.With("role"), s.Role, "role", names(c.Roles, func(r schema.Role) string { return r.Name }))
		}
		for k, port := range s.Ports {
			l.oneOf(path.With("ports").Index(k), port, "port", portNames(c))
			switch access := c.AccessOf(port); {
			case access == schema.PortPeers && s.Exposure != schema.ExposureInternal:
				l.wrong(path.With("ports").Index(k),
					"names the port %q, whose access is Peers: a Service for clients cannot have it", port)
			case access == schema.PortMetrics:
				l.wrong(path.With("ports").Index(k), "names the port %q, whose access is Metrics: no Service has it", port)
			}
		}
	}
	l.checkPodServices(at, c)
	l.checkRoutes(at.With("routes"), c)
	l.checkMounts(at.With("mounts"), c)
	l.checkProcess(at.With("process"), c)
	l.checkFiles(at.With("files"), c)
	l.checkProbe(at.With("probe"), c)
	l.checkTLS(at.With("tls"), c)
	l.checkActions(at.With("actions"), c)
	l.checkBackups(at.With("backups"), c)
	l.checkArchive(at.With("archive"), c)
	l.checkDriver(at.With("driver"), c)
	l.checkSwitchover(at.With("switchover"), c)
	l.checkFailover(at, c)
	l.checkElection(at, c)
	l.checkMembership(at, c)
	l.checkRestarts(at, c)
	l.checkMonitoring(at, c)
	l.checkLogs(at, c)
	l.checkConditions(at.With("conditions"), c)
}

func (l *loader) checkImages(path document.Path, c *schema.Component) {
	for _, version := range l.manifest.SupportedVersions {
		if c.Images[version] == "" {
			l.wrong(path, "has no image for %q, which supported-versions names: add it", version)
		}
	}
	for _, version := range slices.Sorted(maps.Keys(c.Images)) {
		if !slices.Contains(l.manifest.SupportedVersions, version) {
			l.wrong(path.With(version),
				"is the image of a version that supported-versions does not name: take it out or name it")
		}
	}
}

func (l *loader) checkRange(path document.Path, r schema.Range) {
	switch {
	case r.Min > r.Default || r.Default > r.Max:
		l.wrong(path, "has min %d, default %d and max %d: they must grow in this order", r.Min, r.Default, r.Max)
	case !r.Allows(r.Default) || !r.Allows(r.Max):
		l.wrong(path, "has default %d and max %d, and takes steps of %d from %d: both must be steps", r.Default, r.Max,
			r.Step, r.Min)
	}
}

// checkScale checks how many sets and pods there can be.
func (l *loader) checkScale(at document.Path, c *schema.Component) {
	l.checkRange(at.With("replicas"), c.Replicas)
	sets := int32(1)
	if c.Sets != nil {
		l.checkRange(at.With("sets"), *c.Sets)
		sets = c.Sets.Max
	}
	if sets*c.Replicas.Max > placeholder.MaxPeers {
		l.wrong(at.With("replicas"), "allows %d sets of %d pods: a component has at most %d pods", sets, c.Replicas.Max,
			placeholder.MaxPeers)
	}
}

func (l *loader) checkProcess(path document.Path, c *schema.Component) {
	l.checkEnv(path.With("env"), c, c.Process.Env)
	l.checkHooks(path.With("hooks"), c)
	reload := c.Process.Reload
	if reload == nil {
		return
	}
	path = path.With("reload")
	if len(reload.Each) > 0 && !l.hasDynamic(c) {
		l.wrong(path.With("each"), "is run for each changed dynamic parameter, and the component has none: name some in "+
			"\"dynamic\" of its parameter set")
	}
	l.checkReload(path, c, reload, "signal, command and each")
	l.checkReloadedCredentials(path.With("credentials"), c)
}

// checkReloadedCredentials: a password that a reload takes over is not in the environment of the process, which only a
// start changes.
func (l *loader) checkReloadedCredentials(path document.Path, c *schema.Component) {
	reload := c.Process.Reload
	unique(l, path, reload.Credentials, func(name string) string { return name })
	for i, name := range reload.Credentials {
		l.oneOf(path.Index(i), name, "credential of this component", slices.Clone(c.Credentials))
		if slices.ContainsFunc(c.Process.Env, func(e plan.EnvVar) bool {
			return e.Secret != nil && e.Secret.Credential == name && e.Secret.Key == SecretKeyPassword
		}) {
			l.wrong(path.Index(i), "names %q, whose password is in process.env: no reload changes that", name)
		}
		if len(reload.Each) > 0 {
			l.wrong(path, "is for a reload that takes over everything: one with each is told of parameters alone")
		}
	}
}

// checkTLS: what is renewed is taken over in one way, or read anew by the process itself.
func (l *loader) checkTLS(path document.Path, c *schema.Component) {
	if c.TLS == nil || c.TLS.Reload == nil {
		return
	}
	if len(c.TLS.Reload.Credentials) > 0 {
		l.wrong(path.With("reload").With("credentials"), "is for passwords: it belongs to process.reload")
	}
	if len(c.TLS.Reload.Each) > 0 {
		l.wrong(path.With("reload").With("each"), "is for parameters: a certificate is taken over by a signal or a command")
	}
	l.checkReload(path.With("reload"), c, c.TLS.Reload, "signal and command")
}

func (l *loader) checkReload(path document.Path, c *schema.Component, reload *plan.Reload, known string) {
	ways := 0
	for _, given := range []bool{reload.Signal != "", len(reload.Command) > 0, len(reload.Each) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		l.wrong(path, "must have exactly one of %s", known)
	}
	if reload.Signal != "" && ways == 1 {
		if len(reload.Env) > 0 {
			l.wrong(path.With("env"), "is for a command: a signal has none, take it out")
		}
		if reload.TimeoutSeconds != 0 {
			l.wrong(path.With("timeoutSeconds"), "is for a command: a signal takes no time, take it out")
		}
	}
	l.checkEnv(path.With("env"), c, reload.Env)
}

func (l *loader) checkEnv(path document.Path, c *schema.Component, list []plan.EnvVar) {
	unique(l, path, list, func(e plan.EnvVar) string { return e.Name })
	for i, env := range list {
		if env.Value != "" && env.Secret != nil {
			l.wrong(path.Index(i), "has a value and a secret: it can have one of them")
		}
		l.checkSecret(path.Index(i).With("secret"), c, env.Secret)
	}
}

// checkSecret: only credentials that the component mounts can be read in its pods.
func (l *loader) checkSecret(path document.Path, c *schema.Component, ref *plan.SecretRef) {
	if ref != nil {
		l.oneOf(path.With("credential"), ref.Credential, "credential of this component", l.certain(c.Credentials))
	}
}
