// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
		CRDs:        []fs.FS{crd.FS},
	})
}

// cronJob is one that calls a server each day.
func cronJob(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return testkit.Object(t, batchv1.GroupVersion.WithKind("CronJob"), namespace, name, map[string]any{
		"schedules": []any{"@daily"}, "timeZone": "UTC",
		"task": map[string]any{"http": map[string]any{"url": "https://example.com"}},
	}, spec)
}

// creation is an object that is made.
type creation struct{ name, spec, want string }

func createEach(t *testing.T, all map[string]creation) {
	t.Helper()
	namespace := env.Namespace(t)
	for title, c := range all {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), cronJob(t, namespace, c.name, c.spec), testkit.Strict), c.want)
		})
	}
}

func TestCreateCronJob(t *testing.T) {
	createEach(t, map[string]creation{
		"smallest":               {"a", ``, ""},
		"name of 40":             {strings.Repeat("a", 40), ``, ""},
		"name of 41":             {strings.Repeat("a", 41), ``, "the name of a CronJob has at most 40 characters"},
		"no schedule":            {"x", `schedules: []`, "spec.schedules"},
		"schedules absent":       {"x", `schedules: null`, "spec.schedules"},
		"an empty line":          {"x", `schedules: [""]`, "spec.schedules[0]"},
		"a line twice":           {"x", `schedules: ["@daily", "@daily"]`, "spec.schedules[1]"},
		"two lines":              {"b", `schedules: ["@daily", "*/5 * * * * MON"]`, ""},
		"no zone":                {"x", `timeZone: ""`, "spec.timeZone"},
		"clock change":           {"c", `clockChange: {gap: Skip, overlap: Both}`, ""},
		"another gap":            {"x", `clockChange: {gap: Both}`, "spec.clockChange.gap"},
		"another overlap":        {"x", `clockChange: {overlap: Skip}`, "spec.clockChange.overlap"},
		"jitter":                 {"d", `jitter: 24h`, ""},
		"no jitter":              {"x", `jitter: 0s`, "jitter must be greater than 0"},
		"jitter of two days":     {"x", `jitter: 48h`, "at most 24h"},
		"starting deadline":      {"e", `startingDeadline: 1s`, ""},
		"no starting deadline":   {"x", `startingDeadline: 500ms`, "startingDeadline must be at least 1s"},
		"all missed":             {"f", `missedRuns: {policy: All, max: 10}`, ""},
		"all missed without max": {"x", `missedRuns: {policy: All}`, "max is required with the policy All"},
		"latest with max": {"x", `missedRuns: {policy: Latest, max: 1}`,
			"max is required with the policy All, and for no other"},
		"a missed policy":   {"x", `missedRuns: {policy: Forbid}`, "spec.missedRuns.policy"},
		"queue":             {"g", `concurrency: {policy: Queue, max: 1000}`, ""},
		"queue without max": {"x", `concurrency: {policy: Queue}`, "max is required with the policy Queue"},
		"replace with max": {"x", `concurrency: {policy: Replace, max: 2}`,
			"max is required with the policy Queue, and for no other"},
		"queue of nothing": {"x", `concurrency: {policy: Queue, max: 0}`, "spec.concurrency.max"},
		"depends": {"h", `dependsOn: [{name: a, within: 1h, timeout: 0s}, {name: b, within: 1h}]`,
			""},
		"depends twice": {"x", `dependsOn: [{name: a, within: 1h}, {name: a, within: 2h}]`,
			"spec.dependsOn[1]"},
		"depends on itself":      {"x", `dependsOn: [{name: x, within: 1h}]`, "a CronJob cannot depend on itself"},
		"depends within no time": {"x", `dependsOn: [{name: a, within: 0s}]`, "within must be greater than 0"},
		"depends without a span": {"x", `dependsOn: [{name: a}]`, "condition SucceededWithin needs it"},
		"depends on the last run": {"last", `dependsOn: [{name: a, condition: LastRunSucceeded, otherwise: Run}]`,
			""},
		"depends on the same day": {"day", `dependsOn: [{name: a, condition: SucceededSameDay, timeout: 1h}]`, ""},
		"a span in vain": {"x", `dependsOn: [{name: a, condition: LastRunSucceeded, within: 1h}]`,
			"the others have none"},
		"depends before": {"x", `dependsOn: [{name: a, within: 1h, timeout: -1s}]`,
			"timeout must not be negative"},
		"retry":                {"i", `retry: {limit: 3, backoff: 1s}`, ""},
		"retry often":          {"x", `retry: {limit: 21}`, "spec.retry.limit"},
		"retry in full":        {"ir", `retry: {limit: 3, backoff: 1s, factor: 3, maxBackoff: 1m, jitterPercent: 100}`, ""},
		"retry shrinks":        {"x", `retry: {limit: 3, backoff: 2s, maxBackoff: 1s}`, "maxBackoff must not be less than"},
		"retry jitter":         {"x", `retry: {limit: 3, jitterPercent: 101}`, "spec.retry.jitterPercent"},
		"exit code 0":          {"x", `retry: {limit: 3, exitCodes: [0]}`, "spec.retry.exitCodes"},
		"exit codes of a call": {"x", `retry: {limit: 3, exitCodes: [1]}`, "exitCodes are those of containers"},
		"exceptions of a call": {"x", `retry: {limit: 3, exceptExitCodes: [1]}`, "exitCodes are those of containers"},
		"deadline":             {"j", `activeDeadline: 1s`, ""},
		"no deadline":          {"x", `activeDeadline: 1ms`, "activeDeadline must be at least 1s"},
		"history":              {"k", `history: {succeeded: 0, failed: 1000, maxAge: 1h}`, ""},
		"history of less":      {"x", `history: {failed: -1}`, "spec.history.failed"},
		"history of no time":   {"x", `history: {maxAge: 0s}`, "maxAge must be greater than 0"},
		"mutex":                {"n", `synchronization: {mutexes: [{name: a}], priority: -1}`, ""},
		"priority of nothing":  {"x", `synchronization: {priority: 1}`, "set mutexes, semaphores or both"},
		"a field that is not":  {"x", `startingDeadlineSeconds: 3`, "spec.startingDeadlineSeconds"},
		"depends on a Workflow": {"m", `dependsOn: [{name: m, kind: Workflow, within: 1h}, {name: a, within: 1h}]`,
			""},
		"depends on a kind": {"x", `dependsOn: [{name: a, kind: Job, within: 1h}]`, "spec.dependsOn[0].kind"},
		"everything but the task": {"l", `{suspend: true, jitter: 1m, missedRuns: {policy: Latest}, concurrency: {policy: ` +
			`Allow}, serviceAccountName: a}`, ""},
	})
}

