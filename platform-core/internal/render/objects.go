// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// ObjectsOf returns the objects of an Application with these Components, for people and for golden files: Components,
// Services, PodDisruptionBudgets, NetworkPolicies, WorkloadSets, plans, Pods and the binding Secret. Passwords are
// shown as the text "password".
func ObjectsOf(
	b *plugin.Bundle, s Settings, app *platformv1.Application, specs []platformv1.ComponentSpec,
) ([]runtime.Object, *Refusal) {
	owner := Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: b.Manifest.Domain}
	var objects []runtime.Object
	for _, issuer := range Authority(app) {
		objects = append(objects, issuer)
	}
	var endpoints []platformv1.Endpoint
	for i := range specs {
		component := &platformv1.Component{
			TypeMeta: typeMeta("Component"),
			ObjectMeta: metav1.ObjectMeta{
				Name: platformv1.ComponentNameFor(app.Name, specs[i].Component), Namespace: app.Namespace,
			},
			Spec: specs[i],
		}
		// The digest changes with each edit of the plugin and would drown what matters.
		component.Spec.Plugin.Digest = ""
		output, r := Component(b, s, owner, &component.Spec)
		if r != nil {
			return nil, r
		}
		output, err := output.WithAddresses(nil)
		if err != nil {
			return nil, refuse(platformv1.ReasonInvalidSpec, "%v", err)
		}
		objects = append(objects, component)
		for _, service := range output.Services {
			objects = append(objects, service)
		}
		for _, budget := range output.Budgets {
			objects = append(objects, budget)
		}
		for _, autoscaler := range output.Autoscalers {
			objects = append(objects, autoscaler)
		}
		for _, ingress := range output.Ingresses {
			objects = append(objects, ingress)
		}
		for _, route := range output.HTTPRoutes {
			objects = append(objects, route)
		}
		if output.Role != nil {
			objects = append(objects, output.Role, output.RoleBinding)
		}
		if output.NetworkPolicy != nil {
			objects = append(objects, output.NetworkPolicy)
		}
		if output.Certificate != nil {
			objects = append(objects, output.Certificate)
		}
		if output.PodMonitor != nil {
			objects = append(objects, output.PodMonitor)
		}
		endpoints = append(endpoints, output.Endpoints...)
		for _, set := range output.WorkloadSets {
			list, err := setObjects(app, set)
			if err != nil {
				return nil, refuse(platformv1.ReasonInvalidSpec, "%v", err)
			}
			objects = append(objects, list...)
		}
	}
	if secret := bindingSecret(b, app, endpoints); secret != nil {
		objects = append(objects, secret)
	}
	return objects, nil
}

func setObjects(app *platformv1.Application, set WorkloadSetOutput) ([]runtime.Object, error) {
	ws := &platformv1.WorkloadSet{
		TypeMeta:   typeMeta("WorkloadSet"),
		ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: app.Namespace},
		Spec:       set.Spec,
	}
	data, err := PlanConfigMapData(ws)
	if err != nil {
		return nil, err
	}
	objects := []runtime.Object{ws, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: platformv1.PlanNameFor(ws.Name), Namespace: app.Namespace},
		Data:       data,
	}}
	for _, ordinal := range platformv1.OrdinalsOf(ws.Spec.Replicas, ws.Spec.ExcludedOrdinals) {
		pod, err := Pod(ws, ordinal)
		if err != nil {
			return nil, err
		}
		objects = append(objects, pod)
	}
	return objects, nil
}

func bindingSecret(b *plugin.Bundle, app *platformv1.Application, endpoints []platformv1.Endpoint) *corev1.Secret {
	binding := b.Binding(app.Spec.Topology)
	if binding == nil {
		return nil
	}
	credential, _ := b.Credential(binding.Credential)
	if credential == nil {
		return nil
	}
	var ca []byte
	if app.Spec.TLS.On() {
		ca = []byte("the CA's certificate")
	}
	login := Login{Username: credential.Username, Password: "password", Database: binding.Database}
	data := Binding(b, app.Name, app.Spec.Topology, endpoints, login, ca)
	if binding.External != nil {
		if app.Spec.Supplies(binding.External.CA) {
			ca = []byte("the authority's certificate")
		}
		data = ExternalBinding(binding, externalEndpoint(binding, app), "account", "password", ca)
	}
	if data == nil {
		return nil
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: platformv1.BindingNameFor(app.Name), Namespace: app.Namespace},
		Type:       BindingSecretType(binding),
		StringData: map[string]string{},
	}
	for key, value := range data {
		secret.StringData[key] = string(value)
	}
	return secret
}

// externalEndpoint is what an Application says of where the storage is that its binding tells of.
func externalEndpoint(binding *schema.Binding, app *platformv1.Application) string {
	for _, c := range app.Spec.Components {
		if c.Name == binding.Component {
			return string(c.Parameters[binding.External.Endpoint])
		}
	}
	return ""
}

// BindingSecretType is the type of the Secret that follows the Service Binding specification.
func BindingSecretType(binding *schema.Binding) corev1.SecretType {
	return corev1.SecretType("servicebinding.io/" + binding.Type)
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: platformv1.GroupVersion.String(), Kind: kind}
}
