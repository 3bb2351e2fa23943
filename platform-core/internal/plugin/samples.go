// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Agent defaults that rendering needs too.
const (
	// DefaultStopTimeoutSeconds is the time that a process has to stop when the plugin says none.
	DefaultStopTimeoutSeconds = 30
)

// sample is one set of values that a bundle is rendered with when it is loaded.
type sample struct {
	component *schema.Component
	values    placeholder.Values
	// said are the parameters that the engine says; none where no place of an archive is sampled.
	said platformv1.Parameters
	// size in words; empty for the usual one.
	size string
}

// samples are each component in each topology and version: of usual size with limits and without, and with as few and
// as many sets and pods as there can be.
func (b *Bundle) samples() []sample {
	var all []sample
	for _, topology := range b.Components.Topologies {
		for _, tc := range topology.Components {
			component, _ := b.In(topology.Name).Component(tc.Name)
			sets, replicas := component.Limits(tc)
			for _, version := range b.Manifest.SupportedVersions {
				for _, memory := range []int64{0, 1 << 30} {
					all = append(all, sample{component: component, values: sampleValues(component, topology.Name, version, memory)})
				}
				if component.TLS != nil {
					values := sampleValues(component, topology.Name, version, 1<<30)
					values.App.TLS = true
					all = append(all, sample{component: component, values: values, size: " with TLS"})
				}
				if supplied := b.In(topology.Name).supplied(); len(supplied) > 0 {
					values := sampleValues(component, topology.Name, version, 1<<30)
					values.App.Supplied = supplied
					all = append(all, sample{component: component, values: values, size: " with all that a user can supply"})
				}
				if component.Monitoring != nil || component.Logs != nil {
					values := sampleValues(component, topology.Name, version, 1<<30)
					values.App.TLS = component.TLS != nil
					values.Component.Monitoring, values.Component.Logs = component.Monitoring != nil, component.Logs != nil
					all = append(all, sample{component: component, values: values, size: " with all that a user can ask for"})
				}
				if len(component.Mounts) > 0 {
					values := sampleValues(component, topology.Name, version, 1<<30)
					values.Component.Mounts = sampleMounts(component.Mounts)
					all = append(all, sample{component: component, values: values, size: " with all mounts"})
				}
				if component.Additional() != nil {
					values := sampleValues(component, topology.Name, version, 1<<30)
					values.Component.AdditionalVolumes = sampleVolumes(component.Additional())
					all = append(all, sample{component: component, values: values, size: " with all volumes that a user can add"})
				}
				if component.PodServices != nil {
					values := sampleValues(component, topology.Name, version, 1<<30)
					values.App.TLS, values.Component.External = component.TLS != nil, true
					all = append(all, sample{component: component, values: values,
						size: " with an external address of each pod"})
				}
				all = append(all, archiveSamples(component, topology.Name, version)...)
				for _, size := range uniqueSizes([]sampleSize{
					{sets.Min, replicas.Min}, {sets.Min, replicas.Max}, {sets.Max, replicas.Min}, {sets.Max, replicas.Max},
				}) {
					values := sampleValues(component, topology.Name, version, 1<<30)
					size.fill(&values, component.Single())
					all = append(all, sample{component: component, values: values, size: size.String()})
				}
			}
		}
	}
	return all
}

// archiveSamples are a component that keeps its archive in each kind of place that it takes.
func archiveSamples(c *schema.Component, topology, version string) []sample {
	if c.Archive == nil {
		return nil
	}
	var all []sample
	for _, place := range []platformv1.ComponentArchive{{Claim: "sample"},
		{Bucket: &platformv1.ArchiveBucket{Name: "sample", Endpoint: "https://s3.example.com"}}} {
		place.Folder = platformv1.ArchiveFolderFor("sample", "default", "sample")
		if !c.Archive.Takes(&place) {
			continue
		}
		values, size := sampleValues(c, topology, version, 1<<30), " with an archive on a volume"
		if place.Bucket != nil {
			values.App.Supplied, size = []string{c.Archive.Credentials.AccessKey, c.Archive.Credentials.SecretKey},
				" with an archive in a bucket"
		}
		all = append(all, sample{component: c, values: values, size: size, said: c.Archive.ParametersFor(&place)})
	}
	return all
}

// sampleSize is a number of sets and of pods in each.
type sampleSize struct{ sets, replicas int32 }

