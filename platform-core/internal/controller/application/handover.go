// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// handover is what the Secret that the pods mount is to have beside the password.
type handover struct {
	// also is accepted as well; "" where pods do not mount such a thing.
	also string
	// phase is the value of HandoverAnnotation; "" while no password takes the place of another.
	phase string
}

// at is the state of a Secret as it is.
func at(mounted *corev1.Secret) handover {
	return handover{also: string(mounted.Data[alsoKey]), phase: mounted.Annotations[platformv1.HandoverAnnotation]}
}

// handOver has another password of a credential that pods log in at each other with take the place of the one in force
// in three writes of the Secret, each made once all processes have the one before: they accept the new one as well,
// then they show it, then they accept it alone. So one with any of these finds the others, whichever of the two
// neighbouring ones they have. What the Secret says is all that is known of how far that is. A password that comes
// meanwhile has its turn afterwards.
func (c *Controller) handOver(ctx context.Context, app *platformv1.Application, f *facts,
	wanted []platformv1.ComponentSpec) error {
	for _, declared := range f.credentialsOf() {
		have := f.credentials[declared.Name]
		if have == nil || len(have.Data[revisionKey]) == 0 {
			if accept.IsShared(&declared, app.Spec.Topology) && have == nil {
				f.passwords[declared.Name] = cmp.Or(f.passwords[declared.Name], instance.NewPassword(declared))
				f.handovers[declared.Name] = handover{also: f.passwords[declared.Name]}
			}
			continue
		}
		if err := c.next(ctx, app, f, &declared, have,
			accept.Password(&declared, app.Spec.Topology, f.components, wanted)); err != nil {
			return err
		}
	}
	return nil
}

// next decides on the password of one credential, and on what is accepted beside it. The refusal says why no other
// password can be taken over at once; it is nil when it can.
func (c *Controller) next(ctx context.Context, app *platformv1.Application, f *facts, declared *schema.Credential,
	have *corev1.Secret, refusal *render.Refusal) error {
	name, now := declared.Name, at(have)
	asked := cmp.Or(f.passwords[name], instance.NewPassword(*declared))
	if refusal == nil {
		if _, users := f.suppliedFor(name); !users && now.phase == platformv1.HandoverIntroduces && now.also != "" {
			asked = now.also
		}
		f.passwords[name], f.handovers[name] = asked, alone(now, asked)
		return nil
	}
	inForce, err := c.inForce(ctx, app, f, name, have)
	if err != nil {
		return err
	}
	switch {
	case inForce == "":
		// Nobody knows it any more: nothing is written over what may bring it back.
		f.revisions[name], f.passwords[name], f.handovers[name] = string(have.Data[revisionKey]), "", now
		f.held = append(f.held, outcome.Stalled(refusal.Reason, refusal.Message))
		return nil
	case now.phase == platformv1.HandoverIntroduces && now.also != "":
		if now.also != inForce && f.haveTakenUp(name, have, c.revision(app, name, inForce, now.also)) {
			inForce, now = now.also, handover{also: inForce, phase: platformv1.HandoverRetires}
		}
	case now.phase == platformv1.HandoverRetires && now.also != "":
		if f.haveTakenUp(name, have, c.revision(app, name, inForce, now.also)) {
			now = alone(now, inForce)
		}
	case asked != inForce:
		now = handover{also: asked, phase: platformv1.HandoverIntroduces}
	default:
		now = alone(now, inForce)
	}
	f.passwords[name], f.handovers[name] = inForce, now
	return nil
}

// alone is the state in which a password is the only one. Pods that mount what they are to accept beside it go on to do
// so.
func alone(now handover, password string) handover {
	if now.also == "" {
		return handover{}
	}
	return handover{also: password}
}

// haveTakenUp says whether the processes of all components that use a credential run with what its Secret has, which
// has this revision.
func (f *facts) haveTakenUp(credential string, mounted *corev1.Secret, revision string) bool {
	if string(mounted.Data[revisionKey]) != revision {
		return false
	}
	for _, component := range f.components {
		for _, used := range component.Spec.Credentials {
			if used.Name == credential && (used.Revision != revision || !used.Also ||
				conditions.Outcome(component).Kind() != outcome.KindDone) {
				return false
			}
		}
	}
	return true
}

// revision of the passwords of a credential: it gives nothing of them away. Of one that has no other beside it, it is
// the same whether pods mount that or not.
func (c *Controller) revision(app *platformv1.Application, credential, password, also string) string {
	digest := func(text string) string { return c.Digest(string(app.UID) + "\x00" + credential + "\x00" + text) }
	if also == "" || also == password {
		return digest(password)
	}
	return digest(password) + render.RevisionSeparator + digest(also)
}

// isInForce says whether a password is the one that processes were last told to show.
func (c *Controller) isInForce(app *platformv1.Application, credential string, mounted *corev1.Secret,
	password string) bool {
	return password != "" && c.revision(app, credential, password, "") == render.PasswordRevision(
		string(mounted.Data[revisionKey]))
}

// inForce is the password that processes were last told to show: the one in the Secret that the pods mount, unless
// somebody put another one there, else the one that clients were told. It is "" when neither is.
func (c *Controller) inForce(ctx context.Context, app *platformv1.Application, f *facts, credential string,
	mounted *corev1.Secret) (string, error) {
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
