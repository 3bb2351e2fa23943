// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
)

// What an instance goes to by an UpgradeApp between shipped versions touches no pod and no process of it: neither the revision of its pods
// changes, nor an image or a resource, nor what its processes run with. A version that has to do so is to say it in its manifest, and here.
func TestShippedVersionsLeavePodsAlone(t *testing.T) {
	steps := 0
	for _, dir := range folders(t) {
		next, _, errs := Load(dir)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, from := range next.Manifest.AllowedUpgradeFrom {
			former, _, errs := Load(filepath.Join(filepath.Dir(dir), from))
			if len(errs) > 0 {
				t.Errorf("%s takes over from a version that is not shipped: %v", dir, errs)
				continue
			}
			steps++
			t.Run(next.Manifest.Name+" "+from+" to "+next.Manifest.Version, func(t *testing.T) { leavesPodsAlone(t, former, next) })
		}
	}
	if steps < 6 {
		t.Errorf("%d shipped versions take over from another one: those of redis and postgresql do", steps)
	}
}

// Members of a Redis show each other each of its passwords. In no topology that has several of them may one be exchanged at once.
func TestMembersOfARedisAcceptTwoPasswordsForAWhile(t *testing.T) {
	bundle, _, errs := Load(filepath.Join(root, "database-operator", "plugins", "redis", "1.5.0"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, topology := range bundle.Components.Topologies {
		for _, credential := range bundle.In(topology.Name).Components.Credentials {
			if several := topology.Name != "standalone"; slices.Contains(credential.SharedIn, topology.Name) != several {
				t.Errorf("topology %s: credential %s is shared in %v", topology.Name, credential.Name, credential.SharedIn)
			}
		}
	}
}

// restarting are the steps that restart processes in place, and the topologies in which they do: since redis 1.2.0 servers that log in at each other
// start with the passwords that they accept, and since 1.4.0 those of a cluster hand over before they are stopped.
var restarting = map[string][]string{
	"redis 1.0.0 to 1.2.0": {"replication", "cluster"},
	"redis 1.1.0 to 1.2.0": {"replication", "cluster"},
	"redis 1.0.0 to 1.3.0": {"replication", "cluster"},
	"redis 1.1.0 to 1.3.0": {"replication", "cluster"},
	"redis 1.0.0 to 1.4.0": {"replication", "cluster"},
	"redis 1.1.0 to 1.4.0": {"replication", "cluster"},
	"redis 1.2.0 to 1.4.0": {"cluster"},
	"redis 1.3.0 to 1.4.0": {"cluster"},
	"redis 1.0.0 to 1.5.0": {"replication", "cluster"},
	"redis 1.1.0 to 1.5.0": {"replication", "cluster"},
	"redis 1.2.0 to 1.5.0": {"cluster"},
	"redis 1.3.0 to 1.5.0": {"cluster"},
}

// reloading are the steps after which processes are told to read their configuration anew, which says the same in other words.
var reloading = []string{
	"postgresql 1.0.0 to 1.2.0", "postgresql 1.1.0 to 1.2.0", "postgresql 1.0.0 to 1.3.0", "postgresql 1.1.0 to 1.3.0", "postgresql 1.0.0 to 1.4.0", "postgresql 1.1.0 to 1.4.0",
}

// replacing are the steps that replace pods, by the credential that they get: since postgresql 1.5.0 that of the role for
// clients.
var replacing = map[string]string{
	"postgresql 1.0.0 to 1.5.0": "app",
	"postgresql 1.1.0 to 1.5.0": "app",
	"postgresql 1.2.0 to 1.5.0": "app",
	"postgresql 1.3.0 to 1.5.0": "app",
	"postgresql 1.4.0 to 1.5.0": "app",
}

// leavesPodsAlone goes through all golden cases of the former version.
func leavesPodsAlone(t *testing.T, former, next *plugin.Bundle) {
	inputs, err := filepath.Glob(filepath.Join(root, "*-operator", "plugins", former.Manifest.Name, former.Manifest.Version, "testdata", "*"+inputEnding))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("there are no cases: %v", err)
	}
	compared := 0
	for _, input := range inputs {
		data, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		app, place, err := ReadInput(data, input)
		if err != nil {
			t.Fatal(err)
		}
		was, refused := setsOf(t, former, app, place)
		is, refusedNow := setsOf(t, next, app, place)
		if refused != refusedNow {
			t.Errorf("%s: it was refused with %q, and is with %q", input, refused, refusedNow)
		}
		if len(was) != len(is) {
			t.Errorf("%s: %d sets become %d", input, len(was), len(is))
		}
		for name, set := range was {
			compared++
			step := former.Manifest.Name + " " + former.Manifest.Version + " to " + next.Manifest.Version
			if slices.Contains(restarting[step], app.Spec.Topology) {
				restartsAlone(t, filepath.Base(input)+": "+name, set, is[name])
				continue
			}
			if credential := replacing[step]; credential != "" && set.Spec.Component != "pooler" {
				replacesFor(t, filepath.Base(input)+": "+name, credential, set, is[name])
				continue
			}
			sameForPods(t, filepath.Base(input)+": "+name, set, is[name])
			if is[name] == nil {
				continue
			}
			if was, is := planOf(t, set).Digest, planOf(t, is[name]).Digest; (was != is) != slices.Contains(reloading, step) && set.Spec.Component != "pooler" {
				t.Errorf("%s: what a reload takes over is %s and was %s: say so in the list of steps that reload, or that they do not", name, is, was)
			}
		}
	}
	if compared == 0 {
		t.Error("no case has a set")
	}
}

// setsOf are the WorkloadSets that an Application becomes, or why it is refused, without the version's name.
func setsOf(t *testing.T, bundle *plugin.Bundle, app *platformv1.Application, place archive.Place) (map[string]*platformv1.WorkloadSet, string) {
	t.Helper()
	app = app.DeepCopy()
	app.Spec.PluginVersion = bundle.Manifest.Version
	objects, refusal := objectsOf(bundle, app, place)
	if refusal != nil {
		return nil, strings.ReplaceAll(refusal.Message, bundle.Manifest.Version, "VERSION")
	}
	sets := map[string]*platformv1.WorkloadSet{}
	for _, object := range objects {
		if set, ok := object.(*platformv1.WorkloadSet); ok {
			sets[set.Name] = set
		}
	}
	return sets, ""
}

// restartsAlone compares what pods are made from where processes are restarted: those have another command or hooks, and nothing else.
func restartsAlone(t *testing.T, name string, was, is *platformv1.WorkloadSet) {
	t.Helper()
	if is == nil {
		t.Errorf("%s: the set is gone", name)
		return
	}
	before, after := planOf(t, was), planOf(t, is)
	if before.RestartDigest == after.RestartDigest {
		t.Errorf("%s: nothing restarts the processes: take it out of what does", name)
	}
	after.Process.Command, after.Process.Hooks = before.Process.Command, before.Process.Hooks
	if !equality.Semantic.DeepEqual(before.Process, after.Process) || !equality.Semantic.DeepEqual(before.Files, after.Files) {
		t.Errorf("%s: the process changes in more than its command and hooks", name)
	}
	same := is.DeepCopy()
	same.Spec.Plan = was.Spec.Plan
	sameForPods(t, name, was, same)
}

// replacesFor compares what pods are made from where they get a credential more: they have a volume source for it, a
// reload that takes its password over, and nothing else that is new.
func replacesFor(t *testing.T, name, credential string, was, is *platformv1.WorkloadSet) {
	t.Helper()
	if is == nil {
		t.Errorf("%s: the set is gone", name)
		return
	}
	before, after := templateOf(t, was), templateOf(t, is)
	found := 0
	for _, volume := range after.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		volume.Projected.Sources = slices.DeleteFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool {
			of := s.Secret != nil && strings.HasSuffix(s.Secret.Name, "-"+credential)
			if of {
				found++
			}
			return of
		})
	}
	if found != 1 {
		t.Errorf("%s: pods have the credential %d times: take it out of what replaces pods", name, found)
	}
	if !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("%s: the pods change in more than the credential", name)
	}
	process, processNow := planOf(t, was).Process, planOf(t, is).Process
	processNow.Reload.Credentials = process.Reload.Credentials
	if !equality.Semantic.DeepEqual(process, processNow) {
		t.Errorf("%s: the process changes in more than the passwords that a reload takes over", name)
	}
}

