// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// structure is what a pod has to be replaced for when it changes: what plugin and user say of
// the shape of a pod, before the engine adds anything. What can be given to a running pod is no part of
// it (images, resources, the plan), nor is anything that another version of the engine, or other
// settings of the operator, may do differently: an upgrade of an operator replaces no pod.
type structure struct {
	// Template of the plugin with the placeholders filled in.
	Template any `json:"template"`
	// Container that runs the process.
	Container string `json:"container"`
	// Volumes by name.
	Volumes []string `json:"volumes,omitempty"`
	// Ports of the container.
	Ports []structurePort `json:"ports,omitempty"`
	// Scheduling as the user wrote it.
	Scheduling *platformv1.Scheduling `json:"scheduling,omitempty"`
	// Secrets that hold the passwords, by credential: the user's own, or those that the engine makes.
	Secrets []structureSecret `json:"secrets,omitempty"`
	// TLS says that the certificate is mounted.
	TLS bool `json:"tls,omitempty"`
	// Actions says that there are some: the pod has a container that runs them.
	Actions bool `json:"actions,omitempty"`
	// Entities is where the driver keeps what it made: its container has the folder then.
	Entities string `json:"entities,omitempty"`
	// Exporter is the environment of the container that serves metrics.
	Exporter []structureEnv `json:"exporter,omitempty"`
	// Metrics says that an ops agent tells them.
	Metrics bool `json:"metrics,omitempty"`
	// Logs is where the volume of the access logs is mounted.
	Logs string `json:"logs,omitempty"`
	// Archive is the claim of the volume that the process keeps its archive on.
	Archive string `json:"archive,omitempty"`
	// HostIP says that the containers are told the address of their node.
	HostIP bool `json:"hostIP,omitempty"`
	// Zone says that the containers are told the zone of their node.
	Zone bool `json:"zone,omitempty"`
	// Mounts are the volumes that a user gives the component, and where they are mounted.
	Mounts []structureMount `json:"mounts,omitempty"`
	// StopSeconds is the time that the process asks for, which the pod's grace period follows.
	StopSeconds int `json:"stopSeconds,omitempty"`
}

type structurePort struct {
	Name string `json:"name"`
	Port int32  `json:"port"`
}

type structureMount struct {
	Volume   platformv1.Mount `json:"volume"`
	Path     string           `json:"path"`
	ReadOnly bool             `json:"readOnly,omitempty"`
}

type structureEnv struct {
	Name       string `json:"name"`
	Value      string `json:"value,omitempty"`
	Credential string `json:"credential,omitempty"`
	// Revision of the password: an exporter has it in its environment, which only another container has another of.
	Revision string `json:"revision,omitempty"`
}

type structureSecret struct {
	Credential string `json:"credential"`
	Name       string `json:"name"`
	Key        string `json:"key"`
	// Also says that what processes accept beside the password is mounted.
	Also bool `json:"also,omitempty"`
}

// revision is the hash of the structure. t is the template as the plugin's rendering gave it.
func (c *setContext) revision(t *corev1.PodTemplateSpec, p *plan.Plan, exporter []plan.EnvVar) (string, error) {
	data, err := canonical(t)
	if err != nil {
		return "", err
	}
	template, err := decodeTree(data)
	if err != nil {
		return "", err
	}
	s := structure{
		Template:    withoutUpdatable(template),
		Container:   c.declared.Container,
		StopSeconds: p.Process.Stop.TimeoutSeconds,
		TLS:         c.spec.TLS.On(),
		HostIP:      c.spec.External.OnNode(),
		Zone:        c.bundle.UsesPodZone(c.spec.Component),
		Actions:     c.needsOps(),
		Metrics:     c.tellsMetrics(),
	}
	for _, v := range c.declared.Volumes {
		s.Volumes = append(s.Volumes, v.Name)
	}
	for i := range c.spec.AdditionalVolumes {
		s.Volumes = append(s.Volumes, c.declared.Volumes[0].AdditionalName(i+1))
	}
	slices.Sort(s.Volumes)
	for _, env := range exporter {
		entry := structureEnv{Name: env.Name, Value: env.Value}
		if env.Secret != nil {
			entry.Credential = env.Secret.Credential
			entry.Revision = PasswordRevision(p.Credentials[env.Secret.Credential])
		}
		s.Exporter = append(s.Exporter, entry)
	}
	if d := c.declared.Driver; d != nil {
		s.Entities = d.EntitiesFile
	}
	if p.Logs != nil {
		s.Logs = p.Logs.Dir
	}
	if place := c.archive(); place != nil {
		s.Archive = place.Claim
	}
	for _, m := range givenMounts(c.spec, c.declared) {
		s.Mounts = append(s.Mounts, structureMount{*m.volume, m.at.Path, m.at.ReadOnly})
	}
	for _, port := range c.ports() {
		s.Ports = append(s.Ports, structurePort{port.Name, port.Port})
	}
	if wanted := c.set.scheduling; wanted != nil && !equality.Semantic.DeepEqual(*wanted, platformv1.Scheduling{}) {
		s.Scheduling = wanted
	}
	for _, name := range c.declared.Credentials {
		reference := c.secretOf(name)
		if c.opensArchive(name) {
			reference = platformv1.SecretKeyReference{Name: platformv1.CredentialNameFor(c.owner.Application, name),
				Key: plugin.SecretKeyPassword}
		}
		s.Secrets = append(s.Secrets, structureSecret{name, reference.Name, reference.Key, c.acceptsAlso(name)})
	}
	if data, err = canonical(s); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:16], nil
}

// withoutUpdatable takes images and resources out of a template, and what says nothing: nulls
// and empty values, which another version of the types of Kubernetes may write or leave out.
func withoutUpdatable(tree any) any {
	template, _ := tree.(map[string]any)
	spec, _ := template["spec"].(map[string]any)
	for _, key := range []string{"initContainers", "containers"} {
		list, _ := spec[key].([]any)
		for _, element := range list {
			if container, ok := element.(map[string]any); ok {
				delete(container, "image")
				delete(container, "resources")
			}
		}
	}
	return withoutEmpty(template)
}

func withoutEmpty(tree map[string]any) map[string]any {
	for key, value := range tree {
		switch node := value.(type) {
		case nil:
			delete(tree, key)
		case map[string]any:
			// A volume is an emptyDir by having that key.
			if len(withoutEmpty(node)) == 0 && key != "emptyDir" {
				delete(tree, key)
			}
		case []any:
			for _, element := range node {
				if child, ok := element.(map[string]any); ok {
					withoutEmpty(child)
				}
			}
		}
	}
	return tree
}

// RevisionSeparator is between what tells the password of a credential and what tells the one that is accepted beside
// it.
const RevisionSeparator = "."

// PasswordRevision is the part of a credential's revision that tells the password itself, which is all that who shows
// it has to know.
func PasswordRevision(revision string) string {
	password, _, _ := strings.Cut(revision, RevisionSeparator)
	return password
}
