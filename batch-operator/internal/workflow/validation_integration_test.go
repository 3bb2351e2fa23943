// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const call = "http: {url: 'http://x'}"

func TestAdmissionOfWorkflows(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range map[string]struct{ name, spec, want string }{
		"one task": {"a", "tasks: [{name: a, " + call + "}]", ""},
		"no tasks": {"b", "parallelism: 1", "set one of tasks and templateFrom"},
		"both": {"b", "templateFrom: {name: a}\ntasks: [{name: a, " + call + "}]",
			"set one of tasks and templateFrom"},
		"same name": {"b", "tasks: [{name: a, " + call + "}, {name: a, " + call + "}]", "Duplicate value"},
		"no such task": {"b", "tasks: [{name: a, dependsOn: [{name: b}], " + call + "}]",
			"dependsOn names a task that does not exist"},
		"itself": {"b", "tasks: [{name: a, dependsOn: [{name: a}], " + call + "}]",
			"a task cannot depend on itself"},
		"two types": {"b", "tasks: [{name: a, " + call + ", delete: {apiVersion: v1, kind: Pod, name: a}}]",
			"set exactly one of container, script, http, workflow, approval, wait, apply and delete"},
		"no type": {"b", "tasks: [{name: a}]",
			"set exactly one of container, script, http, workflow, approval, wait, apply and delete"},
		"two approvals": {"b", "author: x\ntasks: [{name: a, approval: {reason: x}}, {name: b, approval: {reason: " +
			"x}}]", "a Workflow has one approval at most"},
		"approval of nobody": {"b", "tasks: [{name: a, approval: {reason: x}}]", "an approval needs spec.author"},
		"approval by two":    {"c", "templateOnly: true\ntasks: [{name: a, approval: {reason: x, approvals: 2}}]", ""},
		"approval by eleven": {"b", "author: x\ntasks: [{name: a, approval: {reason: x, approvals: 11}}]",
			"spec.tasks[0].approval.approvals"},
		"runs itself": {"b", "tasks: [{name: a, workflow: {templateFrom: {name: b}}}]",
			"a task cannot run the Workflow that it is part of"},
		"outputs of a template": {"b", "templateFrom: {name: a}\noutputs: {a: parameters.p}",
			"outputs are those of the template"},
		"name of an output": {"b", "tasks: [{name: a, " + call + "}]\noutputs: {a-b: parameters.p}",
			"the name of an output is a small letter"},
		"approvals of items": {"b", "tasks: [{name: a, forEach: {items: [x]}, approval: {reason: x}}]",
			"an approval is given once: leave out forEach"},
		"exit codes of a call": {"b", "tasks: [{name: a, retry: {limit: 1, exitCodes: [7]}, " + call + "}]",
			"exitCodes are those of containers, and only a container and a script have one"},
		"exit codes of an exit": {"b", "tasks: [{name: a, " + call + "}]\nonExit: [{name: z, retry: {limit: 1, " +
			"exceptExitCodes: [7]}, " + call + "}]", "exitCodes are those of containers, and only a container and a script "},
		"exit codes of a script": {"ec", "serviceAccountName: w\ntasks: [{name: a, retry: {limit: 1, exitCodes: [7]}, " +
			"script: {image: i, source: 'true'}}]", ""},
		"outputs of items": {"b", "tasks: [{name: a, forEach: {items: [x]}, http: {url: 'http://x', outputs: {a: " +
			"response.body}}}]", "outputs are those of one item"},
		"items twice": {"b", "tasks: [{name: a, forEach: {items: [x, x]}, " + call + "}]", "Duplicate value"},
		"no items": {"b", "tasks: [{name: a, forEach: {parallelism: 2}, " + call + "}]",
			"set one of items and expression"},
		"phase": {"b", "tasks: [{name: a, " + call + "}, {name: b, dependsOn: [{name: a, phases: [Done]}], " +
			call + "}]", "Unsupported value"},
		"condition or until": {"b", "tasks: [{name: a, wait: {apiVersion: v1, kind: Pod, name: a}}]",
			"set one of condition and until"},
		"exit approval": {"b", "tasks: [{name: a, " + call + "}]\nonExit: [{name: b, approval: {reason: x}}]",
			"unknown field"},
		"exit with the name": {"b", "tasks: [{name: a, " + call + "}]\nonExit: [{name: a, " + call + "}]",
			"tasks and onExit have a name in common"},
		"template that runs": {"b", "templateOnly: true\nsuspend: true\ntasks: [{name: a, " + call + "}]",
			"a template has tasks, onExit, parameters, outputs, artifacts and serviceAccountName alone"},
		"artifacts of a template": {"b", "templateFrom: {name: a}\nartifacts: {repositoryRef: {name: s}}",
			"artifacts are those of the template"},
		"artifacts": {"art", "serviceAccountName: w\nartifacts: {repositoryRef: {name: s}, maxSize: 64Gi}\ntasks: " +
			"[{name: a, script: {image: i, source: 'true'}, artifacts: [{name: f, path: /out/f}]}]", ""},
		"large artifacts": {"b", "artifacts: {repositoryRef: {name: s}, maxSize: 65Gi}\ntasks: [{name: a, " + call + "}]",
			"maxSize must be at most 64Gi"},
		"parameters of another": {"b", "templateFrom: {name: a}\nparameters: [{name: p}]",
			"parameters and onExit are those of the template"},
		"pattern of a number": {"b", "parameters: [{name: p, type: int, pattern: '[0-9]'}]\ntasks: [{name: a, " + call + "}]",
			"pattern is for a parameter of type string"},
		"long name": {strings.Repeat("b", 41), "tasks: [{name: a, " + call + "}]", "at most 40 characters"},
		"priority of a word": {"b", "synchronization: {mutexes: [{name: m}], priority: high}\ntasks: [{name: a, " + call +
			"}]", "spec.synchronization.priority"},
		"priority of 2^31": {"b", "synchronization: {mutexes: [{name: m}], priority: 2147483648}\ntasks: [{name: a, " +
			call + "}]", "spec.synchronization.priority"},
		"an argument of 2 MB": {"b", "arguments: {p: " + strings.Repeat("x", 2<<20) + "}\nparameters: [{name: p}]\ntasks: " +
			"[{name: a, " + call + "}]", "may not be more than 4096"},
		"a default of 2 MB": {"b", "parameters: [{name: p, default: " + strings.Repeat("x", 2<<20) + "}]\ntasks: [{name: " +
			"a, " + call + "}]", "may not be more than 4096"},
		"short deadline": {"b", "activeDeadline: 1ms\ntasks: [{name: a, " + call + "}]",
			"activeDeadline must be at least 1s"},
	} {
		t.Run(title, func(t *testing.T) {
			wf := testkit.Object(t, batchv1.GroupVersion.WithKind("Workflow"), namespace, c.name, map[string]any{}, c.spec)
			testkit.Refused(t, env.Client.Create(t.Context(), wf, testkit.Strict), c.want)
		})
	}
}

