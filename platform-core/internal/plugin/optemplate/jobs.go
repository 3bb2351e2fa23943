// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// maxJobOutput is how long the value of an output of a job can be, in characters.
const maxJobOutput = 1024

// JobStep runs a command in a pod of its own, once.
type JobStep struct {
	// Component that the pod is like: it has its image of the target's version, its user, and its place in the cluster,
	// and can have its credentials. The only one that the template acts on when left out.
	Component string `json:"component,omitempty"`
	// Image in place of that of the component.
	Image string `json:"image,omitempty"`
	// Command and arguments, with placeholders; never through a shell.
	Command []string `json:"command"`
	// Env of the container.
	Env []JobEnv `json:"env,omitempty"`
	// Volumes that it has beside its own scratch space. Default none.
	Volumes JobVolumes `json:"volumes,omitempty"`
	// Mounts of the component that it has as well, by name, where a user gave them a volume.
	Mounts []string `json:"mounts,omitempty"`
	// Resources of the container. Requests of 50m and 64Mi when left out.
	Resources JobResources `json:"resources,omitzero"`
	// Outputs are the lines NAME=VALUE that the command writes to /dev/termination-log: the CUE constraint of each value,
	// which is at most 1024 characters long, by name.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// JobVolumes says whose volumes a job has.
type JobVolumes string

// JobVolumesWriter are those of the pod that is on record as the writer of the component, where its containers have
// them. The job begins when that pod is gone, which the steps before have to bring about.
const JobVolumesWriter JobVolumes = "Writer"

// JobPodEnv tells the container of a job with volumes whose they are.
const JobPodEnv = "JOB_POD"

// JobEnv is one variable of a job: a value with placeholders, or one out of a Secret.
type JobEnv struct {
	Name   string          `json:"name"`
	Value  string          `json:"value,omitempty"`
	Secret *plan.SecretRef `json:"secret,omitempty"`
}

// CheckJobOutput says whether the value of an output of a job or a task meets its constraint; the error is a sentence.
func CheckJobOutput(name, schema, value string) error {
	if len([]rune(value)) > maxJobOutput {
		return fmt.Errorf("output %q is longer than %d characters", name, maxJobOutput)
	}
	if err := constraint.CheckText(schema, value); err != nil {
		return fmt.Errorf("output %q %w", name, err)
	}
	return nil
}

func (c checker) job(path document.Path, step *JobStep) {
	component := c.jobComponent(path, step)
	if step.Volumes != "" && component != nil && !component.PrimaryHasVolumes {
		c.fail(path.With("volumes"), "are those of a pod on record as the primary, and component %q has no failover or no "+
			"volumes", component.Name)
	}
	for i, name := range step.Mounts {
		if component == nil || !slices.Contains(component.Mounts, name) {
			c.fail(path.With("mounts").Index(i), "names the mount %q, which the component does not have for one volume", name)
		}
	}
	seen := map[string]bool{}
	for i, env := range step.Env {
		at := path.With("env").Index(i)
		if step.Volumes != "" && env.Name == JobPodEnv {
			c.fail(at.With("name"), "is taken by the engine: name it otherwise")
		}
		if seen[env.Name] {
			c.fail(at.With("name"), "is %q, which another one has", env.Name)
		}
		seen[env.Name] = true
		switch {
		case env.Secret == nil:
		case env.Value != "":
			c.fail(at, "has a value and a secret: it can have one of them")
		case component == nil || !slices.Contains(component.Credentials, env.Secret.Credential):
			c.fail(at.With("secret").With("credential"), "names the credential %q, which the component does not have",
				env.Secret.Credential)
		case slices.Contains(c.scope.Supplied, env.Secret.Credential):
			c.fail(at.With("secret").With("credential"), "names the credential %q, which is there only where a user supplies it",
				env.Secret.Credential)
		}
	}
	if err := step.Resources.check(); err != nil {
		c.fail(path.With("resources"), "%v", err)
	}
	c.declared(path, step.Outputs)
}

// jobComponent is the one whose image a job has. A template of the engine learns that from its target.
func (c checker) jobComponent(path document.Path, step *JobStep) *Component {
	var known []string
	for _, component := range c.scope.Components {
		known = append(known, component.Name)
	}
	switch i := slices.Index(known, step.Component); {
	case i >= 0:
		return &c.scope.Components[i]
	case step.Component != "":
		c.fail(path.With("component"), "names the component %q, which the template does not act on: it acts on %s",
			step.Component, cmp.Or(strings.Join(known, ", "), "none"))
	case len(known) == 1:
		return &c.scope.Components[0]
	case len(known) > 1:
		c.fail(path, "does not say whose image it has: set component to one of %s", strings.Join(known, ", "))
	}
	return nil
}
