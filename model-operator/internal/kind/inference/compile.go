// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/signature"
)

// instance is what an Inference has of an InstanceSpec, with the plugin that is its runtime where it names none.
var instance = typed.Instance{
	Plugin: "llama-cpp", PluginVersion: "1.0.0", Component: "server",
}

// model is the kind that Inferences name.
var model = aiv1.GroupVersion.WithKind("Model")

// Annotations of the Application, by which its report is understood.
const (
	modelAnnotation   = "ai.zeroinfra.github.com/model"
	versionAnnotation = "ai.zeroinfra.github.com/model-version"
)

// digestParameter of the plugin has the digest of the file.
const digestParameter = "model.sha256"

// defaultUtilization of the CPU that pods request, in percent, where autoscaling names none.
const defaultUtilization = 80

// ReferredKinds implements typed.Referrer.
func (Kind) ReferredKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{model, dataset}
}

// References implements typed.Referrer.
func (Kind) References(i *aiv1.Inference) []typed.Reference {
	references := []typed.Reference{reference(i)}
	if i.Spec.Canary != nil {
		references = append(references, canaryReference(i))
	}
	for n := range i.Spec.Adapters {
		references = append(references, adapterReference(i, n))
	}
	for n := range i.Spec.Datasets {
		references = append(references, datasetReference(i, n))
	}
	return references
}

func reference(i *aiv1.Inference) typed.Reference {
	return typed.Reference{GVK: model, Name: i.Spec.ModelRef.Name, Field: "spec.modelRef"}
}

// Compile implements typed.Kind: without the model, which is not there to read.
func (k Kind) Compile(i *aiv1.Inference) (*typed.Output, error) { return k.CompileWith(i, nil) }

// CompileWith implements typed.Referrer.
func (Kind) CompileWith(i *aiv1.Inference, referents typed.Referents) (*typed.Output, error) {
	spec := i.Spec.DeepCopy()
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	app.Spec.Plugin, app.Spec.Topology = cmp.Or(spec.Runtime, app.Spec.Plugin), "server"
	main := &app.Spec.Components[0]
	main.Replicas, main.Autoscaling = needed(i.IdleProgress().Phase, spec)
	main.Resources = resources(spec)
	main.Parameters = platformv1.Parameters{}
	maps.Copy(main.Parameters, spec.Parameters)
	health(main.Parameters, spec.HealthCheck)
	seconds(main.Parameters, "drain.timeout", spec.DrainTimeout)
	canary, err := split(i, main)
	if err != nil {
		return nil, err
	}
	if err := models(app, i, canary, referents); err != nil {
		return nil, err
	}
	if err := mountDatasets(app, i, referents); err != nil {
		return nil, err
	}
	if front := door(app, i); front != nil {
		ingress(front.Parameters, spec.Ingress)
	} else {
		ingress(app.Spec.Components[0].Parameters, spec.Ingress)
	}
	for n := range app.Spec.Components {
		if c := &app.Spec.Components[n]; len(c.Parameters) == 0 {
			c.Parameters = nil
		}
	}
	if ref := spec.APIKeySecretRef; ref != nil {
		app.Spec.Credentials = append(app.Spec.Credentials, credential("api-key", ref.Name, ref.Key))
	}
	out := &typed.Output{Application: app, Refused: refusedCanary(i)}
	route(i, out)
	return out, nil
}

// models has the pods serve the versions that are named, as far as their Models are there to read.
func models(app *platformv1.Application, i *aiv1.Inference, canary *platformv1.ComponentSet,
	referents typed.Referents) error {
	m, found := referents[reference(i)].(*aiv1.Model)
	if !found {
		return nil
	}
	named, err := usable("spec.modelRef", i, &i.Spec.ModelRef, m)
	if err != nil {
		return err
	}
	version, err := placed("spec.modelRef", m, named)
	if err != nil {
		return err
	}
	app.Annotations = map[string]string{modelAnnotation: m.Name, versionAnnotation: string(version.Name)}
	parameters := app.Spec.Components[0].Parameters
	serve(parameters, m, version)
	files := filesOf(&version.Source)
	if _, named := parameters["alias"]; !named {
		// What clients call it stays when another version takes its place.
		parameters["alias"] = platformv1.ParameterValue(m.Name)
	}
	if err := adapt(app, i, referents, &files); err != nil {
		return err
	}
	// A canary may download a version from where this one was fetched, and is no reason to replace the other pods.
	files.logIn(filesOf(&named.Source))
	files.provide(app)
	if canary == nil {
		return nil
	}
	if m, found = referents[canaryReference(i)].(*aiv1.Model); !found {
		return nil
	}
	if version, err = usable("spec.canary.modelRef", i, &i.Spec.Canary.ModelRef, m); err != nil {
		return err
	}
	return serveCanary(app, canary, m, placedBeside(m, version, files), files)
}

