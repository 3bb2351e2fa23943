// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// application is one Application of a test, made without a typed kind.
type application struct {
	*space
	name string
}

// apply creates an Application and does not wait for it.
func (s *space) apply(name string, spec platformv1.ApplicationSpec) *application {
	s.Helper()
	s.create(&platformv1.Application{ObjectMeta: named(name), Spec: spec})
	return &application{space: s, name: name}
}

// object returns the Application as it is.
func (a *application) object() *platformv1.Application {
	a.Helper()
	app := &platformv1.Application{}
	a.mustGet(a.name, app)
	return app
}

// ready waits until the Application is ready at its present generation. It returns how long that took.
func (a *application) ready() time.Duration {
	a.Helper()
	return a.eventually(readyIn, fmt.Sprintf("Application %q becomes ready", a.name), func() error {
		app := &platformv1.Application{}
		if err := a.get(a.name, app); err != nil {
			return err
		}
		return readyNow(app, app.Status.ObservedGeneration)
	})
}

// tryUpdate changes the spec as "kubectl patch" does.
func (a *application) tryUpdate(change func(*platformv1.ApplicationSpec), options ...client.PatchOption) error {
	app := &platformv1.Application{}
	if err := a.get(a.name, app); err != nil {
		return err
	}
	before := app.DeepCopy()
	change(&app.Spec)
	return world.client.Patch(a.ctx, app, client.MergeFrom(before), options...)
}

// update is tryUpdate for what has to be accepted.
func (a *application) update(change func(*platformv1.ApplicationSpec)) {
	a.Helper()
	if err := a.tryUpdate(change); err != nil {
		a.Fatalf("cannot change Application %q: %v", a.name, err)
	}
}

// component changes the settings of one component, which the spec gets an entry for when it has none.
func component(name string, change func(*platformv1.ApplicationComponent)) func(*platformv1.ApplicationSpec) {
	return func(spec *platformv1.ApplicationSpec) {
		i := slices.IndexFunc(spec.Components, func(c platformv1.ApplicationComponent) bool { return c.Name == name })
		if i < 0 {
			spec.Components = append(spec.Components, platformv1.ApplicationComponent{Name: name})
			i = len(spec.Components) - 1
		}
		change(&spec.Components[i])
	}
}

// replicas asks for that many pods in each set of a component.
func replicas(name string, number int32) func(*platformv1.ApplicationSpec) {
	return component(name, func(c *platformv1.ApplicationComponent) { c.Replicas = &number })
}

// runs says of each pod which one it is, and how often its containers and its process were started.
func (a *application) runs() map[string]string {
	a.Helper()
	all := map[string]string{}
	for _, pod := range a.pods() {
		told, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
		if err != nil {
			a.Fatal(err)
		}
		all[pod.Name] = fmt.Sprintf("%s, containers %v, process started %d times", pod.UID, restarts(&pod), told.Starts)
	}
	return all
}

// pods returns the pods of the Application that are not on their way out, in order of name.
func (a *application) pods() []corev1.Pod {
	a.Helper()
	var list corev1.PodList
	if err := world.client.List(a.ctx, &list, client.InNamespace(a.space.name), client.MatchingLabels{platformv1.ApplicationLabel: a.name}); err != nil {
		a.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(x, y corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	return pods
}

// uids are the UIDs of the pods by name.
func (a *application) uids() map[string]types.UID {
	a.Helper()
	uids := map[string]types.UID{}
	for _, pod := range a.pods() {
		uids[pod.Name] = pod.UID
	}
	return uids
}

// havePods waits until just the pods of these names are there and the Application is ready.
func (a *application) havePods(names ...string) {
	a.Helper()
	a.eventually(readyIn, fmt.Sprintf("Application %q has pods %v", a.name, names), func() error {
		var have []string
		for _, pod := range a.pods() {
			have = append(have, pod.Name)
		}
		if !slices.Equal(have, names) {
			return fmt.Errorf("it has %v", have)
		}
		return nil
	})
	a.ready()
}

// claims returns the claims that are labelled with the Application, by name.
func (a *application) claims() map[string]corev1.PersistentVolumeClaim {
	a.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := world.client.List(a.ctx, &list, client.InNamespace(a.space.name), client.MatchingLabels{platformv1.ApplicationLabel: a.name}); err != nil {
		a.Fatal(err)
	}
	claims := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		claims[claim.Name] = claim
	}
	return claims
}