func uniqueSizes(sizes []sampleSize) []sampleSize {
	var list []sampleSize
	for _, s := range sizes {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

func (s sampleSize) String() string {
	return fmt.Sprintf(" with %d sets of %d pods", s.sets, s.replicas)
}

// fill makes the peers that a component of this size has.
func (s sampleSize) fill(v *placeholder.Values, single bool) {
	v.Component.Replicas, v.Set.Replicas, v.Peers, v.Sets = int64(s.replicas), int64(s.replicas), nil, nil
	for set := range s.sets {
		name := strconv.Itoa(int(set))
		if single {
			name = platformv1.DefaultSet
		}
		v.Sets = append(v.Sets, placeholder.Set{Name: name, Replicas: int64(s.replicas)})
		for ordinal := range s.replicas {
			pod := fmt.Sprintf("%s-%s-%s-%d", v.App.Name, v.Component.Name, name, ordinal)
			v.Peers = append(v.Peers, placeholder.Peer{Name: pod, Ordinal: int64(ordinal), Set: name, FQDN: pod + "." +
				v.Component.Headless})
		}
	}
}

func sampleValues(c *schema.Component, topology, version string, memory int64) placeholder.Values {
	const application, namespace = "sample", "default"
	v := placeholder.Values{
		App: placeholder.App{Name: application, Namespace: namespace, Version: version, Topology: topology},
		Component: placeholder.Component{
			Name: c.Name, MemoryLimit: memory, CPULimit: memory >> 20, Mounts: c.RequiredMounts(),
			Headless: HeadlessServiceName(application, c.Name) + "." + namespace + ".svc.cluster.local",
		},
		Set: placeholder.Set{Name: platformv1.DefaultSet},
	}
	size := sampleSize{sets: 1, replicas: c.Replicas.Default}
	if c.Sets != nil {
		size.sets = c.Sets.Default
	}
	if !c.Single() {
		v.Set.Name = "0"
	}
	size.fill(&v, c.Single())
	return v
}

// checkRendering renders each sample, so that what would fail for a user fails here, and
// checks the pod templates that come out.
func (l *loader) checkRendering(b *Bundle) {
	for _, s := range b.samples() {
		for _, refused := range b.checked(s.component, s.values.App.Version, s.said) {
			l.renderingFailed(PartComponents, componentsKey, s, refused)
		}
		params, err := b.ParametersInForce(s.component, s.values, s.said)
		if len(s.values.App.Supplied) > 0 && s.said == nil && errors.As(err, new(brokenRule)) {
			// What a user supplies goes with parameters that nobody has set here.
			err = nil
		}
		if err != nil {
			l.parametersFailed(b.parameters[s.component.Parameters], s, err)
			continue
		}
		s.values.Params = params
		p, err := b.In(s.values.App.Topology).RenderPlan(s.component.Name, s.values)
		if err == nil {
			err = checkCredentials(s.component, &p)
		}
		if err != nil {
			l.renderingFailed(PartComponents, componentsKey, s, err)
		}
		if _, err := b.RenderExporterEnv(s.component.Name, s.values); err != nil {
			l.renderingFailed(PartComponents, componentsKey, s, err)
		}
		if _, err := b.RenderRoutes(s.component.Name, s.values); err != nil {
			l.renderingFailed(PartComponents, componentsKey, s, err)
		}
		template := b.templates[s.component.PodTemplate]
		rendered, err := b.RenderPodTemplate(s.component, s.values)
		if err != nil {
			l.renderingFailed(PartPodTemplates, template.key, s, err)
			continue
		}
		l.failAll(PartPodTemplates, template.key, podtemplate.Check(template.document, s.component, &rendered))
	}
}

// parametersFailed notes what is wrong with the defaults of a set, or with a rule, for the first sample that has it.
func (l *loader) parametersFailed(file *parameterFile, s sample, err error) {
	if l.noted(err.Error()) {
		return
	}
	path := document.Path{"defaults"}
	var refused *defaultError
	if errors.As(err, &refused) {
		path = path.With(refused.name)
	}
	l.fail(PartParams, file.file, file.document.Line(path), "for %s: %v", s, err)
}

// noted says whether another sample has failed with the same words.
func (l *loader) noted(text string) bool {
	return slices.ContainsFunc(l.errs, func(e LoadError) bool { return strings.HasSuffix(e.Message, ": "+text) })
}

// renderingFailed notes an error for the first sample that has it.
func (l *loader) renderingFailed(part Part, key string, s sample, err error) {
	text := strings.TrimSpace(err.Error())
	if l.noted(text) {
		return
	}
	line := 1
	var leaf *leafError
	if errors.As(err, &leaf) {
		doc := l.components.document
		if part == PartPodTemplates {
			doc = l.templates[s.component.PodTemplate].document
		}
		line = doc.Line(leaf.path)
	}
	l.fail(part, key, line, "for %s: %s", s, text)
}

func (s sample) String() string {
	text := "version " + s.values.App.Version + " and topology " + s.values.App.Topology + s.size
	if s.values.Component.MemoryLimit == 0 {
		return text + " without limits"
	}
	return text
}
