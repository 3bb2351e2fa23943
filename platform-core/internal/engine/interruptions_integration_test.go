// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// takesOverFrom100 is a version of the plugin redis that takes over from 1.0.0 and changes nothing else.
const takesOverFrom100 = "1.9.0"

// interruption is an Operation that engines are killed during.
type interruption struct {
	template   string
	parameters []string
	change     func(*platformv1.OperationSpec)
	// make makes what it acts on, while an engine runs that is left alone; that is Ready when it is nil.
	make func(t *testing.T, namespace string) *platformv1.Application
	// play does what it waits for and nobody does here; nil for nothing.
	play func(t *testing.T, app *platformv1.Application, op *platformv1.Operation)
	// edits is how often it changes the spec of the Application.
	edits int64
	// resizes: a server that gives pods no other resources while they run has another pod come in place of one.
	resizes bool
	// check looks at what came of it.
	check func(t *testing.T, app *platformv1.Application)
}

// instance makes an Application that is Ready.
func instance(t *testing.T, namespace string, changes ...func(*platformv1.ApplicationSpec)) *platformv1.Application {
	t.Helper()
	app := application(namespace)
	for _, change := range changes {
		change(&app.Spec)
	}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	return app
}

// hasPods checks how many pods there are of an instance, and that none of its volumes is gone.
func hasPods(pods int) func(t *testing.T, app *platformv1.Application) {
	return func(t *testing.T, app *platformv1.Application) {
		t.Helper()
		if got := podNames(t, app.Namespace); len(got) != pods {
			t.Errorf("there are the pods %v, want %d", got, pods)
		}
		if got := claims(t, app); len(got) != 1 {
			t.Errorf("there are the volumes %v", got)
		}
	}
}

// ofSpec are those that have the engine change the spec of an instance, and wait until it is so.
func ofSpec() map[string]interruption {
	return map[string]interruption{
		"stop": {template: "Stop", edits: 1, check: hasPods(0)},
		"start": {template: "Start", edits: 1, check: hasPods(1),
			make: func(t *testing.T, namespace string) *platformv1.Application {
				return instance(t, namespace, func(s *platformv1.ApplicationSpec) { s.Running = new(false) })
			}},
		"resize": {template: "VerticalScaleResource", parameters: []string{"memory", "768Mi"}, edits: 1, resizes: true,
			make: func(t *testing.T, namespace string) *platformv1.Application {
				return instance(t, namespace, ownMemory, func(s *platformv1.ApplicationSpec) {
					s.Components[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
				})
			},
			check: func(t *testing.T, app *platformv1.Application) {
				hasPods(1)(t, app)
				got := podOf(t, app).Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
				if !got.Equal(resource.MustParse("768Mi")) {
					t.Errorf("the pod may have %s", got.String())
				}
			}},
		"expand": {template: "VerticalScaleVolume", parameters: []string{"component", "db", "size", "2Gi"}, edits: 1,
			make: func(t *testing.T, namespace string) *platformv1.Application {
				app, _ := onGrowing(t, namespace)
				return app
			},
			play: func(t *testing.T, app *platformv1.Application, _ *platformv1.Operation) {
				claims := dbClaims(t, app)
				askedFor(t, claims, "2Gi")
				for i := range claims {
					provision(t, &claims[i], "2Gi")
				}
			},
			check: func(t *testing.T, app *platformv1.Application) { wantClaims(t, app, "2Gi") }},
		"upgrade": {template: "UpgradePaaS", parameters: []string{"version", "8.0"}, edits: 1, play: runsNext,
			check: hasPods(1)},
		"plugin": {template: "UpgradeApp", parameters: []string{"version", takesOverFrom100}, edits: 1,
			check: func(t *testing.T, app *platformv1.Application) {
				hasPods(1)(t, app)
				if pinned := app.Status.Plugin; app.Spec.PluginVersion != takesOverFrom100 || pinned.Version != takesOverFrom100 {
					t.Errorf("it is made from %+v", pinned)
				}
			}},
	}
}

// ofRest are those that change no spec.
func ofRest() map[string]interruption {
	crewed := func(t *testing.T, namespace string) *platformv1.Application {
		app, _ := crewIn(t, namespace)
		return app
	}
	return map[string]interruption{
		"switchover": {template: "Switchover", make: crewed, check: handedOver,
			play: func(t *testing.T, app *platformv1.Application, op *platformv1.Operation) {
				set := setOf(app)
				handsOver(t, set, memberAt(set, 0).Name)
				succeeds(t, set, op, platformv1.PrimaryOrdered)
				writing(t, set, 1, 2)
			}},
		"delete": {template: "Delete", change: lent("able", ""),
			make: func(t *testing.T, namespace string) *platformv1.Application {
				lends(t, namespace, "able", "delete")
				return instance(t, namespace)
			},
			play: func(t *testing.T, app *platformv1.Application, _ *platformv1.Operation) {
				testkit.WaitFor(t, env.Client, app, "is being deleted", func() error {
					if app.DeletionTimestamp == nil {
						return fmt.Errorf("it is not")
					}
					return nil
				})
				pod := podOf(t, app)
				for _, made := range []client.Object{app,
					&platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a-redis"}},
					&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a-redis-main"}},
					pod} {
					removed(t, made)
				}
			},
			check: hasPods(0)},
	}
}

// setOf is the set of an instance of redis, as it is to be read.
func setOf(app *platformv1.Application) *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main"}}
}

