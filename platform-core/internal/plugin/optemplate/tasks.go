// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placement"
)

// PodStep is what a container step and a script step say of their pod. It runs to completion, once for each attempt.
type PodStep struct {
	// Image of the container, with placeholders.
	Image string `json:"image"`
	// Env of the container; values may hold placeholders.
	Env []TaskEnv `json:"env,omitempty"`
	// Resources of the container. Requests of 50m and 64Mi when left out.
	Resources JobResources `json:"resources,omitzero"`
	// Mounts of the container beside /tmp.
	Mounts []TaskMount `json:"mounts,omitempty"`
	// ServiceAccountName is whose token the pod has; none when empty.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// NodeSelector of the pod.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of taints of nodes.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// PriorityClassName of the pod.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// RunAsUser is the numeric ID of the user; that of the image when left out.
	RunAsUser *int64 `json:"runAsUser,omitempty"`
	// FSGroup is the numeric ID of the group that may write to the volumes of claims; they stay as they are when left out.
	FSGroup *int64 `json:"fsGroup,omitempty"`
	// Confinement of the pod. Default Restricted.
	Confinement Confinement `json:"confinement,omitempty"`
	// Outputs are the lines NAME=VALUE that the container writes to /dev/termination-log, 4096 bytes in all: the CUE
	// constraint of each value, which is at most 1024 characters long, by name.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Confinement says what the container of a step may do on its node.
type Confinement string

// Values of Confinement.
const (
	// ConfinementRestricted: no root user, no writes but to /tmp and the mounts.
	ConfinementRestricted Confinement = "Restricted"
	// ConfinementBaseline: root within the container and a writable image, no privileges on the node.
	ConfinementBaseline Confinement = "Baseline"
)

// TaskEnv is one variable: a value, or a key of a Secret or a ConfigMap.
type TaskEnv struct {
	Name      string        `json:"name"`
	Value     string        `json:"value,omitempty"`
	Secret    *KeyReference `json:"secret,omitempty"`
	ConfigMap *KeyReference `json:"configMap,omitempty"`
}

// KeyReference is a key of a Secret or a ConfigMap in the namespace of the Operation.
type KeyReference struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// TaskMount is a volume in the container: exactly one of Claim, ConfigMap, Secret and Scratch.
type TaskMount struct {
	Path     string `json:"path"`
	SubPath  string `json:"subPath,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Claim is the name of a PersistentVolumeClaim.
	Claim     string `json:"claim,omitempty"`
	ConfigMap string `json:"configMap,omitempty"`
	Secret    string `json:"secret,omitempty"`
	// Scratch is the size limit of a volume that goes with the pod.
	Scratch JobAmount `json:"scratch,omitempty"`
}

// ContainerStep runs a container. Command and arguments are those of the image when left out; both may hold
// placeholders.
type ContainerStep struct {
	PodStep `json:",inline"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// ScriptStep runs a program that is written in the template. It holds no placeholders: values reach it as variables, so
// that no parameter can become part of the program.
type ScriptStep struct {
	PodStep `json:",inline"`
	// Interpreter is the command that takes the program as its last argument. Default /bin/sh -ec.
	Interpreter []string `json:"interpreter,omitempty"`
	// Source of the program.
	Source string `json:"source"`
	// Args follow the program.
	Args []string `json:"args,omitempty"`
}

// maxSource is how long a program can be, in bytes: Linux takes no argument of a command beyond 128 KiB.
const maxSource = 65536

// defaultInterpreter takes a program as its last argument.
var defaultInterpreter = []string{"/bin/sh", "-ec"}

// Task is the pod of a container step or a script step; nil for another one.
func (s *Step) Task() *PodStep {
	switch {
	case s.Container != nil:
		return &s.Container.PodStep
	case s.Script != nil:
		return &s.Script.PodStep
	}
	return nil
}

// TaskCommand is what the container of a task runs, and its arguments. Words of program hold no placeholders.
func (s *Step) TaskCommand() (program, command, args []string) {
	if s.Container != nil {
		return nil, s.Container.Command, s.Container.Args
	}
	interpreter := s.Script.Interpreter
	if len(interpreter) == 0 {
		interpreter = defaultInterpreter
	}
	program = append(slices.Clone(interpreter), s.Script.Source)
	if len(s.Script.Args) > 0 && len(s.Script.Interpreter) == 0 {
		// What follows the program is $0 of a shell.
		program = append(program, "script")
	}
	return program, nil, s.Script.Args
}

// StepOutputs are the constraints of the outputs that a job or a task says, by name.
func (s *Step) StepOutputs() map[string]string {
	if task := s.Task(); task != nil {
		return task.Outputs
	}
	if s.Job != nil {
		return s.Job.Outputs
	}
	return nil
}

// reservedMounts are below what the engine mounts.
var reservedMounts = []string{"/", "/tmp", "/dev", "/proc", "/sys", "/var/run/secrets/kubernetes.io/serviceaccount"}

// task checks the pod of a step.
func (c checker) task(at document.Path, step *PodStep) {
	seen := map[string]bool{}
	for i, env := range step.Env {
		where := at.With("env").Index(i)
		if seen[env.Name] {
			c.fail(where.With("name"), "is %q, which another one has", env.Name)
		}
		seen[env.Name] = true
		if env.sources() > 1 {
			c.fail(where, "must have at most one of value, secret and configMap")
		}
	}
	paths := slices.Clone(reservedMounts)
	for i, mount := range step.Mounts {
		where := at.With("mounts").Index(i)
		if filled(mount.Claim, mount.ConfigMap, mount.Secret, string(mount.Scratch)) != 1 {
			c.fail(where, "must have exactly one of claim, configMap, secret and scratch")
		}
		if clean := path.Clean(mount.Path); slices.Contains(paths, clean) || clean != mount.Path {
			c.fail(where.With("path"), "is %q, which is taken or is no clean absolute path", mount.Path)
		}
		if strings.Contains(mount.SubPath, "..") {
			c.fail(where.With("subPath"), "must not leave the volume")
		}
		paths = append(paths, mount.Path)
	}
	if name := step.ServiceAccountName; name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		c.fail(at.With("serviceAccountName"), "is no name of a ServiceAccount")
	}
	c.placement(at, step)
	if err := step.Resources.check(); err != nil {
		c.fail(at.With("resources"), "%v", err)
	}
	c.declared(at, step.Outputs)
}

// placement checks where the pod of a step may run.
func (c checker) placement(at document.Path, step *PodStep) {
	if problem := placement.NodeSelector(step.NodeSelector); problem != "" {
		c.fail(at.With("nodeSelector"), "%s", problem)
	}
	if problem := placement.Tolerations(step.Tolerations); problem != "" {
		c.fail(at.With("tolerations"), "cannot be had: %s", problem)
	}
	if problem := placement.PriorityClass(step.PriorityClassName); problem != "" {
		c.fail(at.With("priorityClassName"), "%s", problem)
	}
}

// script checks a program and its pod.
func (c checker) script(at document.Path, step *ScriptStep) {
	if n := len(step.Source); n > maxSource {
		c.fail(at.With("source"), "has %d bytes: at most %d are allowed; put a longer program into the image or a ConfigMap",
			n, maxSource)
	}
	c.task(at, &step.PodStep)
}

// declared checks the constraints of the outputs of a job or a task.
func (c checker) declared(at document.Path, outputs map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		where := at.With("outputs").With(name)
		if name == "job" || name == "result" {
			c.fail(where, "is taken by the engine: name it otherwise")
		}
		if err := constraint.CheckTextConstraint(outputs[name]); err != nil {
			c.fail(where, "%v", err)
		}
	}
}

// sources is how many values a variable has.
func (e TaskEnv) sources() int {
	n := filled(e.Value)
	for _, key := range []*KeyReference{e.Secret, e.ConfigMap} {
		if key != nil {
			n++
		}
	}
	return n
}

// filled is how many texts are not empty.
func filled(texts ...string) int {
	return len(slices.DeleteFunc(texts, func(text string) bool { return text == "" }))
}

// taskTexts are the texts of a task that may hold placeholders, by path within the step.
func (s *Step) taskTexts(add func(text string, path ...string)) {
	name := "container"
	if s.Script != nil {
		name = "script"
	}
	task := s.Task()
	add(task.Image, name, "image")
	for i, env := range task.Env {
		add(env.Value, document.Path{name, "env"}.Index(i).With("value")...)
	}
	_, command, args := s.TaskCommand()
	for i, word := range command {
		add(word, document.Path{name, "command"}.Index(i)...)
	}
	for i, word := range args {
		add(word, document.Path{name, "args"}.Index(i)...)
	}
	for i, mount := range task.Mounts {
		add(mount.Claim, document.Path{name, "mounts"}.Index(i).With("claim")...)
	}
	task.Resources.texts(func(text string, path ...string) { add(text, append([]string{name, "resources"}, path...)...) })
}
