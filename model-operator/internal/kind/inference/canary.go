// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Sets of pods of the component.
const (
	// stableSet has the name that the only set of a component has: pods keep theirs when there is a canary.
	stableSet = platformv1.DefaultSet
	canarySet = aiv1.CanarySet
)

// Annotations of the Application, by which the report of its canary is understood.
const (
	canaryModelAnnotation   = "ai.zeroinfra.github.com/canary-model"
	canaryVersionAnnotation = "ai.zeroinfra.github.com/canary-version"
)

// maxDeviation is by how many points the share of pods may miss the weight, where pods are what splits requests.
const maxDeviation = 3

// fullWeight is all requests.
const fullWeight = 100

// modelParameters are those that say which file is served, with what each is without a value. A canary that has no
// value for one does not have that of the others.
var modelParameters = platformv1.Parameters{
	"model.sha256": "", "model.size": "0", "model.file": "", "model.url": "", "model.endpoint": "",
	"model.region": "us-east-1", "model.bucket": "", "model.key": "", "model.image": "", "model.path": "",
}

// canaryReference is the Model that the canary serves a version of.
func canaryReference(i *aiv1.Inference) typed.Reference {
	return typed.Reference{GVK: model, Name: i.Spec.Canary.ModelRef.Name, Field: "spec.canary.modelRef"}
}

// split gives the canary pods of its own. It returns the set that they are; nil for none.
func split(i *aiv1.Inference, main *platformv1.ApplicationComponent) (*platformv1.ComponentSet, error) {
	main.Sets = []platformv1.ComponentSet{{Name: stableSet}}
	if main.Autoscaling != nil {
		main.Sets[0].MinReplicas = least(main.Autoscaling, i.RecordedCanary().MainPods)
	}
	if i.Spec.Canary == nil {
		return nil, nil
	}
	byPods := i.Spec.HTTPRoute == nil
	if main.Autoscaling != nil && byPods {
		return nil, fmt.Errorf("spec.canary without httpRoute has the number of pods split requests, which autoscaling " +
			"would change: " +
			"set httpRoute, or take minReplicas and maxReplicas out")
	}
	count, err := canaryPods(i)
	if err != nil || count == 0 {
		return nil, err
	}
	canary := platformv1.ComponentSet{Name: canarySet}
	if main.Autoscaling == nil {
		canary.Replicas = &count
	} else {
		canary.MinReplicas = least(main.Autoscaling, i.CanaryProgress().Pods)
	}
	if byPods {
		main.Sets[0].Replicas = new(podsOf(&i.Spec) - count)
	}
	main.Sets = append(main.Sets, canary)
	return &main.Sets[1], nil
}

// least is how many pods an autoscaler has to leave where so many are asked for; nil where it leaves them anyhow.
func least(scaled *platformv1.Autoscaling, pods int32) *int32 {
	if pods = min(pods, scaled.MaxReplicas); pods <= scaled.MinReplicas {
		return nil
	}
	return &pods
}

// refusedCanary says why there is no canary, where its gate is refused: all else of the spec has its effect.
func refusedCanary(i *aiv1.Inference) error {
	if p := i.CanaryProgress(); p.Phase == aiv1.CanaryRefused {
		return typed.Refuse(platformv1.ReasonInvalidSpec, p.Message)
	}
	return nil
}

// podsOf are the replicas that the spec asks for.
func podsOf(spec *aiv1.InferenceSpec) int32 {
	if spec.Replicas == nil {
		return 1
	}
	return *spec.Replicas
}

// canaryPods is how many pods the canary has now. A weight of the spec that the replicas cannot have is refused,
// whether its step is taken or not.
func canaryPods(i *aiv1.Inference) (int32, error) {
	spec, weight := &i.Spec, i.CanaryWeight()
	if spec.HTTPRoute != nil {
		if i.CanaryProgress().Phase.Out() {
			return 0, nil
		}
		// As many as take that part of the requests as well as the others take theirs: one at least.
		return max((podsOf(spec)*weight+fullWeight-1)/fullWeight, 1), nil
	}
	for n, step := range spec.Canary.Steps {
		if _, err := share(podsOf(spec), step.Weight, fmt.Sprintf("spec.canary.steps[%d].weight", n)); err != nil {
			return 0, err
		}
	}
	return share(podsOf(spec), weight, "spec.canary.weight")
}

// share is how many of the pods have a part of the requests, where pods split requests: a Service leads to each as
// often.
func share(pods, weight int32, field string) (int32, error) {
	if weight == 0 {
		return 0, nil
	}
	count := (pods*weight + fullWeight/2) / fullWeight
	if off := count*fullWeight - weight*pods; count >= 1 && count < pods && max(off, -off) <= maxDeviation*pods {
		return count, nil
	}
	where := fmt.Sprintf("%s is %d, and without httpRoute the number of pods splits requests", field, weight)
	if pods < 2 {
		return 0, fmt.Errorf("%s, of which there is one: set replicas to 2 at least, or set httpRoute", where)
	}
	near := min(max(count, 1), pods-1)
	return 0, fmt.Errorf("%s: %d of %d pods would have %d %%; set that weight, other replicas, or httpRoute",
		where, near, pods, (near*fullWeight+pods/2)/pods)
}

