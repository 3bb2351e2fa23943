// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// author is who these tests are for the API server.
const author = "admin"

// operate creates an Operation on an Application.
func operate(t *testing.T, app *platformv1.Application, name, template string, change func(*platformv1.OperationSpec),
	parameters ...string) *platformv1.Operation {
	t.Helper()
	op := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: name},
		Spec: platformv1.OperationSpec{TemplateRef: template, Parameters: platformv1.Parameters{},
			TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
				Name: app.Name}},
	}
	for i := 0; i < len(parameters); i += 2 {
		op.Spec.Parameters[parameters[i]] = platformv1.ParameterValue(parameters[i+1])
	}
	if change != nil {
		change(&op.Spec)
	}
	create(t, op)
	return op
}

// ends waits until an Operation is in a phase, and returns what it says.
func ends(t *testing.T, op *platformv1.Operation, phase platformv1.OperationPhase) platformv1.OperationStatus {
	t.Helper()
	testkit.WaitFor(t, env.Client, op, string(phase), func() error {
		if op.Status.Phase != phase {
			return fmt.Errorf("it is %s at %s: %s, %+v", op.Status.Phase, op.Status.Progress, op.Status.Error, op.Status.Steps)
		}
		return nil
	})
	if err := testkit.StatusLint(op); err != nil {
		t.Error(err)
	}
	return op.Status
}

// runsOut waits until a step of an Operation waits for this, and then ends the time that the Operation has. Whether
// it gets there does not depend on how fast the machine is.
func runsOut(t *testing.T, op *platformv1.Operation, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, op, "waits for "+text, func() error {
		if !slices.ContainsFunc(op.Status.Steps,
			func(s platformv1.StepStatus) bool { return strings.Contains(s.Message, text) }) {
			return fmt.Errorf("it is %s at %s: %s, %+v", op.Status.Phase, op.Status.Progress, op.Status.Error, op.Status.Steps)
		}
		return nil
	})
	began := op.Status.StartTime.Add(-opsflow.TimeoutOf(op)).UTC().Format(time.RFC3339)
	earlier := client.RawPatch(types.MergePatchType, []byte(`{"status":{"startTime":"`+began+`"}}`))
	if err := env.Client.Status().Patch(t.Context(), op, earlier); err != nil {
		t.Fatal(err)
	}
}

func refresh(t *testing.T, obj client.Object) {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
}

// served is an Application that is Ready, under an engine that runs until the test ends.
func served(t *testing.T, changes ...func(*platformv1.ApplicationSpec)) *platformv1.Application {
	t.Helper()
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := application(namespace)
	for _, change := range changes {
		change(&app.Spec)
	}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	return app
}

// servedSample is an object of a kind of the examples that is Ready, and the Application that it compiles to, under an
// engine that knows the kind and runs until the test ends.
func servedSample(t *testing.T, kind typed.Registration, version string) (*example.Sample, *platformv1.Application) {
	t.Helper()
	namespace := env.Namespace(t)
	runTyped(t, kind)
	node(t, namespace)
	sample := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"},
		Spec: example.SampleSpec{Version: version, Replicas: 1}}
	create(t, sample)
	testkit.WaitForReady(t, env.Client, sample)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-a"}}
	refresh(t, app)
	return sample, app
}

// ownMemory has Redis use what is said here, whatever its container may: of another limit nobody has to tell a process
// then.
func ownMemory(s *platformv1.ApplicationSpec) {
	s.Components = []platformv1.ApplicationComponent{
		{Name: "redis", Parameters: platformv1.Parameters{"maxmemory": "64mb"}}}
}

// crashing has an engine die again and again while an Operation runs: each time after another number of API writes.
type crashing struct {
	// times is before which engine the Operation has to succeed; writes is more than any of them makes.
	times, writes int
	// while is called as long as an engine runs, after once it has died; nil for nothing.
	while, after func()
}

// until runs engines until the Operation has succeeded or there were as many of them. One that fails ends the test.
func (c crashing) until(t *testing.T, op *platformv1.Operation) {
	t.Helper()
	for n := 1; n < c.times && op.Status.Phase != platformv1.OperationSucceeded; n++ {
		_, done, stop := run(t, n%c.writes)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for ctx.Err() == nil && op.Status.Phase != platformv1.OperationSucceeded {
			select {
			case <-done:
				cancel()
			case <-time.After(50 * time.Millisecond):
				refresh(t, op)
				if c.while != nil {
					c.while()
				}
			case <-ctx.Done():
			}
		}
		cancel()
		stop()
		if c.after != nil {
			c.after()
		}
		if op.Status.Phase == platformv1.OperationFailed {
			t.Fatal(op.Status.Error)
		}
	}
}

