// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// releaseUninstalling is the status that Helm records of a release before it runs a hook of its uninstallation.
	releaseUninstalling = "uninstalling"
	// releaseGap is how many revisions in a row may be missing: a rollback brings the hook of an old revision back, and
	// Helm keeps ten revisions unless it is told otherwise.
	releaseGap = 64
)

// helmRelease is the release of a chart, and the revision that its hook was rendered for.
type helmRelease struct {
	client.Reader
	namespace, name string
	revision        int
}

// uninstalling reports whether Helm is uninstalling the release. What applies rendered charts runs a hook as any other
// Job, and there is no such release.
func (r helmRelease) uninstalling(ctx context.Context) (bool, error) {
	status, err := r.inSecrets(ctx)
	if err == nil && status == "" {
		status, err = r.inConfigMaps(ctx)
	}
	return status == releaseUninstalling, err
}

// inSecrets returns the status of the latest revision in Secrets, where Helm records releases by default. Each is read
// by name: the operator may not list Secrets.
func (r helmRelease) inSecrets(ctx context.Context) (status string, err error) {
	for revision, last := r.revision, r.revision; revision <= last+releaseGap; revision++ {
		key := client.ObjectKey{Namespace: r.namespace, Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", r.name, revision)}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.Get(ctx, key, secret)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("cannot read Secret %q, in which Helm records release %q: %w", key, r.name, err)
		}
		if err == nil {
			status, last = secret.Labels["status"], revision
		}
	}
	return status, nil
}

// inConfigMaps returns the same where Helm was told to use ConfigMaps.
func (r helmRelease) inConfigMaps(ctx context.Context) (status string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	ours := client.MatchingLabels{"owner": "helm", "name": r.name}
	if err := r.List(ctx, list, client.InNamespace(r.namespace), ours); err != nil {
		return "", fmt.Errorf("cannot list ConfigMaps, in which Helm may record release %q: %w", r.name, err)
	}
	latest := -1
	for _, found := range list.Items {
		if revision, err := strconv.Atoi(found.Labels["version"]); err == nil && revision > latest {
			status, latest = found.Labels["status"], revision
		}
	}
	return status, nil
}
