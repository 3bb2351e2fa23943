// SPDX-License-Identifier: Apache-2.0

// Package authority keeps the CA that operator and agents know each other by (internal/pki) in its Secret.
//
// Duty: every replica follows what the Secret has. The leader puts back a Secret that was lost, from memory, so that no
// agent notices; has another CA follow in time, or when RotateAnnotation asks for it (pki.Advance); and keeps the one
// before it until no pod needs it.
//
// Inputs: the Secret, and those with the certificates of pods. Outputs: the Secret; an event to whoever issues
// certificates, on each change.
package authority

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/namedcache"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// Names of the two controllers.
const (
	ofReplicas = "agent-authority"
	ofLeader   = "agent-authority-keeper"
)

// farthest is how far ahead anything is planned, since a machine's clock may be set.
const farthest = 24 * time.Hour

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Authority that was loaded at the start.
	Authority *pki.Authority
	// Domain and Namespace of the operator.
	Domain, Namespace string
	// Now tells the time; time.Now in production.
	Now func() time.Time
}

// Controller keeps the Secret.
type Controller struct {
	Deps
	secret types.NamespacedName
	client client.Client
	// seen holds the Secret.
	seen client.Reader
	// changed has room for one: who hears of it looks at everything.
	changed chan event.GenericEvent
}

// Setup registers the controllers. What it returns tells of each change of what the authority trusts or signs with.
func Setup(mgr ctrl.Manager, deps Deps) (<-chan event.GenericEvent, error) {
	c := &Controller{
		Deps: deps, secret: types.NamespacedName{Namespace: deps.Namespace, Name: pki.SecretName(deps.Domain)},
		client: mgr.GetClient(), changed: make(chan event.GenericEvent, 1),
	}
	own, err := namedcache.New(mgr, map[client.Object]cache.ByObject{&corev1.Secret{}: namedcache.InNamespace(c.secret)})
	if err != nil {
		return nil, fmt.Errorf("cannot watch the CA of the agents: %w", err)
	}
	c.seen = own
	for _, of := range []struct {
		name    string
		work    reconcile.Func
		options controller.Options
	}{{ofReplicas, c.follow, controller.Options{NeedLeaderElection: new(false), SkipNameValidation: new(true)}},
		{ofLeader, c.keep, controller.Options{SkipNameValidation: new(true)}}} {
		err := ctrl.NewControllerManagedBy(mgr).
			Named(of.name).
			WatchesRawSource(source.Kind(own, &corev1.Secret{}, namedcache.Enqueue[*corev1.Secret]())).
			WatchesRawSource(source.Func(namedcache.EnqueueAtStart)).
			WithOptions(of.options).
			Complete(of.work)
		if err != nil {
			return nil, err
		}
	}
	return c.changed, nil
}

// read returns the Secret; nil when there is none.
func (c *Controller) read(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := c.seen.Get(ctx, c.secret, secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return secret, nil
}

// follow takes up what the Secret has. With one that is gone or cannot be used the authority stays as it is: running
// agents trust that.
func (c *Controller) follow(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret, err := c.read(ctx)
	if secret == nil || err != nil {
		return reconcile.Result{}, err
	}
	changed, err := c.Authority.Follow(secret.Data)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot use the CA of the agents, and goes on with the one before: put the Secret "+
			"right, or delete it to have that one put back", "secret", c.secret)
		return reconcile.Result{}, nil
	}
	if !changed {
		return reconcile.Result{}, nil
	}
	log.FromContext(ctx).Info("Took up another CA of the agents", "secret", c.secret)
	select {
	case c.changed <- event.GenericEvent{Object: secret}:
	default: // Somebody is about to look anyway.
	}
	return reconcile.Result{}, nil
}

// keep puts a lost Secret back, and has it go on to what it has to be now.
func (c *Controller) keep(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret, err := c.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if secret == nil {
		return reconcile.Result{}, c.restore(ctx)
	}
	due, err := pki.RenewAt(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return reconcile.Result{}, nil // That is in the log already, and nothing can be done about it here.
	}
	now := c.Now()
	_, asked := secret.Annotations[platformv1.RotateAnnotation]
	if asked {
		due = now
	}
	data, wake, err := pki.Advance(c.Domain, secret.Data, due, now, func(signing *x509.Certificate) (bool, error) {
		return c.trailing(ctx, signing, now)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if maps.EqualFunc(data, secret.Data, bytes.Equal) {
		return reconcile.Result{RequeueAfter: min(wake, farthest)}, nil
	}
	next := secret.DeepCopy()
	next.Data = data
	if asked {
		delete(next.Annotations, platformv1.RotateAnnotation)
	}
	if err := c.client.Patch(ctx, next,
		client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot keep the CA of the agents in Secret %q: %w", c.secret, err)
	}
	log.FromContext(ctx).Info("The CA of the agents went a step further to the next", "secret", c.secret)
	return reconcile.Result{RequeueAfter: min(wake, farthest)}, nil
}

// restore makes the Secret again with what it had: a CA that nobody lost but the API server.
func (c *Controller) restore(ctx context.Context) error {
	if err := c.client.Create(ctx, pki.NewSecret(c.secret, c.Domain, c.Authority.Data())); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	log.FromContext(ctx).Info("Put the CA of the agents back, whose Secret was gone", "secret", c.secret)
	return nil
}

// trailing says whether a certificate of a pod that is good still bears the signature of another authority.
func (c *Controller) trailing(ctx context.Context, signing *x509.Certificate, now time.Time) (bool, error) {
	var secrets corev1.SecretList
	own := client.MatchingLabels{platformv1.ManagedByLabel: platformv1.ManagedBy, platformv1.DomainLabel: c.Domain}
	if err := c.client.List(ctx, &secrets, own); err != nil {
		return false, err
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Type != corev1.SecretTypeTLS || !strings.HasSuffix(secret.Name, platformv1.AgentCertificateNameFor("")) {
			continue
		}
		shown := secret.Data[corev1.TLSCertKey]
		if !pki.Expired(shown, now) && !pki.SignedBy(shown, signing) {
			return true, nil
		}
	}
	return false, nil
}