// What the engine's own templates change is in the spec of the Application, and done when it is Ready with that.
func TestOperationsChangeAnApplication(t *testing.T) {
	app := served(t, ownMemory)
	namespace := app.Namespace

	stop := ends(t, operate(t, app, "stop", "Stop", nil), platformv1.OperationSucceeded)
	if pods := podNames(t, namespace); len(pods) != 0 {
		t.Errorf("there are pods: %v", pods)
	}
	if got := stop.Steps[0].Outputs["changed"]; got != "spec.running: true → false" {
		t.Errorf("it says that it changed %q", got)
	}
	ends(t, operate(t, app, "start", "Start", nil), platformv1.OperationSucceeded)

	ends(t, operate(t, app, "resize", "VerticalScaleResource", nil, "memory", "768Mi", "cpuRequest", "200m"),
		platformv1.OperationSucceeded)
	refresh(t, app)
	limit, request := app.Spec.Components[0].Resources.Limits["memory"], app.Spec.Components[0].Resources.Requests["cpu"]
	if !limit.Equal(resource.MustParse("768Mi")) || !request.Equal(resource.MustParse("200m")) {
		t.Errorf("resources are %+v", app.Spec.Components[0].Resources)
	}
	again := ends(t, operate(t, app, "resize-again", "VerticalScaleResource", nil, "memory", "768Mi"),
		platformv1.OperationSucceeded)
	if got := again.Steps[0].Outputs["changed"]; got != "" {
		t.Errorf("it says that it changed %q", got)
	}
}

// What cannot be had is refused before anything is touched.
func TestOperationsRefuseWhatCannotBe(t *testing.T) {
	app := served(t)
	generation := app.Generation
	for name, tc := range map[string]struct {
		template   string
		parameters []string
		says       string
	}{
		"too-many": {"HorizontalScale", []string{"replicas", "3"}, "3"},
		"no-number": {"HorizontalScale", []string{"replicas", "many"},
			`parameter "replicas" of template "HorizontalScale" is "many"`},
		"no-component": {"HorizontalScale", []string{"replicas", "1", "component", "sentinel"},
			`has no component "sentinel"; it has: "redis"`},
		"missing": {"HorizontalScale", nil,
			"no number is given: set replicas for another number of pods, or sets for another number of sets"},
		"no-version":  {"UpgradePaaS", []string{"version", "9.9"}, "9.9"},
		"downgrade":   {"UpgradePaaS", []string{"version", "6.2"}, "6.2 is older: a downgrade is not possible"},
		"shrink":      {"VerticalScaleVolume", []string{"size", "1Mi"}, "1Mi"},
		"nothing":     {"VerticalScaleResource", nil, "no resource is given"},
		"no-quantity": {"VerticalScaleResource", []string{"memory", "1.2.3"}, "1.2.3"},
		"switchover":  {"Switchover", nil, `plugin "redis" declares no switchover`},
		"account":     {"Stop", nil, "serviceAccountName is for those only"},
	} {
		t.Run(name, func(t *testing.T) {
			op := operate(t, app, name, tc.template, func(s *platformv1.OperationSpec) {
				if name == "account" {
					s.ServiceAccountName, s.Author = "default", author
				}
			}, tc.parameters...)
			if status := ends(t, op, platformv1.OperationFailed); !strings.Contains(status.Error, tc.says) {
				t.Errorf("it says %q; want %q", status.Error, tc.says)
			}
		})
	}
	refresh(t, app)
	if app.Generation != generation {
		t.Errorf("the Application was changed: generation %d, before %d", app.Generation, generation)
	}
}