func templateOf(t *testing.T, set *platformv1.WorkloadSet) corev1.PodTemplateSpec {
	t.Helper()
	var template corev1.PodTemplateSpec
	if err := json.Unmarshal(set.Spec.Template.Raw, &template); err != nil {
		t.Fatal(err)
	}
	return template
}

// sameForPods compares all that pods and processes are made from.
func sameForPods(t *testing.T, name string, was, is *platformv1.WorkloadSet) {
	t.Helper()
	if is == nil {
		t.Errorf("%s: the set is gone", name)
		return
	}
	if was.Spec.Revision == "" || was.Spec.Revision != is.Spec.Revision {
		t.Errorf("%s: the pods' revision %q becomes %q: they would be replaced", name, was.Spec.Revision, is.Spec.Revision)
	}
	before, after := planOf(t, was), planOf(t, is)
	if before.RestartDigest == "" || before.RestartDigest != after.RestartDigest {
		t.Errorf("%s: what a restart takes over changes: processes would be restarted", name)
	}
	rest, restNow := was.Spec.DeepCopy(), is.Spec.DeepCopy()
	for _, spec := range []*platformv1.WorkloadSetSpec{rest, restNow} {
		// The plan was compared; whose version it is and what is said of the instance is no matter of pods.
		spec.Plan, spec.Conditions, spec.Plugin = rest.Plan, nil, rest.Plugin
		if spec.Switchover != nil {
			// Nor is who may take over.
			spec.Switchover.When = ""
		}
	}
	if !equality.Semantic.DeepEqual(rest, restNow) {
		t.Errorf("%s: the set changes in more than its plan, its conditions and who may take over", name)
	}
}

func planOf(t *testing.T, set *platformv1.WorkloadSet) plan.Plan {
	t.Helper()
	p, err := render.Plan(set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
