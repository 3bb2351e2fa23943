// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/zeroinfra/platform-core/internal/namedcache"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// Names of the two controllers.
const (
	ofReplicas = "webhook-certificate"
	ofLeader   = "webhook-authorities"
)

// keeper keeps the certificate that is served, and what the API server is to trust.
type keeper struct {
	domain string
	// secret with the certificate, and configuration to publish in.
	secret        types.NamespacedName
	configuration string
	// host that the API server calls.
	host string
	now  func() time.Time

	client client.Client
	// seen holds the two objects.
	seen   client.Reader
	served atomic.Pointer[tls.Certificate]
}

// certificate is for the server's TLS.
func (k *keeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := k.served.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("the certificate of the webhook is not made yet")
}

// setup has every replica follow the Secret, and the leader keep it and the configuration.
func (k *keeper) setup(mgr ctrl.Manager) error {
	own, err := namedcache.New(mgr, map[client.Object]cache.ByObject{
		&corev1.Secret{}: namedcache.InNamespace(k.secret),
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: namedcache.InCluster(k.configuration),
	})
	if err != nil {
		return fmt.Errorf("cannot watch the certificate of the webhook: %w", err)
	}
	k.client, k.seen = mgr.GetClient(), own
	err = ctrl.NewControllerManagedBy(mgr).
		Named(ofReplicas).
		WatchesRawSource(source.Kind(own, &corev1.Secret{}, namedcache.Enqueue[*corev1.Secret]())).
		WatchesRawSource(source.Func(namedcache.EnqueueAtStart)).
		WithOptions(controller.Options{NeedLeaderElection: new(false)}).
		Complete(reconcile.Func(k.serve))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(ofLeader).
		WatchesRawSource(source.Kind(own, &corev1.Secret{}, namedcache.Enqueue[*corev1.Secret]())).
		WatchesRawSource(source.Kind(own, &admissionregistrationv1.ValidatingWebhookConfiguration{},
			namedcache.Enqueue[*admissionregistrationv1.ValidatingWebhookConfiguration]())).
		WatchesRawSource(source.Func(namedcache.EnqueueAtStart)).
		Complete(reconcile.Func(k.publish))
}

// read returns the Secret; nil when there is none.
func (k *keeper) read(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := k.seen.Get(ctx, k.secret, secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return secret, nil
}

// serve takes up the certificate, and makes the first one. Of several replicas that do so at once one wins.
func (k *keeper) serve(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret, err := k.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if secret == nil {
		return reconcile.Result{}, k.create(ctx)
	}
	pair, err := readChain(secret.Data).current.Pair()
	if err != nil {
		// The leader makes another one; until then the one before is served.
		log.FromContext(ctx).Error(err, "cannot use the certificate of the webhook", "secret", k.secret)
		return reconcile.Result{}, nil
	}
	k.served.Store(pair)
	return reconcile.Result{}, nil
}

func (k *keeper) create(ctx context.Context) error {
	fresh, err := newChain(k.host, k.now())
	if err != nil {
		return err
	}
	err = k.client.Create(ctx, pki.NewSecret(k.secret, k.domain, fresh.data()))
	if apierrors.IsAlreadyExists(err) {
		return nil // Another replica was first; the watch brings what it made.
	}
	if err != nil {
		return fmt.Errorf("cannot keep the certificate of the webhook in Secret %q: %w", k.secret, err)
	}
	log.FromContext(ctx).Info("Made a certificate for the webhook", "secret", k.secret, "host", k.host)
	return nil
}

// publish keeps the Secret as it has to be, and has the API server trust what is in it.
func (k *keeper) publish(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret, err := k.read(ctx)
	if secret == nil || err != nil {
		return reconcile.Result{}, err // It is made by serve, and the watch tells.
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := k.seen.Get(ctx, client.ObjectKey{Name: k.configuration}, configuration); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	is := readChain(secret.Data)
	wanted, wake, err := is.advance(k.host, trusts(configuration, is.trusted()), k.now())
	if err != nil {
		return reconcile.Result{}, err
	}
	if data := wanted.data(); !maps.EqualFunc(data, secret.Data, bytes.Equal) {
		renewed := secret.DeepCopy()
		renewed.Data = data
		if err := k.client.Patch(ctx, renewed,
			client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})); err != nil {
			return reconcile.Result{}, fmt.Errorf("cannot keep the certificate of the webhook in Secret %q: %w", k.secret, err)
		}
		log.FromContext(ctx).Info("Renewed the certificate of the webhook", "secret", k.secret, "served", wanted.since,
			"next", wanted.next != nil)
	}
	return reconcile.Result{RequeueAfter: wake}, k.trust(ctx, configuration, wanted.trusted())
}

// trusts says whether every webhook of the configuration is called with trust in these authorities.
func trusts(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, authorities []byte) bool {
	for _, webhook := range configuration.Webhooks {
		if !bytes.Equal(webhook.ClientConfig.CABundle, authorities) {
			return false
		}
	}
	return true
}

// trust writes the authorities into the configuration. One that is not there is not made: it is the chart's.
func (k *keeper) trust(ctx context.Context, configuration *admissionregistrationv1.ValidatingWebhookConfiguration,
	authorities []byte) error {
	if trusts(configuration, authorities) {
		return nil
	}
	before := configuration.DeepCopy()
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = authorities
	}
	// By name of the webhook, and bound to what was read: what the chart changes meanwhile stays.
	patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	if err := k.client.Patch(ctx, configuration, patch); err != nil {
		return fmt.Errorf("cannot write the authority of the webhook into ValidatingWebhookConfiguration %q: %w",
			k.configuration, err)
	}
	return nil
}
