// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

const workflowFile = `
apiVersion: batch.zeroinfra.github.com/v1
kind: Workflow
metadata: {name: order}
spec:
  tasks:
    - {name: bill, dependsOn: [{name: count}, {name: price, phases: [Succeeded, Skipped]}]}
    - {name: count}
    - {name: price, dependsOn: [{name: count}]}
  onExit: [{name: log}]
status:
  phase: Running
  progress: 1/4
  tasks:
    - {name: bill, phase: Pending}
    - {name: count, phase: Succeeded, items: 3/3}
    - {name: price, phase: Running, message: 'waiting for the answer of the server'}
`

func TestGraphShowsTasksAfterWhatTheyDependOn(t *testing.T) {
	command := workflowCommand()
	var out bytes.Buffer
	command.SetArgs([]string{"graph", "-f", "-"})
	command.SetIn(strings.NewReader(workflowFile))
	command.SetOut(&out)
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	want := `Workflow order: Running 1/4
TASK      STATE          AFTER                              MESSAGE
count     Succeeded 3/3
  price   Running        count                              waiting for the answer of the server
    bill  Pending        count, price (Succeeded, Skipped)
log       -              the end
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
}

func TestGraphTakesOneWorkflow(t *testing.T) {
	for title, c := range map[string]struct{ file, want string }{
		"another kind": {"{apiVersion: v1, kind: Pod}", "it is a Pod of v1, and no Workflow"},
		"no YAML":      {"[", "cannot read YAML"},
	} {
		t.Run(title, func(t *testing.T) {
			command := workflowCommand()
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs([]string{"graph", "-f", "-"})
			command.SetIn(strings.NewReader(c.file))
			if err := command.Execute(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
