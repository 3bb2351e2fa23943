// SPDX-License-Identifier: Apache-2.0

package optemplate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// handOn is a template in which one step takes an artifact of another, with some of its lines changed.
func handOn(changes ...string) string {
	return strings.NewReplacer(changes...).Replace(`name: HandOn
artifacts: {repository: store}
steps:
  - name: make
    needs: []
    script: {image: a, source: make}
    artifacts: [{name: report, path: /out/report.csv}, {name: log, path: /out/log}]
  - name: use
    needs: [make]
    container: {image: a, mounts: [{path: /data, claim: c}]}
    inputs: [{from: make.report, path: /in/report.csv}]
  - name: other
    needs: []
    container: {image: a}
`)
}

func TestParseInlineChecksArtifacts(t *testing.T) {
	report := "path: /in/report.csv"
	for title, c := range map[string]struct {
		changes []string
		want    string
	}{
		"right": {nil, ""},
		"limit": {[]string{"{repository: store}", "{repository: store, maxSize: 2Gi}"}, ""},
		"no repository": {[]string{"artifacts: {repository: store}\n", ""},
			"steps[0].artifacts need a BackupRepository where they are kept: name it in artifacts.repository of the template"},
		"unused": {[]string{"    artifacts: [{name: report, path: /out/report.csv}, {name: log, path: /out/log}]\n", "",
			"    inputs: [{from: make.report, path: /in/report.csv}]\n", ""},
			"artifacts says where artifacts are kept, and nothing has any"},
		"limit of nothing": {[]string{"store}", "store, maxSize: 0}"}, "artifacts.maxSize is 0: it must be from 1 to 64Gi"},
		"limit too large":  {[]string{"store}", "store, maxSize: 65Gi}"}, "artifacts.maxSize is 65Gi"},
		"unknown step": {[]string{"make.report", "nobody.report"},
			`steps[1].inputs[0].from names an artifact of the step "nobody", which is not there`},
		"unknown artifact": {[]string{"make.report", "make.nothing"}, `steps[1].inputs[0].from names the artifact ` +
			`"nothing", which step "make" does not have: it has report, log`},
		"no artifact at all": {[]string{"make.report", "other.report"}, `which step "other" does not have: it has none`},
		"not before": {[]string{"needs: [make]", "needs: [other]"}, `steps[1].inputs[0].from names an artifact of step ` +
			`"make", which does not have to end before this one: have this one depend on it`},
		"relative": {[]string{report, "path: in/report.csv"},
			`steps[1].inputs[0].path is "in/report.csv": it must be an absolute path`},
		"with dots":   {[]string{report, "path: /in/../report"}, `is "/in/../report": it must be a file in a folder`},
		"at the root": {[]string{report, "path: /report"}, `is "/report": it must be a file in a folder`},
		"folder":      {[]string{report, "path: /in/"}, `is "/in/": it must be a file in a folder`},
		"in /tmp":     {[]string{report, "path: /tmp/a/b"}, "nothing can be kept there; choose another folder"},
		"in a mount":  {[]string{report, "path: /data/report"}, `is "/data/report", where something is mounted`},
		"twice": {[]string{"/out/log", "/out/report.csv"},
			`steps[0].artifacts[1].path is "/out/report.csv", which another artifact or input has`},
		"name twice": {[]string{"name: log", "name: report"},
			`steps[0].artifacts[1].name is "report", which another one has`},
		"file a folder": {[]string{"/out/log", "/out/report.csv/log"},
			`steps[0].artifacts[0].path is "/out/report.csv", which is the folder of another artifact or input`},
		"of each item": {[]string{"script: {image: a", "forEach: '[\"x\"]'\n    script: {image: a"},
			"steps[0].artifacts are those of one pod: a forEach has one for each item"},
		"of no pod": {[]string{"script: {image: a, source: make}",
			"wait: {apiVersion: v1, kind: Pod, name: a, until: 'true'}"},
			"steps[0].artifacts are files of a container: only a container and a script have them"},
		"no pair":     {[]string{"make.report", "report"}, "steps[1].inputs[0].from"},
		"placeholder": {[]string{"/out/log", "'/out/${each}'"}, "steps[0].artifacts[1].path"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := optemplate.ParseInline(handOn(c.changes...))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestArtifactsOfATemplate(t *testing.T) {
	template, err := optemplate.ParseInline(handOn("{repository: store}", "{repository: store, maxSize: 2Gi}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := template.Artifacts.Bytes(); got != 2<<30 {
		t.Errorf("the limit is %d", got)
	}
	if got := (&optemplate.Artifacts{}).Bytes(); got != 1<<30 {
		t.Errorf("the default limit is %d", got)
	}
	step := template.Steps[0]
	step.Inputs = []optemplate.StepInput{{From: "a.b", Path: "/in/x"}, {From: "a.c", Path: "/out/y"}}
	if got := step.ArtifactFolders(); !slices.Equal(got, []string{"/out", "/in"}) {
		t.Errorf("the folders are %v", got)
	}
}
