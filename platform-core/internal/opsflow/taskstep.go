// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"errors"
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// task is what a container step or a script step runs; why says why that cannot be.
func (r *run) task(t *optemplate.Step, step *platformv1.StepStatus, one item) (job *Job, why string) {
	pod := t.Task()
	program, command, args := t.TaskCommand()
	task := &Task{Step: t.Name, Pod: pod, Env: slices.Clone(pod.Env), Mounts: slices.Clone(pod.Mounts)}
	fill := func(source string) string {
		text, v := r.text(t, source, one)
		if !v.done() && why == "" {
			why = v.failed
		}
		return text
	}
	task.Image = fill(pod.Image)
	for _, word := range command {
		task.Command = append(task.Command, fill(word))
	}
	for _, word := range args {
		task.Args = append(task.Args, fill(word))
	}
	if len(program) > 0 {
		task.Command = program
	}
	for i := range task.Env {
		task.Env[i].Value = fill(task.Env[i].Value)
	}
	for i := range task.Mounts {
		task.Mounts[i].Claim = fill(task.Mounts[i].Claim)
	}
	resources, err := pod.Resources.Fill(func(source string) (string, error) {
		text, v := r.text(t, source, one)
		if !v.done() {
			return "", errors.New(v.failed)
		}
		return text, nil
	})
	if err != nil && why == "" {
		why = fmt.Sprintf("the container of step %q %v", t.Name, err)
	}
	if why == "" {
		task.Artifacts, why = r.taskArtifacts(t)
	}
	if why != "" {
		return nil, why
	}
	return &Job{Verb: JobRun, Task: task, Resources: resources, Deadline: r.jobDeadline(t, step)}, ""
}

// describeTask says what the pod of a step would run.
func (r *run) describeTask(t *optemplate.Step) []string {
	lines := []string{fmt.Sprintf("runs image %s in a pod of its own", r.shown(t, t.Task().Image))}
	for _, input := range t.Inputs {
		lines = append(lines, fmt.Sprintf("has artifact %s at %s", input.From, input.Path))
	}
	for _, one := range t.Artifacts {
		lines = append(lines, fmt.Sprintf("keeps %s as artifact %q", one.Path, one.Name))
	}
	return lines
}
