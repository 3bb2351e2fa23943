// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// holdPasswords has each password that cannot be taken over now stay what it was: what the pods mount goes on as it is, so that a process that
// happens to start again finds the others. What the user's Secret says waits, and the state says so; what somebody put into the Secret that the
// engine made is put back.
func (c *Controller) holdPasswords(ctx context.Context, app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) error {
	for _, declared := range f.credentialsOf(app) {
		have, password := f.credentials[declared.Name], f.passwords[declared.Name]
		if have == nil || len(have.Data[revisionKey]) == 0 || c.isInForce(app, declared.Name, have, password) {
			continue
		}
		refusal := accept.Password(&declared, app.Spec.Topology, f.components, wanted)
		if refusal == nil {
			continue
		}
		inForce, err := c.inForce(ctx, app, f, declared.Name, have)
		if err != nil {
			return err
		}
		_, users := suppliedFor(app, declared.Name)
		switch {
		case inForce == "":
			// Nobody knows it any more: nothing is written over what may bring it back.
			f.revisions[declared.Name] = string(have.Data[revisionKey])
			fallthrough
		case users:
			f.held = append(f.held, outcome.Stalled(refusal.Reason, refusal.Message))
		case password != "":
			c.events.Warning(app, refusal.Reason, "Secret %q has the password from before again: %s.", have.Name, refusal.Message)
		}
		f.passwords[declared.Name] = inForce
	}
	return nil
}

// revision of a password of a credential: it gives nothing of it away.
func (c *Controller) revision(app *platformv1.Application, credential, password string) string {
	return c.Digest(string(app.UID) + "\x00" + credential + "\x00" + password)
}

// isInForce says whether a password is the one that processes were last told of.
func (c *Controller) isInForce(app *platformv1.Application, credential string, mounted *corev1.Secret, password string) bool {
	return password != "" && c.revision(app, credential, password) == string(mounted.Data[revisionKey])
}

// inForce is the password that processes were last told of: the one in the Secret that the pods mount, unless somebody put another one there, else the one
// that clients were told. It is "" when neither is.
func (c *Controller) inForce(ctx context.Context, app *platformv1.Application, f *facts, credential string, mounted *corev1.Secret) (string, error) {
	if password := string(mounted.Data[passwordKey]); c.isInForce(app, credential, mounted, password) {
		return password, nil
	}
	if binding := f.state.Bundle.Binding(app.Spec.Topology); binding == nil || binding.Credential != credential {
		return "", nil
	}
	bound := &corev1.Secret{}
	key := client.ObjectKey{Namespace: app.Namespace, Name: platformv1.BindingNameFor(app.Name)}
	if err := c.client.Get(ctx, key, bound); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("cannot read Secret %q: %w", key, err)
	}
	if password := string(bound.Data[passwordKey]); c.isInForce(app, credential, mounted, password) {
		return password, nil
	}
	return "", nil
}