// serveCanary has the set of the canary serve a version. What pods have in common cannot differ.
func serveCanary(app *platformv1.Application, set *platformv1.ComponentSet, m *aiv1.Model,
	version *aiv1.ModelVersion, files files) error {
	own := filesOf(&version.Source)
	for _, claim := range own.claims {
		if !slices.Contains(files.claims, claim) {
			return fmt.Errorf("spec.canary.modelRef names a version on the claim %q, which the other pods do not have: all "+
				"pods mount the same claims, name a version on one of theirs, or one that is downloaded", claim)
		}
	}
	for _, login := range own.logins(&files) {
		if login.own != nil && *login.own != nameOf(login.other) {
			return fmt.Errorf("spec.canary.modelRef names a version from a %s with %s %q, and that of the other pods is %q: "+
				"all pods have the same, give both versions the same", login.where, login.field, *login.own, nameOf(login.other))
		}
	}
	parameters := maps.Clone(modelParameters)
	serve(parameters, m, version)
	set.Parameters = parameters
	app.Annotations[canaryModelAnnotation], app.Annotations[canaryVersionAnnotation] = m.Name, string(version.Name)
	return nil
}

// serviceName is that of the Service that leads to the pods of a set alone.
func serviceName(i *aiv1.Inference, of string) string {
	return platformv1.ApplicationNameFor(Kind{}.Name(), i.Name) + "-" + of
}

// service leads to the pods of a set alone.
func service(i *aiv1.Inference, of, set string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i, of)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP,
			Selector: map[string]string{
				platformv1.ApplicationLabel: platformv1.ApplicationNameFor(Kind{}.Name(), i.Name),
				platformv1.ComponentLabel:   instance.Component, platformv1.SetLabel: set,
			},
			Ports: []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP,
				TargetPort: intstr.FromString("http")}},
		},
	}
}

// routedWeight is what an HTTPRoute gives the canary: nothing until a pod of it is ready, since a Gateway answers for a
// Service without pods with an error, and the weight of the step before until all are.
func routedWeight(i *aiv1.Inference) int64 {
	now, weight := i.Status.Canary, i.CanaryWeight()
	if now == nil || now.ReadyReplicas == 0 {
		return 0
	}
	steps, step := i.Spec.Canary.Steps, i.CanaryProgress().Step
	if len(steps) > 0 && now.ReadyReplicas < awaitedPods(i) {
		if step == 0 {
			return 0
		}
		return int64(min(steps[step-1].Weight, weight))
	}
	return int64(weight)
}

// awaitedPods is how many pods of a canary have to be ready for the weight of its step; 0 for any. Once the weight is
// in force an autoscaler decides how many there are.
func awaitedPods(i *aiv1.Inference) int32 {
	if i.Spec.MaxReplicas == 0 {
		count, err := canaryPods(i)
		if err != nil {
			return 0
		}
		return count
	}
	if p := i.CanaryProgress(); p.Phase == aiv1.CanaryStarting {
		return min(p.Pods, i.Spec.MaxReplicas)
	}
	return 0
}

// reportCanary says how the canary is.
func reportCanary(i *aiv1.Inference, app *platformv1.Application) {
	before := cmp.Or(i.Status.Canary, &aiv1.InferenceCanaryStatus{})
	i.Status.Canary = nil
	if i.Spec.Canary == nil || len(app.Spec.Components) == 0 {
		return
	}
	now := &aiv1.InferenceCanaryStatus{Mechanism: aiv1.CanaryByReplicas}
	if p := i.CanaryProgress(); p.Phase != "" {
		now.Phase, now.Step, now.Since, now.Message = p.Phase, p.Step+1, &p.Since, p.Message
	}
	ready := int32(0)
	for _, set := range typed.SetsOf(app) {
		ready += set.ReadyReplicas
		if set.Name == canarySet {
			now.Replicas, now.ReadyReplicas = set.Replicas, set.ReadyReplicas
		}
	}
	if i.Spec.HTTPRoute != nil {
		now.Mechanism, now.Weight = aiv1.CanaryByHTTPRoute, before.Weight
		if before.Mechanism == aiv1.CanaryByHTTPRoute {
			// ReportObjects has just read the route.
			now.Message = before.Message
		}
	} else if ready > 0 {
		now.Weight = (now.ReadyReplicas*fullWeight + ready/2) / ready
	}
	for _, set := range app.Spec.Components[0].Sets {
		if digest := set.Parameters[digestParameter]; set.Name == canarySet && digest != "" {
			now.Model = &aiv1.InferenceModelStatus{Name: app.Annotations[canaryModelAnnotation],
				Version: aiv1.ModelVersionName(app.Annotations[canaryVersionAnnotation]), Digest: "sha256:" + string(digest)}
		}
	}
	i.Status.Canary = now
}