// lacking are the reasons of a Model that is stalled for what it requires. What is wrong with other versions than the
// one that is served, or with the cache of these, does not matter.
var lacking = []string{platformv1.ReasonReferenceNotFound, platformv1.ReasonReferenceDeleting,
	platformv1.ReasonReferenceNotAllowed}

// usable finds the version that is to be served, once its Model has all that it requires, and the Inference what the
// Model needs at least. Where the Model has a public key the version must be signed by it; another version of the Model
// that is not does not matter.
func usable(field string, i *aiv1.Inference, ref *aiv1.InferenceModelReference,
	m *aiv1.Model) (*aiv1.ModelVersion, error) {
	switch stalled := conditions.Get(m, platformv1.StalledCondition); {
	case len(m.Spec.Requires) > 0 && m.Status.ObservedGeneration != m.Generation:
		return nil, typed.Refuse(platformv1.ReasonReferenceNotReady, fmt.Sprintf(
			"%s names Model %q, of which is not known yet whether what it requires exists: wait a moment", field, m.Name))
	case stalled != nil && stalled.Status == metav1.ConditionTrue && slices.Contains(lacking, stalled.Reason):
		return nil, typed.Refuse(platformv1.ReasonReferenceNotReady, fmt.Sprintf(
			"%s names Model %q, which is not ready: %s", field, m.Name, stalled.Message))
	}
	if err := meets(field, i, m); err != nil {
		return nil, err
	}
	version, err := versionOf(field, ref, m)
	if err != nil {
		return nil, err
	}
	if wrong := signature.Verify(&m.Spec, version); wrong != nil {
		return nil, typed.Refuse(aiv1.ReasonVersionNotVerified, fmt.Sprintf(
			"%s names version %q of Model %q, which is not verified: %s", field, version.Name, m.Name, wrong))
	}
	return version, nil
}

// versionOf finds the version that is to be served.
func versionOf(field string, ref *aiv1.InferenceModelReference, m *aiv1.Model) (*aiv1.ModelVersion, error) {
	name := ref.Version
	if ref.Stage != "" {
		in, set := m.Spec.Stages[ref.Stage]
		if !set {
			return nil, typed.Refuse(platformv1.ReasonReferenceNotFound, fmt.Sprintf(
				"%s.stage is %s, and no version of Model %q is in that stage: put one in spec.stages of the Model, or name "+
					"another stage", field, ref.Stage, m.Name))
		}
		name = in
	}
	at := slices.IndexFunc(m.Spec.Versions, func(v aiv1.ModelVersion) bool { return v.Name == name })
	if at < 0 {
		return nil, typed.Refuse(platformv1.ReasonReferenceNotFound, fmt.Sprintf(
			"%s.version is %q, which Model %q does not have: add it there, or name another version", field, name, m.Name))
	}
	return &m.Spec.Versions[at], nil
}

// replicas are the pods, or how they are scaled.
func replicas(spec *aiv1.InferenceSpec) (*int32, *platformv1.Autoscaling) {
	if spec.MaxReplicas == 0 {
		return spec.Replicas, nil
	}
	cpu := spec.CPUUtilization
	if cpu == nil && spec.MemoryUtilization == nil && len(spec.Metrics) == 0 {
		cpu = new(int32(defaultUtilization))
	}
	return nil, &platformv1.Autoscaling{MinReplicas: spec.MinReplicas, MaxReplicas: spec.MaxReplicas,
		AutoscalingTargets: platformv1.AutoscalingTargets{CPUUtilization: cpu, MemoryUtilization: spec.MemoryUtilization,
			Metrics: spec.Metrics}}
}

// resources are those of a pod, its GPUs included.
func resources(spec *aiv1.InferenceSpec) corev1.ResourceRequirements {
	r := spec.Resources
	if spec.GPUs == nil {
		return r
	}
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	r.Limits[corev1.ResourceName(spec.GPUs.ResourceName)] = *resource.NewQuantity(int64(cmp.Or(spec.GPUs.Count, 1)),
		resource.DecimalSI)
	return r
}

// health says how servers are asked whether they answer.
func health(parameters platformv1.Parameters, check *aiv1.InferenceHealthCheck) {
	if check == nil {
		return
	}
	if check.Path != "" {
		parameters["health.path"] = platformv1.ParameterValue(check.Path)
	}
	seconds(parameters, "health.interval", check.Interval)
	seconds(parameters, "health.timeout", check.Timeout)
}

// seconds sets a parameter that is a time, where there is one.
func seconds(parameters platformv1.Parameters, name string, d *metav1.Duration) {
	if d != nil {
		parameters[name] = platformv1.ParameterValue(strconv.Itoa(int(d.Seconds())) + "s")
	}
}

// ingress leads clients outside of the cluster to the servers.
func ingress(parameters platformv1.Parameters, in *aiv1.InferenceIngress) {
	if in == nil {
		return
	}
	for name, value := range map[string]string{"host": string(in.Host), "class": in.ClassName,
		"tlsSecret": in.TLSSecretName} {
		if value != "" {
			parameters["route."+name] = platformv1.ParameterValue(value)
		}
	}
}
