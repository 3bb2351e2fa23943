// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Outputs of a job step, beside those that it declares.
const (
	// OutputJob names the Job that was made.
	OutputJob = "job"
	// OutputResult is Succeeded once what it said is on record.
	OutputResult = "result"
)

// longestTail is how many characters of what a job said last go into a message.
const longestTail = 600

// Job is what is to be done about a pod that runs to completion.
type Job struct {
	// Verb to do.
	Verb JobVerb
	// Name of the Job in the namespace of the Operation, which owns it.
	Name string
	// Component that it is like: its pods' image, user and place. This and what follows is for JobRun only.
	Component string
	// Pod whose volumes it has; empty for none.
	Pod string
	// Image in place of that of the component; empty for none.
	Image string
	// Command and arguments, and Env, without placeholders.
	Command []string
	Env     []optemplate.JobEnv
	// Resources of its container; those of any job when there are none.
	Resources corev1.ResourceRequirements
	// Step as the template has it.
	Step *optemplate.JobStep
	// Task is what a pod runs that is like no component; nil for one that is. Env, Resources and Deadline are for both.
	Task *Task
	// Deadline after which the cluster ends it.
	Deadline time.Duration
}

// Task is a pod that an inline template describes, without placeholders.
type Task struct {
	// Step is the name of the step, for a label.
	Step string
	// Pod as the template has it. What is below is in place of what it says.
	Pod     *optemplate.PodStep
	Image   string
	Command []string
	Args    []string
	Env     []optemplate.TaskEnv
	Mounts  []optemplate.TaskMount
	// Artifacts that it hands on and takes; nil for none.
	Artifacts *TaskArtifacts
}

// JobVerb is what is done about a Job.
type JobVerb string

// Verbs.
const (
	// JobRun makes it, or looks how it stands when it is there.
	JobRun JobVerb = "run"
	// JobLook looks how it stands.
	JobLook JobVerb = "look"
	// JobRemove deletes it.
	JobRemove JobVerb = "remove"
	// JobStop ends one that runs, and leaves one that has ended.
	JobStop JobVerb = "stop"
	// JobStopStep ends all that run of the step of a Task, whatever they are called. The answer is Running while there are
	// any.
	JobStopStep JobVerb = "stopStep"
)

// JobState is how a Job stands.
type JobState struct {
	// Phase is Running, Succeeded or Failed; empty for one that is not there.
	Phase platformv1.OperationPhase
	// Message is what its container said last, or why there is none yet.
	Message string
	// Reason names what keeps its pod from starting, as platformv1.StopsRun knows it; empty for nothing.
	Reason string
	// ExitCode of its container; 0 while it has none.
	ExitCode int32
	// Kept are the artifacts that it has handed on, and Location the URL of their folder.
	Kept     []mover.KeptArtifact
	Location string
}

