// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// template is the inline template of a run. Its fields are those of the operations part of a plugin.
type template struct {
	Name        string               `json:"name"`
	Parameters  map[string]parameter `json:"parameters,omitempty"`
	Parallelism int32                `json:"parallelism,omitempty"`
	Outputs     map[string]string    `json:"outputs,omitempty"`
	Artifacts   *artifacts           `json:"artifacts,omitempty"`
	Steps       []step               `json:"steps"`
}

type artifacts struct {
	Repository string `json:"repository"`
	MaxSize    string `json:"maxSize,omitempty"`
}

type parameter struct {
	Schema  string            `json:"schema"`
	Default *batchv1.Argument `json:"default,omitempty"`
}

type step struct {
	Name        string                   `json:"name"`
	Needs       []string                 `json:"needs,omitzero"`
	When        string                   `json:"when,omitempty"`
	ForEach     string                   `json:"forEach,omitempty"`
	Parallelism int32                    `json:"parallelism,omitempty"`
	Finally     bool                     `json:"finally,omitempty"`
	Retry       *retry                   `json:"retry,omitempty"`
	Timeout     string                   `json:"timeout,omitempty"`
	OnFailure   string                   `json:"onFailure,omitempty"`
	Container   *batchv1.ContainerTask   `json:"container,omitempty"`
	Script      *batchv1.ScriptTask      `json:"script,omitempty"`
	Artifacts   []batchv1.Artifact       `json:"artifacts,omitempty"`
	Inputs      []batchv1.ArtifactInput  `json:"inputs,omitempty"`
	HTTP        *batchv1.HTTPTask        `json:"http,omitempty"`
	Operation   *nested                  `json:"operation,omitempty"`
	Approval    *approval                `json:"approval,omitempty"`
	Wait        *wait                    `json:"wait,omitempty"`
	Apply       *object                  `json:"apply,omitempty"`
	Delete      *batchv1.ObjectReference `json:"delete,omitempty"`
}

type retry struct {
	Limit           int32   `json:"limit"`
	Backoff         string  `json:"backoff,omitempty"`
	Factor          int32   `json:"factor,omitempty"`
	MaxBackoff      string  `json:"maxBackoff,omitempty"`
	JitterPercent   int32   `json:"jitterPercent,omitempty"`
	ExitCodes       []int32 `json:"exitCodes,omitempty"`
	ExceptExitCodes []int32 `json:"exceptExitCodes,omitempty"`
}

type approval struct {
	Message string `json:"message"`
	Count   int32  `json:"count,omitempty"`
}

type wait struct {
	batchv1.ObjectReference `json:",inline"`

	Until   string            `json:"until"`
	Fail    string            `json:"fail,omitempty"`
	Outputs map[string]string `json:"outputs,omitempty"`
}

type object struct {
	batchv1.ObjectReference `json:",inline"`

	Content map[string]any `json:"content,omitempty"`
}

// Source is what a run has of its own or from a template.
type Source struct {
	// Name of the Workflow.
	Name       string
	Parameters []batchv1.WorkflowParameter
	Tasks      []batchv1.WorkflowTask
	OnExit     []batchv1.ExitTask
	Outputs    map[string]batchv1.OutputExpression
	Artifacts  *batchv1.WorkflowArtifacts
}

// SourceOf is that of a Workflow with tasks.
func SourceOf(wf *batchv1.Workflow) Source {
	return Source{Name: wf.Name, Parameters: wf.Spec.Parameters, Tasks: wf.Spec.Tasks, OnExit: wf.Spec.OnExit,
		Outputs: wf.Spec.Outputs, Artifacts: wf.Spec.Artifacts}
}

// compile returns the inline template of a run. The error names the path in the spec.
func (c compiler) compile(from Source, parallelism *int32) (string, error) {
	if path := cycle(from.Tasks); path != "" {
		return "", fmt.Errorf("spec.tasks: tasks depend on each other in a cycle: %s", path)
	}
	t := template{Name: "Workflow", Parameters: map[string]parameter{}}
	if parallelism != nil {
		t.Parallelism = *parallelism
	}
	var err error
	if t.Artifacts, err = artifactsOf(from); err != nil {
		return "", err
	}
	for _, p := range from.Parameters {
		t.Parameters[p.Name] = parameter{Schema: schemaOf(p), Default: p.Default}
	}
	for i := range from.Tasks {
		s, err := c.stepOf(&from.Tasks[i])
		if err != nil {
			return "", fmt.Errorf("spec.tasks[%s].%w", from.Tasks[i].Name, err)
		}
		t.Steps = append(t.Steps, s)
	}
	for i := range from.OnExit {
		s, err := exitStep(&from.OnExit[i], from.Tasks)
		if err != nil {
			return "", fmt.Errorf("spec.onExit[%s].%w", from.OnExit[i].Name, err)
		}
		t.Steps = append(t.Steps, s)
	}
	for name, expression := range from.Outputs {
		if t.Outputs == nil {
			t.Outputs = map[string]string{}
		}
		t.Outputs[name] = string(expression)
	}
	data, err := json.Marshal(t)
	if err == nil && len(data) > maxTemplate {
		err = fmt.Errorf("spec.tasks: with those of the Workflows that they run, they have %d bytes as JSON: at most %d "+
			"are allowed", len(data), maxTemplate)
	}
	return string(data), err
}