// handedOver checks that another pod of a crew writes, and that nothing is asked of it any more.
func handedOver(t *testing.T, app *platformv1.Application) {
	t.Helper()
	set := setOf(app)
	handsOver(t, set, "")
	if writer := set.Status.Primary; writer.Term != 2 || writer.Member.Name != memberAt(set, 1).Name {
		t.Errorf("the record is %+v", writer)
	}
}

// runsNext has the pod of an instance run the version that is asked for once it has the image of that, as a kubelet and
// agents do.
func runsNext(t *testing.T, app *platformv1.Application, op *platformv1.Operation) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main-0"}}
	refresh(t, pod)
	former := pod.Spec.Containers[0].Image
	testkit.WaitFor(t, env.Client, op, "an upgrade that is done", func() error {
		if op.Status.CompletionTime != nil {
			return nil
		}
		now := &corev1.Pod{}
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), now)
		if err == nil && now.Status.PodIP != "" && now.Spec.Containers[0].Image != former &&
			report.Latest(now.Annotations[platformv1.ReportAnnotation]).Version != "8.0.3" {
			runsVersion(t, app, "8.0.3")
		}
		return fmt.Errorf("it is %s: %+v", op.Status.Phase, op.Status.Steps)
	})
}

// prepares makes what an Operation acts on, in a namespace of its own, under an engine that runs; told are the stories
// of what is there.
func (i interruption) prepares(t *testing.T) (app *platformv1.Application, told *chronicle) {
	t.Helper()
	namespace := env.Namespace(t)
	nodeAt(t, namespace, testagents.Address())
	told = follow(t, namespace)
	if i.make == nil {
		return instance(t, namespace), told
	}
	return i.make(t, namespace), told
}