// What people copy and what the tests compile can be applied.
func TestSamplesApply(t *testing.T) {
	b := newBench(t)
	testkit.Samples(t, b.person("kubernetes-admin"), b.namespace, "../../config/samples/batch_v1_workflow.yaml")
	testkit.Samples(t, b.person("ada"), b.namespace, "../taskgraph/testdata/*.in.yaml")
}

func TestRunIsImmutableAndTemplateIsNot(t *testing.T) {
	b := newBench(t)
	run := b.run("run", "synchronization: {mutexes: [{name: m}]}\nparameters: [{name: p, default: x}]\ntasks: [{name: a, "+
		call+"}]")
	template := b.run("template", "templateOnly: true\ntasks: [{name: a, "+call+"}]")
	for title, c := range map[string]struct {
		change func(*batchv1.WorkflowSpec)
		want   string
	}{
		"tasks": {func(s *batchv1.WorkflowSpec) { s.Tasks[0].HTTP.URL = "http://y" }, "tasks and onExit are immutable"},
		"parameters": {func(s *batchv1.WorkflowSpec) { s.Parameters[0].Default = new(batchv1.Argument("y")) },
			"templateFrom, parameters"},
		"arguments": {func(s *batchv1.WorkflowSpec) { s.Arguments = map[string]batchv1.Argument{"p": "z"} },
			"templateFrom, parameters"},
		"author": {func(s *batchv1.WorkflowSpec) { s.Author = "bob" }, "author and serviceAccountName are immutable"},
		"account": {func(s *batchv1.WorkflowSpec) { s.ServiceAccountName = "" },
			"author and serviceAccountName are immutable"},
		"template":    {func(s *batchv1.WorkflowSpec) { s.TemplateOnly = true }, "templateOnly is immutable"},
		"parallelism": {func(s *batchv1.WorkflowSpec) { s.Parallelism = new(int32(3)) }, "templateFrom, parameters"},
		"outputs": {func(s *batchv1.WorkflowSpec) {
			s.Outputs = map[string]batchv1.OutputExpression{"o": "parameters.p"}
		}, "outputs are immutable"},
		"synchronization": {func(s *batchv1.WorkflowSpec) { s.Synchronization = nil }, "synchronization is immutable"},
		"priority":        {func(s *batchv1.WorkflowSpec) { s.Synchronization.Priority = 1 }, "synchronization is immutable"},
		"suspend":         {func(s *batchv1.WorkflowSpec) { s.Suspend = true }, ""},
		"time":            {func(s *batchv1.WorkflowSpec) { s.TTLSecondsAfterFinished = new(int32(3)) }, ""},
	} {
		changed := run.DeepCopy()
		c.change(&changed.Spec)
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Patch(t.Context(), changed, client.MergeFrom(run)), c.want)
		})
	}
	changed := template.DeepCopy()
	changed.Spec.Tasks[0].HTTP.URL = "http://y"
	testkit.Refused(t, env.Client.Patch(t.Context(), changed, client.MergeFrom(template)), "")
}