// stepOf is the step of a task.
func (c compiler) stepOf(t *batchv1.WorkflowTask) (step, error) {
	s := step{
		Name: t.Name, Needs: []string{}, Retry: retryOf(t.Retry), Timeout: spanOf(t.Timeout), OnFailure: "FailAtEnd",
		Container: t.Container, Script: t.Script, HTTP: t.HTTP, Delete: t.Delete, Artifacts: t.Artifacts, Inputs: t.Inputs,
	}
	if t.OnFailure == "Continue" {
		s.OnFailure = t.OnFailure
	}
	var conditions []string
	for _, d := range t.DependsOn {
		s.Needs = append(s.Needs, d.Name)
		if condition := conditionOf(d); condition != "" {
			conditions = append(conditions, condition)
		}
	}
	s.When = allOf(append(conditions, t.When))
	if t.ForEach != nil {
		s.ForEach, s.Parallelism = listOf(t.ForEach), t.ForEach.Parallelism
	}
	if t.Approval != nil {
		s.Approval = &approval{Message: t.Approval.Reason}
		if t.Approval.Approvals > 1 {
			s.Approval.Count = t.Approval.Approvals
		}
	}
	if t.Wait != nil {
		s.Wait = waitOf(t.Wait)
	}
	var err error
	if t.Workflow != nil {
		s.Operation, err = c.nested(t.Workflow)
		return s, err
	}
	s.Apply, err = applied(t.Apply)
	return s, err
}

// artifactsOf says where the artifacts of the tasks are kept; nil where they have none.
func artifactsOf(from Source) (*artifacts, error) {
	a := from.Artifacts
	for i := range from.Tasks {
		if t := &from.Tasks[i]; a == nil && len(t.Artifacts) > 0 {
			return nil, fmt.Errorf("spec.tasks[%s].artifacts need a BackupRepository where they are kept: name it in "+
				"spec.artifacts.repositoryRef", t.Name)
		}
	}
	if a == nil {
		return nil, nil
	}
	return &artifacts{Repository: a.RepositoryRef.Name, MaxSize: string(a.MaxSize)}, nil
}

// exitStep is the step of a task of onExit.
func exitStep(t *batchv1.ExitTask, tasks []batchv1.WorkflowTask) (step, error) {
	s := step{
		Name: t.Name, Finally: true, Retry: retryOf(t.Retry), Timeout: spanOf(t.Timeout), OnFailure: "FailAtEnd",
		Container: t.Container, Script: t.Script, HTTP: t.HTTP, Delete: t.Delete,
	}
	succeeded := succeededAll(tasks)
	switch t.After {
	case "Succeeded":
		s.When = allOf([]string{succeeded, t.When})
	case "Failed":
		s.When = allOf([]string{"!(" + succeeded + ")", t.When})
	default:
		s.When = t.When
	}
	var err error
	s.Apply, err = applied(t.Apply)
	return s, err
}

// succeededAll is an expression that gives true when no task has the run fail.
func succeededAll(tasks []batchv1.WorkflowTask) string {
	var all []string
	for i := range tasks {
		ends := `["Succeeded", "Skipped"]`
		if tasks[i].OnFailure == "Continue" {
			ends = `["Succeeded", "Skipped", "Failed"]`
		}
		all = append(all, fmt.Sprintf("%s.phase in %s", variable(tasks[i].Name), ends))
	}
	return strings.Join(all, " && ")
}

// conditionOf is the expression of a dependency; empty where any end will do.
func conditionOf(d batchv1.TaskDependency) string {
	phases := d.Phases
	if len(phases) == 0 {
		phases = []string{"Succeeded"}
	}
	if slices.Contains(phases, "Finished") {
		return ""
	}
	if len(phases) == 1 {
		return fmt.Sprintf("%s.phase == %q", variable(d.Name), phases[0])
	}
	quoted := make([]string, 0, len(phases))
	for _, end := range phases {
		quoted = append(quoted, strconv.Quote(end))
	}
	return fmt.Sprintf("%s.phase in [%s]", variable(d.Name), strings.Join(quoted, ", "))
}

