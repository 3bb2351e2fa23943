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

// step is an upgrade from a shipped version of a plugin to one that differs from it by the replacements, and what it
// does to pods.
type step struct {
	plugin string
	// replacements are pairs of a text in components.yaml and what takes its place.
	replacements []string
	// restarts are the topologies whose processes are restarted in place.
	restarts []string
	// reloads says that the servers' processes read their configuration anew.
	reloads bool
	// credential is one that pods get, for which they are replaced.
	credential string
}

var steps = map[string]step{
	"redis: a probe": {plugin: "redis",
		replacements: []string{"      intervalSeconds: 2\n", "      intervalSeconds: 3\n"}},
	"redis: the command of servers that log in at each other": {plugin: "redis",
		restarts:     []string{"replication", "cluster"},
		replacements: []string{`"$@" - <<END`, `"$@"  - <<END`}},
	"postgresql: a file that is read anew": {plugin: "postgresql", reloads: true, replacements: []string{
		"all postgres,zeroinfra_replication,zeroinfra_pooler all",
		"all postgres,zeroinfra_pooler,zeroinfra_replication all"}},
	"postgresql: a credential": {plugin: "postgresql", credential: "extra", replacements: []string{
		"credentials: [pooler, archive, archive-ca, app]", "credentials: [pooler, archive, archive-ca, app, extra]",
		"archive-account, app]", "archive-account, app, extra]",
		"\ncredentials:\n", "\ncredentials:\n  - name: extra\n    username: extra\n    length: 32\n"}},
}

// An UpgradeApp touches no pod and no process that the version changes nothing of: neither the revision of the pods
// changes, nor an image or a resource, nor what their processes run with.
func TestVersionsTouchOnlyWhatTheyChange(t *testing.T) {
	for name, s := range steps {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, "database-operator", "plugins", s.plugin, "1.0.0")
			former, _, errs := Load(dir)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			s.leavesPodsAlone(t, former, s.next(t, dir))
		})
	}
}

// next is the version that the step leads to.
func (s step) next(t *testing.T, dir string) *plugin.Bundle {
	t.Helper()
	to := copyFolder(t, dir)
	next := filepath.Join(filepath.Dir(to), "1.1.0")
	if err := os.Rename(to, next); err != nil {
		t.Fatal(err)
	}
	change(t, filepath.Join(next, "manifest.yaml"), "version: 1.0.0", "version: 1.1.0")
	file := filepath.Join(next, "components.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(s.replacements); i += 2 {
		if !strings.Contains(text, s.replacements[i]) {
			t.Fatalf("%s has no %q", file, s.replacements[i])
		}
		text = strings.ReplaceAll(text, s.replacements[i], s.replacements[i+1])
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	bundle, _, errs := Load(next)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return bundle
}

// Members of a Redis show each other each of its passwords. In no topology that has several of them may one be
// exchanged at once.
func TestMembersOfARedisAcceptTwoPasswordsForAWhile(t *testing.T) {
	bundle, _, errs := Load(filepath.Join(root, "database-operator", "plugins", "redis", "1.0.0"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, topology := range bundle.Components.Topologies {
		for _, credential := range bundle.In(topology.Name).Components.Credentials {
			if several := topology.Name != "standalone"; slices.Contains(credential.PeerTopologies, topology.Name) != several {
				t.Errorf("topology %s: credential %s is shared in %v", topology.Name, credential.Name, credential.PeerTopologies)
			}
		}
	}
}

// leavesPodsAlone goes through all golden cases of the former version.
func (s step) leavesPodsAlone(t *testing.T, former, next *plugin.Bundle) {
	inputs, err := filepath.Glob(filepath.Join(root, "*-operator", "plugins", former.Manifest.Name,
		former.Manifest.Version, "testdata", "*"+inputEnding))
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
			if slices.Contains(s.restarts, app.Spec.Topology) {
				restartsAlone(t, filepath.Base(input)+": "+name, set, is[name])
				continue
			}
			if s.credential != "" && set.Spec.Component != "pooler" {
				replacesFor(t, filepath.Base(input)+": "+name, s.credential, set, is[name])
				continue
			}
			sameForPods(t, filepath.Base(input)+": "+name, set, is[name])
			if is[name] == nil {
				continue
			}
			if was, is := planOf(t, set).Digest, planOf(t, is[name]).Digest; (was != is) != s.reloads &&
				set.Spec.Component != "pooler" {
				t.Errorf("%s: what a reload takes over is %s and was %s", name, is, was)
			}
		}
	}
	if compared == 0 {
		t.Error("no case has a set")
	}
}

// setsOf are the WorkloadSets that an Application becomes, or why it is refused, without the version's name.
func setsOf(t *testing.T, bundle *plugin.Bundle, app *platformv1.Application, place archive.Place) (
	map[string]*platformv1.WorkloadSet, string) {
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

// restartsAlone compares what pods are made from where processes are restarted: those have another command or hooks,
// and nothing else.
func restartsAlone(t *testing.T, name string, was, is *platformv1.WorkloadSet) {
	t.Helper()
	if is == nil {
		t.Errorf("%s: the set is gone", name)
		return
	}
	before, after := planOf(t, was), planOf(t, is)
	if before.RestartDigest == after.RestartDigest {
		t.Errorf("%s: nothing restarts the processes: want a restart", name)
	}
	after.Process.Command, after.Process.Hooks = before.Process.Command, before.Process.Hooks
	if !equality.Semantic.DeepEqual(before.Process, after.Process) ||
		!equality.Semantic.DeepEqual(before.Files, after.Files) {
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
		t.Errorf("%s: pods have the credential %d times: want once", name, found)
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
