// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/frame"
)

// ensureShared applies what all pods of the set stand on, their account and the plan, and makes the certificates of
// those pods that are to run.
func (c *Controller) ensureShared(ctx context.Context, set *platformv1.WorkloadSet, f *facts) error {
	plan, err := render.PlanConfigMapData(set)
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: meta(set, set.Name), AutomountServiceAccountToken: new(false)}
	tasks := []func() error{
		func() error { return c.applyInOrder(ctx, set, []client.Object{account}) },
		func() error {
			planned := &corev1.ConfigMap{ObjectMeta: meta(set, platformv1.PlanNameFor(set.Name)), Data: plan}
			return c.applyInOrder(ctx, set, []client.Object{planned})
		},
	}
	if f.rollout.Mode == rollout.Running {
		for _, ordinal := range f.rollout.Ordinals() {
			tasks = append(tasks, func() error { return c.ensureCertificate(ctx, set, f, ordinal) })
		}
	}
	return frame.Together(tasks...)
}

// applyInOrder applies objects of the set in order, each after the previous one exists.
func (c *Controller) applyInOrder(ctx context.Context, set *platformv1.WorkloadSet, objects []client.Object) error {
	for _, obj := range objects {
		if err := controllerutil.SetControllerReference(set, obj, c.client.Scheme()); err != nil {
			return err
		}
		if _, err := c.apply.Apply(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// rightsOf are what the agents' account may do. The Role comes first: the API server takes no binding of one that it
// does not know, since it looks at what that gives.
func rightsOf(set *platformv1.WorkloadSet, f *facts) []client.Object {
	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta(set, set.Name), Rules: agentRules(set, f)},
		&rbacv1.RoleBinding{
			ObjectMeta: meta(set, set.Name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: set.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: set.Name, Namespace: set.Namespace}},
		},
	}
}

// agentRules are what the agents of a set may do. They name each pod, so that an
// agent can patch no other pod of the namespace: those that are wanted, and those that still are there.
func agentRules(set *platformv1.WorkloadSet, f *facts) []rbacv1.PolicyRule {
	ordinals := f.rollout.Ordinals()
	for _, p := range f.rollout.Pods {
		if !slices.Contains(ordinals, p.Ordinal) {
			ordinals = append(ordinals, p.Ordinal)
		}
	}
	slices.Sort(ordinals)
	pods := make([]string, 0, len(ordinals))
	for _, ordinal := range ordinals {
		pods = append(pods, platformv1.PodNameFor(set.Name, ordinal))
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"workloadsets"},
			ResourceNames: []string{set.Name}, Verbs: []string{"get"}},
	}
	if len(pods) > 0 {
		// No names at all would mean every pod.
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: pods,
			Verbs: []string{"patch"}})
	}
	return rules
}

// meta is the metadata of an object of the set: its namespace and labels.
func meta(set *platformv1.WorkloadSet, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: set.Namespace, Name: name, Labels: render.LabelsOf(set)}
}

// keepCertificates looks after what pods of a suspended set have: those go on, and know each other by it.
func (c *Controller) keepCertificates(ctx context.Context, set *platformv1.WorkloadSet, f *facts) error {
	var tasks []func() error
	for _, ordinal := range f.rollout.Ordinals() {
		if f.certificates[platformv1.AgentCertificateNameFor(platformv1.PodNameFor(set.Name, ordinal))] != nil {
			tasks = append(tasks, func() error { return c.ensureCertificate(ctx, set, f, ordinal) })
		}
	}
	return frame.Together(tasks...)
}

// ensureCertificate issues the server certificate of the agents of one pod, and
// renews it in time, or has it trust what is trusted now; the agents take a new one over without a restart.
func (c *Controller) ensureCertificate(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	ordinal int32) error {
	pod := platformv1.PodNameFor(set.Name, ordinal)
	name := platformv1.AgentCertificateNameFor(pod)
	existing := f.certificates[name]
	bundle, of := c.Authority.Bundle(), pki.AgentServerName(pod, set.Namespace)
	var certificate, key []byte
	if existing != nil && metav1.IsControlledBy(existing, set) &&
		c.Authority.Keep(existing.Data[corev1.TLSCertKey], of, f.now) {
		if bytes.Equal(existing.Data[corev1.ServiceAccountRootCAKey], bundle) {
			return nil
		}
		certificate, key = existing.Data[corev1.TLSCertKey], existing.Data[corev1.TLSPrivateKeyKey]
	} else {
		var err error
		if certificate, key, _, err = c.Authority.IssueServer([]string{of}, f.now); err != nil {
			return fmt.Errorf("cannot issue certificate for pod %q: %w", pod, err)
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: meta(set, name),
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:              certificate,
			corev1.TLSPrivateKeyKey:        key,
			corev1.ServiceAccountRootCAKey: bundle,
		},
	}
	if err := controllerutil.SetControllerReference(set, secret, c.client.Scheme()); err != nil {
		return err
	}
	if existing == nil {
		_, err := c.apply.Create(ctx, secret)
		return err
	}
	_, err := c.apply.Apply(ctx, secret)
	return err
}
