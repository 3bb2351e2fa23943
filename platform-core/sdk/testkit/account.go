// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/config/rbac"
)

const (
	// managerAccount and systemNamespace are what config/rbac calls an operator's account and its namespace.
	managerAccount  = "controller-manager"
	systemNamespace = "system"
	// tokenSeconds is how long the token of an account is good for: longer than any test.
	tokenSeconds = 4 * 3600
)

// Operator is an operator's account in one namespace, with the rights that its chart gives it.
type Operator struct {
	// Config reaches the API server with a token of the account, without limits of its own.
	Config *rest.Config
	// User is the name that the API server knows the account by.
	User string
}

// Operator applies platform-core/config/rbac in a namespace, as kustomize and the charts do, and
// further roles of that shape, each with its binding, and returns the account once it has those rights. It may be
// called again for the same namespace; names of cluster-wide objects bear that of the namespace.
func (e *Env) Operator(ctx context.Context, namespace string, roles ...fs.FS) (*Operator, error) {
	var rights []*unstructured.Unstructured
	for _, source := range append([]fs.FS{rbac.FS}, roles...) {
		objects, err := readObjects(source)
		if err != nil {
			return nil, err
		}
		rights = append(rights, objects...)
	}
	for _, obj := range rights {
		if err := e.applyRight(ctx, obj, namespace); err != nil {
			return nil, err
		}
	}
	account, err := e.Account(ctx, namespace, managerAccount, nil)
	if err != nil {
		return nil, err
	}
	for _, obj := range rights {
		if err := e.awaitRole(ctx, account.User, obj); err != nil {
			return nil, err
		}
	}
	return account, nil
}

// Account returns the account of that name, with a token that is bound to an object when one is given.
func (e *Env) Account(ctx context.Context, namespace, name string,
	bound *authenticationv1.BoundObjectReference) (*Operator, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To[int64](tokenSeconds), BoundObjectRef: bound,
	}}
	if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("cannot get a token of ServiceAccount %q: %w", client.ObjectKeyFromObject(account), err)
	}
	cfg := rest.AnonymousClientConfig(e.server.config)
	cfg.BearerToken, cfg.QPS = request.Status.Token, -1
	return &Operator{Config: cfg, User: "system:serviceaccount:" + namespace + ":" + name}, nil
}

// applyRight applies one object of config/rbac under the names that it has beside those of other namespaces.
func (e *Env) applyRight(ctx context.Context, obj *unstructured.Unstructured, namespace string) error {
	suffix := "-" + namespace
	switch kind := obj.GetKind(); kind {
	case "ServiceAccount", "Role", "RoleBinding":
		obj.SetNamespace(namespace)
	default:
		obj.SetName(obj.GetName() + suffix)
		if policy, found, _ := unstructured.NestedString(obj.Object, "spec", "policyName"); found {
			_ = unstructured.SetNestedField(obj.Object, policy+suffix, "spec", "policyName") // It is a map: it was just read.
		}
	}
	if role, found, _ := unstructured.NestedString(obj.Object, "roleRef", "name"); found &&
		obj.GetKind() == "ClusterRoleBinding" {
		_ = unstructured.SetNestedField(obj.Object, role+suffix, "roleRef", "name") // The same.
	}
	subjects, _, _ := unstructured.NestedSlice(obj.Object, "subjects")
	for _, subject := range subjects {
		if fields, ok := subject.(map[string]any); ok && fields["namespace"] == systemNamespace {
			fields["namespace"] = namespace
		}
	}
	if len(subjects) > 0 {
		_ = unstructured.SetNestedSlice(obj.Object, subjects, "subjects") // The same.
	}
	err := e.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("testkit"),
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("cannot apply %s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// readObjects reads the Kubernetes objects in the .yaml files at the top of a folder; what belongs to kustomize is
// none.
func readObjects(source fs.FS) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(source, "*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		found, err := readFile(source, name)
		if err != nil {
			return nil, fmt.Errorf("cannot read objects from %q: %w", path.Base(name), err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func readFile(source fs.FS, name string) ([]*unstructured.Unstructured, error) {
	file, err := source.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if obj.GetAPIVersion() != "" && obj.GetName() != "" {
			objects = append(objects, obj)
		}
	}
}