func TestCreateTask(t *testing.T) {
	const container = `serviceAccountName: w, task: {container: {image: a, `
	const call = `task: {http: {url: "https://a", `
	createEach(t, map[string]creation{
		"no task": {"x", `task: {}`, "set exactly one of container, script, http and workflow"},
		"two tasks": {"x",
			`{serviceAccountName: w, task: {container: {image: a}, http: {url: "https://a"}}}`,
			"set exactly one of container, script, http and workflow"},
		"container":                 {"a", `{` + container + `args: [a]}}}`, ""},
		"exit codes of a container": {"ac", `{` + container + `args: [a]}}, retry: {limit: 1, exitCodes: [7]}}`, ""},
		"exceptions of a container": {"ae", `{` + container + `args: [a]}}, retry: {limit: 1, exceptExitCodes: [7]}}`, ""},
		"exit codes and exceptions": {"x", `{` + container +
			`args: [a]}}, retry: {limit: 1, exitCodes: [3], exceptExitCodes: [7]}}`, "set one of exitCodes and exceptExitCodes"},
		"exit codes of a Workflow": {"aw",
			`{task: {workflow: {templateFrom: {name: a}}}, retry: {limit: 1, exitCodes: [7]}}`, ""},
		"container without account": {"x", `task: {container: {image: a}}`, "set serviceAccountName: the pods of the runs"},
		"container without image": {"x", `{serviceAccountName: w, task: {container: {args: [a]}}}`,
			"spec.task.container.image"},
		"variables": {"b", `{` + container +
			`env: [{name: A}, {name: B, value: b}, {name: C, secret: {name: s, key: k}}]}}}`, ""},
		"a variable of two values": {"x", `{` + container + `env: [{name: A, value: a, secret: {name: s, key: k}}]}}}`,
			"set at most one of value, secret and configMap"},
		"a variable twice":       {"x", `{` + container + `env: [{name: A}, {name: A}]}}}`, "spec.task.container.env[1]"},
		"a variable with a dash": {"x", `{` + container + `env: [{name: A-B}]}}}`, "spec.task.container.env[0].name"},
		"mounts": {"c", `{` + container + `mounts: [{path: /a, claim: c}, {path: /b, scratch: 1Gi}]}}}`,
			""},
		"a mount of nothing": {"x", `{` + container + `mounts: [{path: /a}]}}}`,
			"set exactly one of claim, configMap, secret and scratch"},
		"a mount of two": {"x", `{` + container + `mounts: [{path: /a, claim: c, secret: s}]}}}`,
			"set exactly one of claim, configMap, secret and scratch"},
		"a mount at no path": {"x", `{` + container + `mounts: [{path: a, claim: c}]}}}`,
			"spec.task.container.mounts[0].path"},
		"a scratch of words": {"x", `{` + container + `mounts: [{path: /a, scratch: big}]}}}`,
			"spec.task.container.mounts[0].scratch"},
		"another confinement": {"x", `{` + container + `confinement: Privileged}}}`,
			"spec.task.container.confinement"},
		"a user below root": {"x", `{` + container + `runAsUser: -1}}}`, "spec.task.container.runAsUser"},
		"script": {"d",
			`{serviceAccountName: w, task: {script: {image: a, interpreter: [python3, -c], source: pass}}}`, ""},
		"script without source": {"x", `{serviceAccountName: w, task: {script: {image: a}}}`, "spec.task.script.source"},
		"script of 64Ki and one": {"x", `{serviceAccountName: w, task: {script: {image: a, source: "` +
			strings.Repeat("a", 65537) + `"}}}`, "spec.task.script.source"},
		"call": {"e", `{` + call +
			`method: PUT, status: [200, 204], within: 1m, check: "response.status == 200"}}}`, ""},
		"call without URL":       {"x", `task: {http: {method: GET}}`, "spec.task.http.url"},
		"call of another method": {"x", `{` + call + `method: TRACE}}}`, "spec.task.http.method"},
		"call within a word":     {"x", `{` + call + `within: soon}}}`, "spec.task.http.within"},
		"header":                 {"f", `{` + call + `headers: [{name: A, value: a}]}}}`, ""},
		"header of a secret": {"g", `{serviceAccountName: w, ` + call +
			`headers: [{name: A, prefix: "B ", secret: {name: s, key: k}}]}}}`, ""},
		"secret without account": {"x", `{` + call + `headers: [{name: A, secret: {name: s, key: k}}]}}}`,
			"set serviceAccountName: Secrets and ConfigMaps of a call"},
		"authority without account": {"x", `{` + call + `authority: {name: a, key: k}}}}`,
			"set serviceAccountName: Secrets and ConfigMaps of a call"},
		"header of two values": {"x", `{serviceAccountName: w, ` + call +
			`headers: [{name: A, value: a, secret: {name: s, key: k}}]}}}`, "set at most one of value and secret"},
		"header of a prefix": {"x", `{` + call + `headers: [{name: A, prefix: a}]}}}`, "prefix is for a secret"},
		"header twice": {"x", `{` + call + `headers: [{name: A, value: a}, {name: A, value: b}]}}}`,
			"spec.task.http.headers[1]"},
		"header with a blank": {"x", `{` + call + `headers: [{name: "A B", value: a}]}}}`,
			"spec.task.http.headers[0].name"},
		"a key of a secret not said": {"x", `{serviceAccountName: w, ` + call + `headers: [{name: A, secret: {name: s}}]}}}`,
			"spec.task.http.headers[0].secret.key"},
	})
}