func TestAuthorLendsAnAccountThatHeMayUse(t *testing.T) {
	b := newBench(t)
	limited := rest.CopyConfig(env.Config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + b.namespace + ":worker"}
	for title, c := range map[string]struct{ author, account, want string }{
		"another's name": {"bob", "", "spec.author must be the user who creates the Workflow: write 'ada'"},
		"no author":      {"", "worker", ""},
		"own":            {"ada", "worker", ""},
	} {
		t.Run(title, func(t *testing.T) {
			wf := b.workflow("of"+c.author, "tasks: [{name: a, "+call+"}]")
			wf.Spec.Author, wf.Spec.ServiceAccountName = c.author, c.account
			testkit.Refused(t, b.person("ada").Create(t.Context(), wf), c.want)
		})
	}
	b.grant(limited.Impersonate.UserName)
	c, err := client.New(limited, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	wf := b.workflow("borrowed", "tasks: [{name: a, "+call+"}]")
	wf.Spec.Author, wf.Spec.ServiceAccountName = limited.Impersonate.UserName, "default"
	testkit.Eventually(t, "the refusal of an account that the user may not use",
		refusal(c, wf, "may not have a Workflow act as ServiceAccount 'default'"))
}

// CronJobs run a template with its account: whoever changes it may use that account.
func TestTemplateWithAnAccountIsChangedByThoseWhoMayUseIt(t *testing.T) {
	b := newBench(t)
	limited := rest.CopyConfig(env.Config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + b.namespace + ":worker"}
	b.grant(limited.Impersonate.UserName)
	c, err := client.New(limited, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for title, s := range map[string]struct{ account, want string }{
		"lent": {"default", "may not have a Workflow act as ServiceAccount 'default'"}, "none": {"", ""},
	} {
		template := b.workflow("template-"+title, "templateOnly: true\ntasks: [{name: a, "+call+"}]")
		template.Spec.ServiceAccountName = s.account
		b.create(template)
		testkit.Eventually(t, title+": the answer to a change", func(ctx context.Context) error {
			changed := template.DeepCopy()
			changed.Spec.Tasks[0].HTTP.URL = "http://y"
			if err := c.Patch(ctx, changed, client.MergeFrom(template)); s.want == "" && err != nil || s.want != "" &&
				(err == nil || !strings.Contains(err.Error(), s.want)) {
				return fmt.Errorf("the error is %v", err)
			}
			return nil
		})
	}
}

// grant has a user create and change Workflows, and nothing else.
func (b *bench) grant(user string) {
	b.Helper()
	meta := metav1.ObjectMeta{Namespace: b.namespace, Name: "creator"}
	b.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{batchv1.GroupVersion.Group}, Resources: []string{"workflows"},
			Verbs: []string{"create", "patch"}}}})
	b.create(&rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}})
}

// refusal is an error until a Workflow is refused with a text: rights take a moment.
func refusal(c client.Client, wf *batchv1.Workflow, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.Create(ctx, wf.DeepCopy())
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the error is %v", err)
		}
		return nil
	}
}