// A dry run says what would be done, and touches nothing.
func TestDryRunsTouchNothing(t *testing.T) {
	app := served(t)
	namespace := app.Namespace
	generation, pod := app.Generation, onlyPod(t, namespace)
	dry := func(s *platformv1.OperationSpec) { s.DryRun = true }
	for name, tc := range map[string]struct {
		template   string
		parameters []string
		want       string
	}{
		"stop":    {"Stop", nil, "stop: sets running to false"},
		"restart": {"Restart", nil, "restart: calls Restart in redis-a-redis-main-0"},
		"resize": {"VerticalScaleResource", []string{"memory", "768Mi"},
			"resize: sets components[redis].resources.limits.memory to 768Mi"},
		"upgrade": {"UpgradePaaS", []string{"version", "8.0"},
			"upgrade: Restart Pod redis-a-redis-main-0: its image changed"},
	} {
		status := ends(t, operate(t, app, name, tc.template, dry, tc.parameters...), platformv1.OperationSucceeded)
		if !slices.Contains(status.Plan, tc.want) {
			t.Errorf("%s: the plan is %q; want %q in it", name, status.Plan, tc.want)
		}
	}
	failed := ends(t, operate(t, app, "bad", "UpgradePaaS", dry, "version", "9.9"), platformv1.OperationFailed)
	if !strings.Contains(failed.Error, "9.9") {
		t.Errorf("it says %q", failed.Error)
	}
	refresh(t, app)
	if now := onlyPod(t, namespace); app.Generation != generation || now.UID != pod.UID ||
		now.ResourceVersion != pod.ResourceVersion {
		t.Errorf("something was touched: generation %d, pod %s", app.Generation, now.ResourceVersion)
	}
}

// tiers makes an Application of several components, ready.
func tiers(t *testing.T, namespace string) *platformv1.Application {
	t.Helper()
	app := testkit.BuildApplication(namespace, "shop-a").Domain("database").Plugin("shop", "1.0.0").Version("1.0").
		Topology("tiers").Build()
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	return app
}

func grant(t *testing.T, namespace, account string, verbs ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	create(t, &corev1.ServiceAccount{ObjectMeta: meta})
	create(t, &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}}})
	create(t, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}})
}

// A template of a plugin writes objects as the account that is named, waits for an approval, and runs another template.
func TestOperationsOfSeveralSteps(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	grant(t, namespace, "able", "get", "create", "patch")
	grant(t, namespace, "unable", "get")
	by := func(account string) func(*platformv1.OperationSpec) {
		return func(s *platformv1.OperationSpec) {
			s.ServiceAccountName, s.Author, s.Timeout = account, author, &metav1.Duration{Duration: 10 * time.Minute}
		}
	}
	denied := ends(t, operate(t, app, "denied", "Open", by("unable"), "replicas", "2"), platformv1.OperationFailed)
	if !strings.Contains(denied.Error, "system:serviceaccount:"+namespace+":unable") {
		t.Errorf("it says %q", denied.Error)
	}
	op := operate(t, app, "open", "Open", by("able"), "replicas", "2")
	ends(t, op, platformv1.OperationAwaitingApproval)
	if op.Status.CurrentStep != 2 || !strings.Contains(op.Status.Steps[2].Message, "from 5 pods to 2 of web") {
		t.Errorf("it is at step %d: %+v", op.Status.CurrentStep, op.Status.Steps)
	}
	changed := op.DeepCopy()
	if err := testkit.Edit(t.Context(), env.Client, changed,
		func() { changed.Spec.Parameters["replicas"] = "4" }); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "immutable but for cancel and approval") {
		t.Errorf("the spec can be changed: %v", err)
	}
	// A client spells the timeout in another way: that is no change.
	whole := op.DeepCopy()
	if err := env.Client.Patch(t.Context(), whole,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeout":"600s"}}`))); err != nil {
		t.Errorf("an update that changes no duration is refused: %v", err)
	}
	later := whole.DeepCopy()
	if err := testkit.Edit(t.Context(), env.Client, later,
		func() { later.Spec.Timeout = &metav1.Duration{Duration: time.Hour} }); !apierrors.IsInvalid(err) {
		t.Errorf("the timeout can be changed: %v", err)
	}
	approve(t, op, "somebody")
	status := ends(t, op, platformv1.OperationSucceeded)
	child := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "open-scale"}}
	refresh(t, child)
	if child.Status.Phase != platformv1.OperationSucceeded || !metav1.IsControlledBy(child, op) ||
		status.Steps[3].Outputs["operation"] != child.Name {
		t.Errorf("the child is %+v", child.Status)
	}
	if read, scaled := status.Steps[1], child.Status.Steps[0]; read.OutputTypes["pods"] != platformv1.OutputInt ||
		scaled.OutputTypes["generation"] != platformv1.OutputInt {
		t.Errorf("outputs are of types %v and %v", read.OutputTypes, scaled.OutputTypes)
	}
	sign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sign"}}
	refresh(t, sign)
	if sign.Data["by"] != "somebody" || sign.Data["pods"] != "5" {
		t.Errorf("the sign says %v", sign.Data)
	}
	refresh(t, app)
	if got := *app.Spec.Components[0].Replicas; app.Spec.Components[0].Name != "web" || got != 2 {
		t.Errorf("components are %+v", app.Spec.Components)
	}
}

