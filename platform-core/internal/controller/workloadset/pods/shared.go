// SPDX-License-Identifier: Apache-2.0

package pods

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
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/frame"
)

// EnsureShared applies what all pods of the set stand on, their account and the plan, and makes the certificates of
// those pods that are to run.
func (r *Reconciler) EnsureShared(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict) error {
	plan, err := render.PlanConfigMapData(set)
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: facts.Meta(set, set.Name), AutomountServiceAccountToken: new(false)}
	tasks := []func() error{
		func() error { return r.ApplyInOrder(ctx, set, []client.Object{account}) },
		func() error {
			planned := &corev1.ConfigMap{ObjectMeta: facts.Meta(set, platformv1.PlanNameFor(set.Name)), Data: plan}
			return r.ApplyInOrder(ctx, set, []client.Object{planned})
		},
	}
	if f.Rollout.Mode == rollout.Running {
		for _, ordinal := range f.Rollout.Ordinals() {
			tasks = append(tasks, func() error { return r.ensureCertificate(ctx, set, f, ordinal) })
		}
	}
	return frame.Together(tasks...)
}

// ApplyInOrder applies objects of the set in order, each after the previous one exists.
func (r *Reconciler) ApplyInOrder(ctx context.Context, set *platformv1.WorkloadSet, objects []client.Object) error {
	for _, obj := range objects {
		if err := controllerutil.SetControllerReference(set, obj, r.Client.Scheme()); err != nil {
			return err
		}
		if _, err := r.Apply.Apply(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// RightsOf are what the agents' account may do. The Role comes first: the API server takes no binding of one that it
// does not know, since it looks at what that gives.
func RightsOf(set *platformv1.WorkloadSet, f *Verdict) []client.Object {
	return []client.Object{
		&rbacv1.Role{ObjectMeta: facts.Meta(set, set.Name), Rules: agentRules(set, f)},
		&rbacv1.RoleBinding{
			ObjectMeta: facts.Meta(set, set.Name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: set.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: set.Name, Namespace: set.Namespace}},
		},
	}
}

// agentRules are what the agents of a set may do. They name each pod, so that an
// agent can patch no other pod of the namespace: those that are wanted, and those that still are there.
func agentRules(set *platformv1.WorkloadSet, f *Verdict) []rbacv1.PolicyRule {
	ordinals := f.Rollout.Ordinals()
	for _, p := range f.Rollout.Pods {
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

// KeepCertificates looks after what pods of a suspended set have: those go on, and know each other by it.
func (r *Reconciler) KeepCertificates(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict) error {
	var tasks []func() error
	for _, ordinal := range f.Rollout.Ordinals() {
		if f.Certificates[platformv1.AgentCertificateNameFor(platformv1.PodNameFor(set.Name, ordinal))] != nil {
			tasks = append(tasks, func() error { return r.ensureCertificate(ctx, set, f, ordinal) })
		}
	}
	return frame.Together(tasks...)
}

// ensureCertificate issues the server certificate of the agents of one pod, and
// renews it in time, or has it trust what is trusted now; the agents take a new one over without a restart.
func (r *Reconciler) ensureCertificate(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	ordinal int32) error {
	pod := platformv1.PodNameFor(set.Name, ordinal)
	name := platformv1.AgentCertificateNameFor(pod)
	existing := f.Certificates[name]
	bundle, of := r.Authority.Bundle(), pki.AgentServerName(pod, set.Namespace)
	var certificate, key []byte
	if existing != nil && metav1.IsControlledBy(existing, set) &&
		r.Authority.Keep(existing.Data[corev1.TLSCertKey], of, f.Now) {
		if bytes.Equal(existing.Data[corev1.ServiceAccountRootCAKey], bundle) {
			return nil
		}
		certificate, key = existing.Data[corev1.TLSCertKey], existing.Data[corev1.TLSPrivateKeyKey]
	} else {
		var err error
		if certificate, key, _, err = r.Authority.IssueServer([]string{of}, f.Now); err != nil {
			return fmt.Errorf("cannot issue certificate for pod %q: %w", pod, err)
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: facts.Meta(set, name),
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:              certificate,
			corev1.TLSPrivateKeyKey:        key,
			corev1.ServiceAccountRootCAKey: bundle,
		},
	}
	if err := controllerutil.SetControllerReference(set, secret, r.Client.Scheme()); err != nil {
		return err
	}
	if existing == nil {
		_, err := r.Apply.Create(ctx, secret)
		return err
	}
	_, err := r.Apply.Apply(ctx, secret)
	return err
}
