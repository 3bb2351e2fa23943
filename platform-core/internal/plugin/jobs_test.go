// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
)

// counting is a template of the plugin redis that runs a job.
const counting = `name: Count
parameters: {what: {schema: string, default: "*"}}
steps:
  - name: count
    job:
      command: [redis-cli, -h, "${target.application}", --raw, KEYS, "${parameters.what}"]
      env:
        - {name: REDISCLI_AUTH, secret: {credential: default, key: password}}
        - {name: WHAT, value: "${parameters.what}"}
      resources: {limits: {memory: 64Mi}}
      outputs: {keys: '=~"^[0-9]+$"'}
  - name: note
    apply: {apiVersion: v1, kind: ConfigMap, name: note,
      content: {data: {keys: "${steps.count.outputs.keys}", by: "${steps.count.outputs.job}"}}}
`

func TestJobs(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartOperations, "Count.yaml", "", counting)
	bundle, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	template := bundle.Operations["Count"]
	variables := map[string]any{"parameters": map[string]string{"what": "a*"},
		"target": map[string]any{"application": "redis-a"}}
	step, _ := template.Step("count")
	for i, want := range []string{"redis-cli", "-h", "redis-a", "--raw", "KEYS", "a*"} {
		if got, err := template.Text("count", step.Job.Command[i], variables); err != nil || got != want {
			t.Errorf("word %d is %q, %v; want %q", i, got, err, want)
		}
	}
	if limit := step.Job.Resources.Limits["memory"]; limit != "64Mi" || step.Job.Env[0].Secret.Credential != "default" {
		t.Errorf("the job is %+v", step.Job)
	}
}

// A user can say how much of a resource a job gets, and that it gets none.
func TestResourcesOfJobs(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartOperations, "Count.yaml", "", strings.Replace(counting, "{limits: {memory: 64Mi}}",
		`{requests: {cpu: 1}, limits: {memory: 64Mi, nvidia.com/gpu: "${parameters.what}"}}`, 1))
	bundle, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	template := bundle.Operations["Count"]
	step, _ := template.Step("count")
	for what, tc := range map[string]struct {
		gpus int64
		says string
	}{
		"2":   {gpus: 2},
		"0":   {},
		"":    {},
		"two": {says: `has "two" of nvidia.com/gpu: it must be a quantity`},
		"1.5": {says: "has a limit of 1500m of nvidia.com/gpu: it must be a whole number"},
		"-1":  {says: "has a limit of -1 of nvidia.com/gpu: it must be greater than 0"},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := step.Job.Resources.Fill(func(source string) (string, error) {
				return template.Text("count", source, map[string]any{"parameters": map[string]string{"what": what}})
			})
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("the error is %v; want %q", err, tc.says)
				}
				return
			}
			gpus, limited := got.Limits["nvidia.com/gpu"]
			if err != nil || gpus.Value() != tc.gpus || limited != (tc.gpus > 0) || got.Limits.Memory().String() != "64Mi" ||
				got.Requests.Cpu().Value() != 1 {
				t.Errorf("the resources are %v, %v; want %d GPUs", got, err, tc.gpus)
			}
		})
	}
}

func TestBrokenJobs(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"no command": {
			`command: [redis-cli, -h, "${target.application}", --raw, KEYS, "${parameters.what}"]`, "command: []", "command"},
		"unknown field": {"resources:", "resource:", "resource"},
		"unknown credential": {"credential: default", "credential: root",
			`steps[0].job.env[0].secret.credential names the credential "root", which the component does not have`},
		"value and secret": {"{name: REDISCLI_AUTH, ", "{name: REDISCLI_AUTH, value: x, ",
			"has a value and a secret"},
		"two of a name": {"name: WHAT", "name: REDISCLI_AUTH",
			`is "REDISCLI_AUTH", which another one has`},
		"unknown component": {"      command:", "      component: sentinel\n      command:",
			`names the component "sentinel", which the template does not act on: it acts on redis`},
		"unknown volumes": {"      command:", "      volumes: All\n      command:", "volumes"},
		"name of the pod": {"      env:",
			"      volumes: Writer\n      env:\n        - {name: JOB_POD, value: x}",
			"steps[0].job.env[0].name is taken by the engine"},
		"unknown resource": {"memory: 64Mi", "gpu: 1", `has the resource "gpu", which no container has`},
		"half a GPU": {"memory: 64Mi", "nvidia.com/gpu: 0.5",
			"has a limit of 500m of nvidia.com/gpu: it must be a whole number"},
		"no quantity": {"memory: 64Mi", "memory: much",
			`steps[0].job.resources.limits.memory: "much" is not allowed: it must be a quantity`},
		"unknown field of resources": {"{limits:", "{limit:", `did you mean "limits"?`},
		"unknown resource for a parameter": {"memory: 64Mi", `gpu: "${parameters.what}"`,
			`has the resource "gpu", which no container has`},
		"unknown parameter of resources": {"memory: 64Mi", `nvidia.com/gpu: "${parameters.gpus}"`, "undefined field 'gpus'"},
		"placeholder in image": {"      command:", "      image: \"${parameters.what}\"\n      command:",
			"a placeholder is not allowed here"},
		"placeholder in secret": {"credential: default", `credential: "${parameters.what}"`,
			"a placeholder is not allowed here"},
		"unknown parameter":  {`KEYS, "${parameters.what}"`, `KEYS, "${parameters.which}"`, "undefined field 'which'"},
		"constraint":         {`keys: '=~"^[0-9]+$"'`, `keys: '=~'`, "no CUE constraint"},
		"name that is taken": {`keys: '=~"^[0-9]+$"'`, `keys: string, job: string`, "is taken by the engine"},
		"unknown output":     {"outputs.keys}", "outputs.values}", "undefined field 'values'"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(counting, tc.old) != 1 {
				t.Fatalf("%q is there %d times", tc.old, strings.Count(counting, tc.old))
			}
			sources := redisSources(t)
			edit(t, sources, PartOperations, "Count.yaml", "", strings.Replace(counting, tc.old, tc.new, 1))
			if _, errs := Load(sources); !strings.Contains(list(errs), tc.says) || !strings.Contains(list(errs), "Count.yaml:") {
				t.Errorf("got\n%s\nwant %q", list(errs), tc.says)
			}
		})
	}
}