// goesOn runs the Operation to its end, while engines are killed.
func (i interruption) goesOn(t *testing.T, app *platformv1.Application, told *chronicle) {
	t.Helper()
	refresh(t, app)
	generation := app.Generation
	op := operate(t, app, "once", i.template, i.change, i.parameters...)
	if i.play != nil {
		i.play(t, app, op)
	}
	for _, step := range ends(t, op, platformv1.OperationSucceeded).Steps {
		if step.Attempts > 1 {
			t.Errorf("step %s was begun %d times", step.Name, step.Attempts)
		}
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err == nil && app.Generation != generation+i.edits {
		t.Errorf("its spec was changed %d times, want %d", app.Generation-generation, i.edits)
	}
	i.check(t, app)
	for name, s := range told.all() {
		want := 1
		if i.resizes && strings.HasPrefix(name, "Pod ") && !resizes(t) {
			want = 2
		}
		if s.made != want {
			t.Errorf("%s was made %d times, want %d", name, s.made, want)
		}
	}
}

// interruptions are all of them.
func interruptions(t *testing.T) map[string]interruption {
	t.Helper()
	growing(t)
	derived(t, takesOverFrom100, "1.0.0", func(parts map[string]map[string]string) {
		parts["components"]["components.yaml"] += "# Another remark.\n"
	})
	all := ofSpec()
	maps.Copy(all, ofRest())
	return all
}

// Whatever an Operation does, an engine that dies at a write of it leaves it to the next one, which goes on and does
// nothing twice.
func TestOperationsSurviveKills(t *testing.T) {
	prepared(t)
	all := interruptions(t)
	names := slices.Sorted(maps.Keys(all))
	apps, stories := map[string]*platformv1.Application{}, map[string]*chronicle{}
	_, _, stop := run(t, -1)
	for _, name := range names {
		apps[name], stories[name] = all[name].prepares(t)
	}
	loaded(t, takesOverFrom100)
	stop()
	end := relay(t, func(int) int { return lifetime })
	defer end() // A test that fails ends here, and the engines with it.
	for _, name := range names {
		t.Run(name, func(t *testing.T) { all[name].goesOn(t, apps[name], stories[name]) })
	}
	writes := end()
	t.Logf("the Operations take %d writes", writes)
	if writes < 60 {
		t.Errorf("only %d writes were counted", writes)
	}
	if os.Getenv(faultPoints) != "all" {
		return
	}
	for _, name := range names {
		t.Run(name+" at each write", func(t *testing.T) { all[name].eachWrite(t) })
	}
}

// eachWrite runs the Operation once more for each of the writes that it takes, with one engine killed after it.
func (i interruption) eachWrite(t *testing.T) {
	t.Helper()
	once := func(t *testing.T, survives kills) int {
		t.Helper()
		_, _, stop := run(t, -1)
		app, told := i.prepares(t)
		stop()
		end := relay(t, survives)
		defer end()
		i.goesOn(t, app, told)
		return end()
	}
	for n := range once(t, func(int) int { return -1 }) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			once(t, func(before int) int {
				if before == 0 {
					return n
				}
				return -1
			})
		})
	}
}

// The same of a Failover that is asked for. Nobody answers here who could take over, which the set would soon say: it
// is named while no engine runs, so that each survives one write.
func TestAFailoverThatIsAskedForSurvivesKills(t *testing.T) {
	prepared(t)
	namespace := env.Namespace(t)
	nodeAt(t, namespace, testagents.Address())
	_, _, stop := run(t, -1)
	app, _ := crewIn(t, namespace)
	stop()
	op := operate(t, app, "once", "Failover", nil)
	asked, named := op.DeepCopy(), false
	end := relay(t, func(int) int {
		set := setOf(app)
		refresh(t, set)
		if request := platformv1.ParseHandoverRequest(set.Annotations[platformv1.SwitchPrimaryAnnotation]); !named &&
			request.From == memberAt(set, 0).Name {
			named = true
			succeeds(t, set, asked, platformv1.PrimaryFailed)
			reportWriting(t, set, 1, 2)
		}
		return 1
	})
	defer end()
	status := ends(t, op, platformv1.OperationSucceeded)
	if step := status.Steps[len(status.Steps)-1]; step.Attempts != 1 ||
		step.Outputs["to"] != platformv1.PodNameFor(setOf(app).Name, 1) {
		t.Errorf("the step is %+v", step)
	}
	handedOver(t, app)
	if writes := end(); !named || writes < 4 {
		t.Errorf("there were %d writes", writes)
	}
}
