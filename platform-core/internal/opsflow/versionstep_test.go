// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// runs has the report of a pod name a version of the middleware.
func runs(ordinal int, version string) func(*world) {
	return func(w *world) { w.at(ordinal).Report.Version = version }
}

// upgrading is a run of the engine's own upgrade to 8.0, of pods that report 7.0.15.
func upgrading() *world {
	w := worldOf(committing, pod(0, primary), pod(1, reader))
	w.facts.Template, w.facts.Parameters = Defaults()["UpgradePaaS"], map[string]string{"version": "8.0"}
	for ordinal := range w.facts.Pods {
		runs(ordinal, "7.0.15")(w)
	}
	return w
}

// versionStories are those of upgrades whose pods say what they run.
var versionStories = map[string]func() *world{
	"upgrade-reported-later": func() *world {
		w := upgrading()
		w.happens("The Operation starts.", nil)
		w.happens("It is Ready with the edit, and the report of pod 1 lags behind.", func(w *world) {
			settled(w)
			runs(0, "8.0.3")(w)
		})
		w.happens("20 s later.", wait(20*time.Second))
		w.happens("Pod 1 reports the new version.", runs(1, "8.0.3"))
		return w
	},
	"upgrade-that-a-pod-did-not-get": func() *world {
		w := upgrading()
		w.happens("The Operation starts.", nil)
		w.facts.Application.Spec.Version = "8.0"
		w.happens("It is Ready with the edit, and pod 1 reports the former version.", func(w *world) {
			settled(w)
			runs(0, "8.0.3")(w)
		})
		w.happens("A minute later.", wait(time.Minute))
		return w
	},
}

// A version that a pod reports is compared by its leading components. What is neither the former nor the wanted one, or
// comes from a pod that is on its way, is not judged.
func TestLaggard(t *testing.T) {
	for name, tc := range map[string]struct {
		former, wanted, reported string
		presence                 Presence
		lags                     bool
	}{
		"the former":              {"7.0", "8.0", "7.0.15", PodRunning, true},
		"the former as it is":     {"7.0", "8.0", "7.0", PodRunning, true},
		"the former as packaged":  {"15", "17", "15-2.pgdg", PodRunning, true},
		"the wanted":              {"7.0", "8.0", "8.0.3", PodRunning, false},
		"another release of both": {"7", "7.2", "7.2.1", PodRunning, false},
		"of the former line":      {"7.2", "7.2.5", "7.2.4", PodRunning, true},
		"another number":          {"7.1", "8.0", "7.10", PodRunning, false},
		"another way to count":    {"15", "17", "1.18.0", PodRunning, false},
		"with a prefix":           {"7.0", "8.0", "v7.0.15", PodRunning, false},
		"none":                    {"7.0", "8.0", "", PodRunning, false},
		"the same version":        {"7.0", "7.0", "7.0.15", PodRunning, false},
		"packaged anew":           {"7.2", "7.2-r1", "7.2.4", PodRunning, false},
		"built anew":              {"16.4+1", "16.4+2", "16.4", PodRunning, false},
		"the wanted, packaged":    {"7.2", "7.2.5-alpine", "7.2.5", PodRunning, false},
		"the former, packaged":    {"7.2.4-alpine", "7.2.5-alpine", "7.2.4", PodRunning, true},
		"of the line, packaged":   {"7.2", "7.2.5-alpine", "7.2.4", PodRunning, true},
		"nobody knows the former": {"", "8.0", "7.0.15", PodRunning, false},
		"of a pod that goes":      {"7.0", "8.0", "7.0.15", PodGoing, false},
		"of a pod that is gone":   {"7.0", "8.0", "7.0.15", PodAbsent, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := pod(0, platformv1.RoleReadWrite)
			one.Report.Version, one.Presence = tc.reported, tc.presence
			if lags := (Facts{Pods: []Pod{one}}).laggard(tc.former, tc.wanted) != nil; lags != tc.lags {
				t.Errorf("it lags: %t", lags)
			}
		})
	}
}

// Another attempt at an upgrade knows the version from before the first one: the edit of that has replaced it.
func TestAnotherAttemptKnowsTheFormerVersion(t *testing.T) {
	w := upgrading()
	w.happens("The Operation starts.", nil)
	w.facts.Application.Spec.Version = "8.0"
	step := &w.op.Status.Steps[0]
	if step.Outputs[outputFrom] != "7.0" {
		t.Fatalf("the outputs are %v", step.Outputs)
	}
	step.Phase = platformv1.OperationPending
	w.happens("It is begun again.", nil)
	if got := w.op.Status.Steps[0].Outputs[outputFrom]; got != "7.0" {
		t.Errorf("it takes %q for the former version", got)
	}
}

// So does another run that goes on where one stopped.
func TestAnotherRunKnowsTheFormerVersion(t *testing.T) {
	w := upgrading()
	w.happens("The Operation starts.", nil)
	w.facts.Application.Spec.Version = "8.0"
	w.happens("It is Ready with the edit, and the pods report the former version.", settled)
	w.happens("A minute later.", wait(time.Minute))
	if w.op.Status.Phase != platformv1.OperationFailed {
		t.Fatal(w.story.String())
	}
	d := Start(&platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "next", UID: "next"},
		Spec: platformv1.OperationSpec{RetryOf: "run"}}, "redis-a", w.facts, w.op)
	if step := d.Status.Steps[0]; step.Outputs[outputFrom] != "7.0" || step.Outputs[outputDoubted] != "" ||
		step.Phase != platformv1.OperationRunning {
		t.Errorf("it begins with %+v", step)
	}
}