// jobItem runs a pod to completion, once: what was begun under a name is never begun again under it. One that succeeded
// is removed when what it said is on record; one that failed stays as long as the Operation, for people to look at.
func jobItem(r *run, t *optemplate.Step, step *platformv1.StepStatus, one item) verdict {
	name := r.childName(step, one)
	made := step.Outputs[OutputJob] == name
	if one.target != nil && t.Task() != nil {
		made = one.target.Job == name
	}
	if made && one.target == nil && step.Outputs[OutputResult] != "" && t.Task() != nil {
		return verdict{}
	}
	if made && step.Outputs[OutputResult] != "" && t.Task() == nil {
		_, v := r.answer(&Effect{Key: one.key + "/remove", Job: &Job{Verb: JobRemove, Name: name}},
			fmt.Sprintf("job %s to be removed", name))
		return v
	}
	job, why := &Job{Task: &Task{Step: t.Name}}, ""
	if !made || t.Task() == nil {
		job, why = r.job(t, step, one)
	}
	if why != "" {
		return verdict{failed: why}
	}
	if job.Name = name; made {
		job.Verb = JobLook
	} else if t.Job != nil && t.Job.Volumes == optemplate.JobVolumesWriter {
		if v := r.volumes(job); !v.done() {
			return v
		}
	}
	waiting := fmt.Sprintf("job %s to end", name)
	answer, v := r.answer(&Effect{Key: one.key, Job: job}, waiting)
	if answer == nil {
		if made {
			v.untouched = ""
		}
		return v
	}
	switch answer.Job.Phase {
	case platformv1.OperationSucceeded:
		outputs, err := jobOutputs(t.StepOutputs(), answer.Job.Message)
		if err == nil {
			outputs, err = r.recorded(t, outputs)
		}
		if err == nil {
			err = recordArtifacts(t, step, answer.Job)
		}
		if err != nil {
			return failedf("job %s ended well, and what it said is not as declared: %v", name, err)
		}
		if one.target != nil && t.Task() != nil {
			// Each item has a Job of its own on record.
			return verdict{}
		}
		step.Outputs = outputs
		setOutput(step, OutputJob, name)
		setOutput(step, OutputResult, string(platformv1.OperationSucceeded))
		if t.Task() != nil {
			// Its log stays for as long as the record.
			return verdict{}
		}
		return verdict{waiting: fmt.Sprintf("job %s to be removed", name),
			effect: &Effect{Key: one.key + "/remove", Job: &Job{Verb: JobRemove, Name: name}}}
	case platformv1.OperationFailed:
		return jobFailed(step, one, name, answer.Job)
	case "":
		return failedf("job %s is gone before it ended: somebody deleted it", name)
	}
	switch {
	case made:
	case one.target != nil && t.Task() != nil:
		one.target.Job = name
	default:
		step.Outputs = map[string]string{OutputJob: name}
	}
	return verdict{waiting: waiting + stateOfJob(answer.Job), retry: objectPoll, reason: answer.Job.Reason}
}

// stateOfJob is what is said of a Job that runs, behind its name. What keeps its pod from starting is named first.
func stateOfJob(job JobState) string {
	switch {
	case job.Message == "":
		return ""
	case job.Reason != "":
		return ": " + cut(strings.Join(strings.Fields(job.Message), " "), longestTail)
	}
	return ": " + tail(job.Message)
}

// jobFailed is the verdict of a step whose Job failed.
func jobFailed(step *platformv1.StepStatus, one item, name string, job JobState) verdict {
	if job.ExitCode == plan.ExitDataBad {
		noteDataBad(step)
	}
	if one.target != nil {
		one.target.ExitCode = job.ExitCode
	}
	return verdict{failed: fmt.Sprintf("job %s failed: %s", name, tail(job.Message)), exitCode: job.ExitCode}
}

// job is what a step runs; why says why that cannot be.
func (r *run) job(t *optemplate.Step, step *platformv1.StepStatus, one item) (job *Job, why string) {
	if t.Task() != nil {
		return r.task(t, step, one)
	}
	job = &Job{Verb: JobRun, Component: t.Job.Component, Image: t.Job.Image, Step: t.Job, Deadline: r.jobDeadline(t, step)}
	if job.Component == "" {
		component, err := r.facts.componentFor("")
		if err != nil {
			return nil, err.Error()
		}
		job.Component = component
	}
	for _, word := range t.Job.Command {
		text, v := r.text(t, word, one)
		if !v.done() {
			return nil, v.failed
		}
		job.Command = append(job.Command, text)
	}
	for _, env := range t.Job.Env {
		text, v := r.text(t, env.Value, one)
		if !v.done() {
			return nil, v.failed
		}
		env.Value = text
		job.Env = append(job.Env, env)
	}
	resources, err := t.Job.Resources.Fill(func(source string) (string, error) {
		text, v := r.text(t, source, one)
		if !v.done() {
			return "", errors.New(v.failed)
		}
		return text, nil
	})
	if err != nil {
		return nil, fmt.Sprintf("the container of the job %v", err)
	}
	job.Resources = resources
	return job, ""
}