// variable is a task in expressions.
func variable(task string) string { return "tasks." + strings.ReplaceAll(task, "-", "_") }

// allOf joins expressions that all have to hold. The last one is the user's.
func allOf(conditions []string) string {
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
	if len(conditions) < 2 {
		return strings.Join(conditions, "")
	}
	return "(" + strings.Join(conditions, ") && (") + ")"
}

// listOf is the expression of a list. A JSON list of texts is one.
func listOf(f *batchv1.ForEach) string {
	if f.Expression != "" {
		return f.Expression
	}
	data, err := json.Marshal(f.Items)
	if err != nil {
		panic(err) // They are texts.
	}
	return string(data)
}

func waitOf(w *batchv1.WaitTask) *wait {
	until := w.Until
	if w.Condition != "" {
		until = fmt.Sprintf(`has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, `+
			`c.type == %q && c.status == "True")`, w.Condition)
	}
	return &wait{ObjectReference: w.ObjectReference, Until: until, Fail: w.Fail, Outputs: w.Outputs}
}

// applied is the object of a manifest.
func applied(t *batchv1.ApplyTask) (*object, error) {
	if t == nil {
		return nil, nil
	}
	var content map[string]any
	if err := yaml.Unmarshal([]byte(t.Manifest), &content); err != nil {
		return nil, fmt.Errorf("apply.manifest is not valid YAML: %w", err)
	}
	o := &object{Content: content}
	o.APIVersion, _ = content["apiVersion"].(string)
	o.Kind, _ = content["kind"].(string)
	metadata, _ := content["metadata"].(map[string]any)
	o.Name, _ = metadata["name"].(string)
	if o.APIVersion == "" || o.Kind == "" || o.Name == "" {
		return nil, fmt.Errorf("apply.manifest must be one object with apiVersion, kind and metadata.name")
	}
	if _, has := metadata["namespace"]; has {
		return nil, fmt.Errorf("apply.manifest has a metadata.namespace: leave it out, objects are applied in the " +
			"namespace of the Workflow")
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	if delete(metadata, "name"); len(metadata) == 0 {
		delete(content, "metadata")
	}
	return o, nil
}

func retryOf(r *platformv1.OperationRetry) *retry {
	if r == nil {
		return nil
	}
	return &retry{Limit: r.Limit, Backoff: spanOf(r.Backoff), Factor: r.Factor, MaxBackoff: spanOf(r.MaxBackoff),
		JitterPercent: r.JitterPercent, ExitCodes: r.ExitCodes, ExceptExitCodes: r.ExceptExitCodes}
}

// spanOf is a time as templates have it, in whole milliseconds.
func spanOf(d *metav1.Duration) string {
	switch {
	case d == nil:
		return ""
	case d.Seconds() == float64(int64(d.Seconds())):
		return strconv.FormatInt(int64(d.Seconds()), 10) + "s"
	}
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
}

// schemaOf is the constraint of a parameter.
func schemaOf(p batchv1.WorkflowParameter) string {
	switch {
	case p.Pattern != "":
		return "=~" + strconv.Quote("^(?:"+p.Pattern+")$")
	case p.Type == "int":
		return `=~"^-?[0-9]+$"`
	case p.Type == "number":
		return `=~"^-?[0-9]+([.][0-9]+)?$"`
	case p.Type == "bool":
		return `"true" | "false"`
	}
	return "string"
}

// cycle is the path of tasks that depend on each other, as a text; empty when there is none.
func cycle(tasks []batchv1.WorkflowTask) string {
	dependencies := map[string][]batchv1.TaskDependency{}
	for i := range tasks {
		dependencies[tasks[i].Name] = tasks[i].DependsOn
	}
	done := map[string]bool{}
	var visit func(name string, path []string) string
	visit = func(name string, path []string) string {
		if at := slices.Index(path, name); at >= 0 {
			return strings.Join(append(path[at:], name), " depends on ")
		}
		if done[name] {
			return ""
		}
		path = append(path, name)
		for _, d := range dependencies[name] {
			if found := visit(d.Name, path); found != "" {
				return found
			}
		}
		done[name] = true
		return ""
	}
	for i := range tasks {
		if found := visit(tasks[i].Name, nil); found != "" {
			return found
		}
	}
	return ""
}
