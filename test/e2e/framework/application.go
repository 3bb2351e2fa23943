// SPDX-License-Identifier: Apache-2.0

package framework

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

// Application is one Application of a test, made without a typed kind.
type Application struct {
	*Namespace
	Name string
}

// CreateApplication creates an Application and does not wait for it.
func (s *Namespace) CreateApplication(name string, spec platformv1.ApplicationSpec) *Application {
	s.Helper()
	s.Create(&platformv1.Application{ObjectMeta: ObjectMeta(name), Spec: spec})
	return &Application{Namespace: s, Name: name}
}

// Object returns the Application as it is.
func (a *Application) Object() *platformv1.Application {
	a.Helper()
	app := &platformv1.Application{}
	a.MustGet(a.Name, app)
	return app
}

// WaitReady waits until the Application is ready at its present generation. It returns how long that took.
func (a *Application) WaitReady() time.Duration {
	a.Helper()
	return a.Eventually(ReadyTimeout, fmt.Sprintf("Application %q becomes ready", a.Name), func() error {
		app := &platformv1.Application{}
		if err := a.Get(a.Name, app); err != nil {
			return err
		}
		return ReadyNow(app, app.Status.ObservedGeneration)
	})
}

// TryUpdate changes the spec as "kubectl patch" does.
func (a *Application) TryUpdate(change func(*platformv1.ApplicationSpec), options ...client.PatchOption) error {
	app := &platformv1.Application{}
	if err := a.Get(a.Name, app); err != nil {
		return err
	}
	before := app.DeepCopy()
	change(&app.Spec)
	return Cluster.Client.Patch(a.Ctx, app, client.MergeFrom(before), options...)
}

// Update is TryUpdate for what has to be accepted.
func (a *Application) Update(change func(*platformv1.ApplicationSpec)) {
	a.Helper()
	if err := a.TryUpdate(change); err != nil {
		a.Fatalf("cannot change Application %q: %v", a.Name, err)
	}
}

// WithComponent changes the settings of one component, which the spec gets an entry for when it has none.
func WithComponent(name string, change func(*platformv1.ApplicationComponent)) func(*platformv1.ApplicationSpec) {
	return func(spec *platformv1.ApplicationSpec) {
		i := slices.IndexFunc(spec.Components, func(c platformv1.ApplicationComponent) bool { return c.Name == name })
		if i < 0 {
			spec.Components = append(spec.Components, platformv1.ApplicationComponent{Name: name})
			i = len(spec.Components) - 1
		}
		change(&spec.Components[i])
	}
}

// WithComponentReplicas asks for that many pods in each set of a component.
func WithComponentReplicas(name string, number int32) func(*platformv1.ApplicationSpec) {
	return WithComponent(name, func(c *platformv1.ApplicationComponent) { c.Replicas = &number })
}

// ProcessStarts says of each pod which one it is, and how often its containers and its process were started.
func (a *Application) ProcessStarts() map[string]string {
	a.Helper()
	all := map[string]string{}
	for _, pod := range a.Pods() {
		told, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
		if err != nil {
			a.Fatal(err)
		}
		all[pod.Name] = fmt.Sprintf("%s, containers %v, process started %d times", pod.UID, Restarts(&pod), told.Starts)
	}
	return all
}

// Pods returns the pods of the Application that are not on their way out, in order of name. Those of Jobs, which are of
// no component, are not among them.
func (a *Application) Pods() []corev1.Pod {
	a.Helper()
	var list corev1.PodList
	if err := Cluster.Client.List(a.Ctx, &list, client.InNamespace(a.Namespace.Name),
		client.MatchingLabels{platformv1.ApplicationLabel: a.Name},
		client.HasLabels{platformv1.ComponentLabel}); err != nil {
		a.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(x, y corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	return pods
}

// UIDs are the UIDs of the pods by name.
func (a *Application) UIDs() map[string]types.UID {
	a.Helper()
	uids := map[string]types.UID{}
	for _, pod := range a.Pods() {
		uids[pod.Name] = pod.UID
	}
	return uids
}

// WaitForPods waits until just the pods of these names are there and the Application is ready.
func (a *Application) WaitForPods(names ...string) {
	a.Helper()
	a.Eventually(ReadyTimeout, fmt.Sprintf("Application %q has pods %v", a.Name, names), func() error {
		var have []string
		for _, pod := range a.Pods() {
			have = append(have, pod.Name)
		}
		if !slices.Equal(have, names) {
			return fmt.Errorf("it has %v", have)
		}
		return nil
	})
	a.WaitReady()
}

// Claims returns the claims that are labelled with the Application, by name.
func (a *Application) Claims() map[string]corev1.PersistentVolumeClaim {
	a.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := Cluster.Client.List(a.Ctx, &list, client.InNamespace(a.Namespace.Name),
		client.MatchingLabels{platformv1.ApplicationLabel: a.Name}); err != nil {
		a.Fatal(err)
	}
	claims := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		claims[claim.Name] = claim
	}
	return claims
}

// Password is that of a credential, which the Application names a Secret for or the engine has made.
func (a *Application) Password(credential string) string {
	a.Helper()
	from := platformv1.SecretKeyReference{Name: platformv1.CredentialNameFor(a.Name, credential), Key: "password"}
	for _, own := range a.Object().Spec.Credentials {
		if own.Name == credential {
			from = own.PasswordFrom
		}
	}
	return a.BindingData(from.Name)[from.Key]
}