// volumes are those of the pod that is on record as the primary. It has to be gone, and nobody else is named meanwhile:
// the set is stopped.
func (r *run) volumes(job *Job) verdict {
	for _, set := range slices.Sorted(maps.Keys(r.facts.Writing)) {
		writing := r.facts.Writing[set]
		switch {
		case writing.Component != job.Component:
			continue
		case job.Pod != "":
			return failedf("component %q has several sets with a primary each, and a job has the volumes of one", job.Component)
		case writing.Record == nil || writing.Record.Member == nil:
			return failedf("no primary is on record for %s, so that it is not known which volumes have the data", set)
		}
		job.Pod = writing.Record.Member.Name
	}
	pod := r.facts.pod(job.Pod)
	switch {
	case job.Pod == "":
		return failedf("component %q has no primary on record", job.Component)
	case pod == nil:
		return failedf("pod %s, which took writes, is not wanted any more", job.Pod)
	case pod.Presence != PodAbsent:
		return verdict{waiting: fmt.Sprintf("pod %s to be gone, whose volumes the job has", job.Pod), retry: objectPoll}
	}
	return verdict{}
}

// jobDeadline is how long a job of this step has.
func (r *run) jobDeadline(t *optemplate.Step, step *platformv1.StepStatus) time.Duration {
	until, limit := r.deadline(), t.Timeout.Duration()
	aside := !r.facts.Template.Plain(t.Name)
	if aside && limit == 0 {
		limit = DefaultTimeout
	}
	if limit > 0 && step.StartTime != nil {
		if end := step.StartTime.Add(limit); aside || end.Before(until) {
			until = end
		}
	}
	return max(time.Second, until.Sub(r.facts.Now))
}

// withdrawJobs ends what a step left running that was stopped, and is done when that is gone.
func (r *run) withdrawJobs(t *optemplate.Step, step *platformv1.StepStatus) verdict {
	switch {
	case step.Phase != platformv1.OperationCancelled && step.Phase != platformv1.OperationFailed:
		return verdict{}
	case step.Items != nil:
		return r.withdrawItems(step)
	}
	items := []item{{}}
	if t.ForEach != "" {
		items = nil
		for i, target := range step.Targets {
			if target.Phase == platformv1.OperationCancelled || target.Phase == platformv1.OperationFailed {
				items = append(items, item{number: cmp.Or(int(target.Number), i+1)})
			}
		}
	}
	for _, one := range items {
		name := r.childName(step, one)
		stop := &Effect{Key: string(r.op.UID) + "/stop/" + name, Job: &Job{Verb: JobStop, Name: name}}
		if v := r.awaitEnd(stop, fmt.Sprintf("job %s to be gone", name)); v.waiting != "" {
			return v
		}
	}
	return verdict{}
}

// withdrawItems ends the Jobs of all items of a step. Some may not be on record: they were made in a turn that was
// lost, since the controller died or the Operation was changed meanwhile.
func (r *run) withdrawItems(step *platformv1.StepStatus) verdict {
	stop := &Effect{Key: string(r.op.UID) + "/stop all/" + step.Name,
		Job: &Job{Verb: JobStopStep, Task: &Task{Step: step.Name}}}
	return r.awaitEnd(stop, fmt.Sprintf("the jobs of step %q to be gone", step.Name))
}

// awaitEnd waits until what an effect stops is gone. A Job of somebody else is nothing to wait for.
func (r *run) awaitEnd(stop *Effect, waiting string) verdict {
	answer, v := r.answer(stop, waiting)
	switch {
	case v.failed != "":
		return verdict{}
	case answer == nil:
		return v
	case answer.Job.Phase == platformv1.OperationRunning:
		return verdict{waiting: waiting, retry: objectPoll}
	}
	return verdict{}
}

// jobOutputs reads lines NAME=VALUE out of what a container left as its termination message.
func jobOutputs(declared map[string]string, message string) (map[string]string, error) {
	said := map[string]string{}
	for line := range strings.Lines(message) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			said[name] = value
		}
	}
	outputs := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		value, ok := said[name]
		if !ok {
			return nil, fmt.Errorf("there is no line %s=… in its termination message", name)
		}
		if err := optemplate.CheckJobOutput(name, declared[name], value); err != nil {
			return nil, err
		}
		outputs[name] = value
	}
	return outputs, nil
}

// tail is the end of a text, in one line.
func tail(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longestTail {
		return "…" + string(runes[len(runes)-longestTail:])
	}
	return text
}