func TestCreateWorkflowTask(t *testing.T) {
	const task = `task: {workflow: {templateFrom: {name: a}`
	createEach(t, map[string]creation{
		"workflow":                {"a", task + `, arguments: {day: "1"}, parallelism: 2}}`, ""},
		"workflow without a name": {"x", `task: {workflow: {templateFrom: {}}}`, "spec.task.workflow.templateFrom.name"},
		"workflow and call": {"x", `task: {http: {url: "https://a"}, workflow: {templateFrom: {name: a}}}`,
			"set exactly one of"},
		"argument of the run": {"x", task + `, arguments: {scheduledTime: "1"}}}`,
			"scheduledTime and idempotencyKey are those of the run"},
		"no argument": {"x", task + `, arguments: {}}}`, "spec.task.workflow.arguments"},
		"argument of 2 MB": {"x", task + `, arguments: {day: "` + strings.Repeat("x", 2<<20) + `"}}}`,
			"may not be more than 4096"},
		"workflow of no parallelism": {"x", task + `, parallelism: 0}}`, "spec.task.workflow.parallelism"},
	})
}

func TestDefaultsOfACronJob(t *testing.T) {
	got := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "defaults"}}
	got.Spec = batchv1.CronJobSpec{Schedules: []string{"@daily"}, TimeZone: "UTC",
		Task: batchv1.Task{HTTP: &batchv1.HTTPTask{URL: "https://a"}}}
	if err := env.Client.Create(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if d := got.Spec.ActiveDeadline; d == nil || d.Duration != time.Hour {
		t.Errorf("activeDeadline is %v", d)
	}
}

func TestSamplesApply(t *testing.T) {
	testkit.Samples(t, env.Client, env.Namespace(t), "../../config/samples/batch_*.yaml")
}
