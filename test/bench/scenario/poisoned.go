// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/test/bench/fleet"
	"github.com/zeroinfra/test/bench/result"
)

const (
	// mostHealthy is how many Applications are made beside those that cannot be made.
	mostHealthy = 200
	// brokenVersion of the bench's plugin is refused when it is loaded.
	brokenVersion = "6.6.6"
	// Namespaces of those that cannot be made.
	brokenNamespace, hangingNamespace, neverNamespace = "poisoned-broken", "poisoned-hanging", "poisoned-never"
)

// poisoned makes Applications, the same beside three that hold on to what they can of the operator, and the same
// without them again, so that what the machine does meanwhile shows in the figures that are compared with.
func (b *bench) poisoned(ctx context.Context, run *result.Run) error {
	before, err := b.round(ctx, "before")
	if err != nil {
		return err
	}
	remedy, err := b.poison(ctx)
	if err != nil {
		return fmt.Errorf("cannot make Applications that cannot be made: %w", err)
	}
	beside, err := b.round(ctx, "beside")
	if err != nil {
		return err
	}
	if err := b.stillPoisoned(ctx); err != nil {
		return err
	}
	if err := remedy(); err != nil {
		return err
	}
	after, err := b.round(ctx, "after")
	if err != nil {
		return err
	}
	run.Poisoned = result.Poisoned{
		Healthy: min(b.Applications, mostHealthy), Beside: beside.Seconds(),
		Without: []float64{before.Seconds(), after.Seconds()},
	}
	return nil
}

// round makes Applications, returns how long it took until all were ready, and removes them.
func (b *bench) round(ctx context.Context, prefix string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	f := fleet.Fleet{Size: min(b.Applications, mostHealthy), Namespaces: b.Namespaces, Prefix: prefix, Client: b.driver}
	if err := f.MakeNamespaces(ctx); err != nil {
		return 0, err
	}
	b.Say("making %d Applications (%s)", f.Size, prefix)
	mine := func(object client.Object) bool { return f.Has(object) && fleet.ApplicationReady(1)(object) }
	progress, err := f.Await(ctx, applications(), mine, f.MakeApplications, b.alive)
	if err != nil {
		return 0, err
	}
	b.Say("all Ready after %.1f s; removing them", progress.Total().Seconds())
	return progress.Total(), f.RemoveApplications(ctx)
}

// poison makes one Application whose plugin is broken, one whose pods an admission is asked about that never answers,
// and one whose pods no node takes, and waits until the operator has its trouble with each. remedy removes them.
func (b *bench) poison(ctx context.Context) (remedy func() error, err error) {
	admission, err := testkit.HangAdmission(ctx, b.driver, hangingNamespace)
	if err != nil {
		return nil, err
	}
	packed, err := b.zictl(ctx, "plugin", "package", b.Plugin, "--namespace", system)
	if err != nil {
		return nil, err
	}
	packed = bytes.ReplaceAll(packed, []byte(fleet.PluginVersion), []byte(brokenVersion))
	packed = bytes.ReplaceAll(packed, []byte("podTemplate: "), []byte("podTemplate: no-"))
	if err := createAll(ctx, b.driver, packed); err != nil {
		return nil, err
	}
	apps := poisonedApplications()
	for _, app := range apps {
		if err := b.driver.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: app.Namespace}}); err != nil {
			return nil, err
		}
		if err := b.driver.Create(ctx, app); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		broken := &platformv1.Application{}
		if err := b.driver.Get(ctx, client.ObjectKeyFromObject(apps[0]), broken); err != nil {
			return false, err
		}
		var never corev1.PodList
		if err := b.driver.List(ctx, &never, client.InNamespace(neverNamespace)); err != nil {
			return false, err
		}
		return meta.IsStatusConditionTrue(broken.Status.Conditions, platformv1.StalledCondition) &&
			len(never.Items) == fleet.Replicas && len(admission.Begun()) > 0, b.alive()
	})
	if err != nil {
		return nil, fmt.Errorf("the operator has no trouble with them: %w", err)
	}
	return func() error {
		for _, app := range apps {
			if err := b.driver.Delete(context.Background(), app); err != nil {
				return fmt.Errorf("cannot delete what cannot be made: %w", err)
			}
		}
		return admission.End()
	}, nil
}

// stillPoisoned says whether what cannot be made was not made all the same.
func (b *bench) stillPoisoned(ctx context.Context) error {
	for _, app := range poisonedApplications() {
		if err := b.driver.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		if meta.IsStatusConditionTrue(app.Status.Conditions, platformv1.ReadyCondition) {
			return fmt.Errorf("the Application in %s is Ready: it was no burden", app.Namespace)
		}
	}
	return nil
}

func poisonedApplications() []*platformv1.Application {
	broken := fleet.Application(types.NamespacedName{Namespace: brokenNamespace, Name: "broken"})
	broken.Spec.PluginVersion = brokenVersion
	hanging := fleet.Application(types.NamespacedName{Namespace: hangingNamespace, Name: "hanging"})
	never := fleet.Application(types.NamespacedName{Namespace: neverNamespace, Name: "never"})
	never.Spec.Components[0].Scheduling = &platformv1.Scheduling{
		NodeSelector: map[string]string{"example.com/node": "none"}}
	return []*platformv1.Application{broken, hanging, never}
}