// approve has somebody else than the author approve, who may do everything.
func approve(t *testing.T, op *platformv1.Operation, by string) {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: by, Groups: []string{"system:masters"}}
	other, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"spec":{"approval":{"by":%q,"decision":"Approved"}}}`, by)
	if err := other.Patch(t.Context(), op, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		t.Fatal(err)
	}
}

// A cancelled Operation undoes what its template says, and another goes on where it stopped.
func TestCancelAndRetry(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	op := operate(t, app, "first", "Open", func(s *platformv1.OperationSpec) { s.Author = author }, "replicas", "3")
	ends(t, op, platformv1.OperationAwaitingApproval)
	waits := operate(t, app, "second", "Restart", nil)
	ends(t, waits, platformv1.OperationPending)
	cancel := []byte(`{"spec":{"cancel":true}}`)
	for _, one := range []*platformv1.Operation{waits, op} {
		if err := env.Client.Patch(t.Context(), one, client.RawPatch(types.MergePatchType, cancel)); err != nil {
			t.Fatal(err)
		}
		ends(t, one, platformv1.OperationCancelled)
	}
	back := []byte(`{"spec":{"cancel":false}}`)
	if err := env.Client.Patch(t.Context(), op.DeepCopy(),
		client.RawPatch(types.MergePatchType, back)); !apierrors.IsInvalid(err) {
		t.Errorf("the cancel can be taken back: %v", err)
	}
	sign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sign"}}
	refresh(t, sign)
	if sign.Data["pods"] != "none" {
		t.Errorf("the sign says %v", sign.Data)
	}
	refused := ends(t, operate(t, app, "again", "Open", func(s *platformv1.OperationSpec) { s.RetryOf = "first" },
		"replicas", "3"), platformv1.OperationFailed)
	if !strings.Contains(refused.Error, `whose step "take-down" undid what was done`) {
		t.Errorf("it says %q", refused.Error)
	}
	other := ends(t, operate(t, app, "other", "Open", func(s *platformv1.OperationSpec) { s.RetryOf = "first" },
		"replicas", "4"), platformv1.OperationFailed)
	if !strings.Contains(other.Error, "another template, target or parameters") {
		t.Errorf("it says %q", other.Error)
	}
}

// An engine that dies at any write of an Operation leaves it to the next one, which does nothing twice.
func TestOperationsSurviveTheEngine(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	stop()
	op := operate(t, app, "open", "Open", func(s *platformv1.OperationSpec) { s.Author = author }, "replicas", "3")
	approved := false
	for writes := 1; writes < 60; writes++ {
		_, done, stop := run(t, writes%4)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for ctx.Err() == nil {
			refresh(t, op)
			if op.Status.Phase == platformv1.OperationAwaitingApproval && !approved {
				approve(t, op, "somebody")
				approved = true
			}
			if op.Status.Phase == platformv1.OperationSucceeded {
				cancel()
			}
			select {
			case <-done:
				cancel()
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		cancel()
		stop()
		if op.Status.Phase == platformv1.OperationSucceeded || op.Status.Phase == platformv1.OperationFailed {
			break
		}
	}
	if op.Status.Phase != platformv1.OperationSucceeded {
		t.Fatalf("it is %s at %s: %s", op.Status.Phase, op.Status.Progress, op.Status.Error)
	}
	for _, step := range op.Status.Steps {
		if step.Attempts > 1 {
			t.Errorf("step %s was begun %d times", step.Name, step.Attempts)
		}
	}
	var all platformv1.OperationList
	if err := env.Client.List(t.Context(), &all, client.InNamespace(namespace)); err != nil || len(all.Items) != 2 {
		t.Errorf("there are %d Operations, want the one and its child (%v)", len(all.Items), err)
	}
}
