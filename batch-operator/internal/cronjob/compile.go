// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/cron"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// Parameters of the template of a run, and the variables of its pod that have them.
const (
	parameterTime = "scheduledTime"
	parameterKey  = "idempotencyKey"
	envTime       = "SCHEDULED_TIME"
	envKey        = "IDEMPOTENCY_KEY"
)

// taskStep is the one step of a run that has no tasks of a Workflow.
const taskStep = "task"

// template is the inline template of a run.
type template struct {
	Name       string                       `json:"name"`
	Parameters map[string]map[string]string `json:"parameters"`
	Steps      []step                       `json:"steps"`
}

type step struct {
	Name string `json:"name"`
	batchv1.Task
}

// compile reads the schedules of a CronJob and makes the template of its runs, which check judges. The error is a
// sentence.
func compile(cj *batchv1.CronJob, tasks taskSource, check func(text string) error) (cron.Schedule, string, error) {
	schedule, err := scheduleOf(cj)
	if err != nil {
		return schedule, "", err
	}
	if run := cj.Spec.Task.Workflow; run != nil {
		text, err := graphOf(cj, tasks, check)
		if err != nil {
			return schedule, "", fmt.Errorf("spec.task.workflow: %w", err)
		}
		return schedule, text, nil
	}
	text, err := templateOf(cj)
	if err != nil {
		return schedule, "", err
	}
	if err := check(text); err != nil {
		return schedule, "", errors.New(inSpec(err.Error()))
	}
	return schedule, text, nil
}

// templateOf compiles the task of a CronJob. Its steps have the fields of the task under the same names.
func templateOf(cj *batchv1.CronJob) (string, error) {
	task := cj.Spec.Task.DeepCopy()
	tellTime(task.Container, task.Script)
	text := map[string]string{"schema": "string"}
	data, err := json.Marshal(template{
		Name: "Run", Parameters: map[string]map[string]string{parameterTime: text, parameterKey: text},
		Steps: []step{{Name: taskStep, Task: *task}},
	})
	return string(data), err
}

// inSpec has what is wrong with a template name its place in the CronJob: the template has one line and one step.
func inSpec(text string) string { return strings.ReplaceAll(text, "line 1: steps[0].", "spec.task.") }

// tellTime gives the pod of a task, if it has one, the variables of the run.
func tellTime(container *batchv1.ContainerTask, script *batchv1.ScriptTask) {
	var pod *batchv1.PodTask
	switch {
	case container != nil:
		pod = &container.PodTask
	case script != nil:
		pod = &script.PodTask
	default:
		return
	}
	pod.Env = append(slices.Clone(pod.Env),
		batchv1.EnvVar{Name: envTime, Value: "${parameters." + parameterTime + "}"},
		batchv1.EnvVar{Name: envKey, Value: "${parameters." + parameterKey + "}"})
}

// operationOf is the Operation of a run, complete but for its owner.
func operationOf(cj *batchv1.CronJob, text string, c creation) *platformv1.Operation {
	labels := map[string]string{
		platformv1.DomainLabel: domain, platformv1.ManagedByLabel: platformv1.ManagedBy,
		platformv1.TriggerLabel: string(platformv1.TriggerSchedule), batchv1.CronJobLabel: cj.Name,
	}
	parameters := platformv1.Parameters{
		parameterTime: platformv1.ParameterValue(c.time.UTC().Format(time.RFC3339)),
		parameterKey:  platformv1.ParameterValue(c.key),
	}
	if run := cj.Spec.Task.Workflow; run != nil {
		for name, value := range run.Arguments {
			parameters[name] = platformv1.ParameterValue(value)
		}
	}
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: cj.Namespace, Name: c.name, Labels: labels,
			Annotations: map[string]string{platformv1.ScheduledForAnnotation: c.time.UTC().Format(time.RFC3339)}},
		Spec: platformv1.OperationSpec{
			Template: text, ServiceAccountName: cj.Spec.ServiceAccountName, Timeout: deadlineOf(cj),
			Retry:      cj.Spec.Retry.DeepCopy(),
			Parameters: parameters,
		},
	}
}

// defaultDeadline is how long a run may take whose CronJob says nothing.
const defaultDeadline = time.Hour

func deadlineOf(cj *batchv1.CronJob) *metav1.Duration {
	if cj.Spec.ActiveDeadline == nil {
		return &metav1.Duration{Duration: defaultDeadline}
	}
	return &metav1.Duration{Duration: cj.Spec.ActiveDeadline.Duration}
}
