// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// watchDecoding is the cause that client-go gives when it cannot decode an event.
const watchDecoding metav1.CauseType = "ClientWatchDecoding"

// sieve keeps what cannot be decoded from the informer of one kind.
type sieve struct {
	upstream toolscache.ListerWatcherWithContext
	kind     schema.GroupVersionKind
	goType   reflect.Type
	log      logr.Logger
	// known is what the informer has.
	known toolscache.Store

	mu sync.Mutex
	// inUse is set from when something could not be decoded until a list has shown that all can.
	inUse bool
	// bad objects by namespace and name.
	bad map[string]refusal
	// round counts the listings.
	round int
}

// refusal is what is known of an object that cannot be decoded.
type refusal struct {
	metadata metav1.ObjectMeta
	// round of the last listing that had it.
	round int
}

type sieveKey struct{}

// sieveOf returns the sieve that the answer to a request is to go through; nil for none.
func sieveOf(ctx context.Context) *sieve {
	s, _ := ctx.Value(sieveKey{}).(*sieve)
	return s
}

// CannotDecode says whether a request failed only here: the API server has answered, and its answer cannot be decoded.
func CannotDecode(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var answered apierrors.APIStatus
	var unanswered *url.Error
	return !errors.As(err, &answered) && !errors.As(err, &unanswered)
}

func isJSON(response *http.Response) bool {
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && mediaType == runtime.ContentTypeJSON
}

// through has the answer to a request go through the sieve while that is in use.
func (s *sieve) through(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inUse {
		return ctx
	}
	return context.WithValue(ctx, sieveKey{}, s)
}

func (s *sieve) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse = true
}

// retire takes the sieve out of use when nothing is bad.
func (s *sieve) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse = len(s.bad) > 0
}

func (s *sieve) used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

// list implements toolscache.ListWithContextFunc.
func (s *sieve) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !s.used() {
		list, err := s.upstream.ListWithContext(ctx, options)
		if !CannotDecode(err) {
			return list, err
		}
		s.use()
	}
	if options.Continue == "" {
		s.begin()
	}
	list, err := s.upstream.ListWithContext(s.through(ctx), options)
	if err != nil {
		return nil, err
	}
	if page, err := meta.ListAccessor(list); err == nil && page.GetContinue() == "" {
		s.end()
	}
	return list, nil
}

// watch implements toolscache.WatchFuncWithContext. A watch that ends because an event cannot be decoded is followed by
// a listing, for which the sieve is in use. One that goes on from a listing which had nothing bad does without.
func (s *sieve) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents == nil {
		s.retire()
	}
	events, err := s.upstream.WatchWithContext(s.through(ctx), options)
	if err != nil {
		return nil, err
	}
	return s.followed(events), nil
}

// followed passes events on and sees when one of them cannot be decoded, which ends the watch.
func (s *sieve) followed(events watch.Interface) watch.Interface {
	passed := make(chan watch.Event)
	follower := watch.NewProxyWatcher(passed)
	go func() {
		defer close(passed)
		defer events.Stop()
		for {
			var e watch.Event
			var more bool
			select {
			case <-follower.StopChan():
				return
			case e, more = <-events.ResultChan():
			}
			if !more {
				return
			}
			if e.Type == watch.Error && apierrors.HasStatusCause(apierrors.FromObject(e.Object), watchDecoding) {
				s.use()
			}
			select {
			case <-follower.StopChan():
				return
			case passed <- e:
			}
		}
	}()
	return follower
}

// begin begins a listing.
func (s *sieve) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
}

// end ends a listing: what it did not have is gone.
func (s *sieve) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.bad {
		if r.round < s.round {
			s.forget(key)
		}
	}
}

// check returns the metadata of an object, and whether it decodes. What is found is put on record.
func (s *sieve) check(object []byte) (metav1.ObjectMeta, bool) {
	var head metav1.PartialObjectMetadata
	if err := utiljson.Unmarshal(object, &head); err != nil {
		// That of the API server always decodes: this is no object.
		return metav1.ObjectMeta{}, true
	}
	err := s.decode(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(head.ObjectMeta)
	before, known := s.bad[key]
	log := s.log.WithValues("kind", s.kind.Kind, "namespace", head.Namespace, "name", head.Name,
		"resourceVersion", head.ResourceVersion)
	switch {
	case err == nil && known:
		log.Info("An object that could not be decoded can be now: it is reconciled again")
		s.forget(key)
	case err != nil:
		if !known || before.metadata.ResourceVersion != head.ResourceVersion {
			log.Error(err, "An object cannot be decoded: it is not reconciled until its field is corrected, all others are",
				"field", s.culprit(object))
		}
		s.bad[key] = refusal{metadata: head.ObjectMeta, round: s.round}
		telemetry.Undecodable(s.kind.Kind, head.Namespace, head.Name)
	}
	return head.ObjectMeta, err == nil
}

// gone puts on record that an object was deleted.
func (s *sieve) gone(metadata metav1.ObjectMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(keyOf(metadata))
}

// forget takes an object off the record. The caller holds the lock.
func (s *sieve) forget(key string) {
	if r, known := s.bad[key]; known {
		delete(s.bad, key)
		telemetry.Decodable(s.kind.Kind, r.metadata.Namespace, r.metadata.Name)
	}
}

// decode tries what the client does.
func (s *sieve) decode(object []byte) error {
	return utiljson.Unmarshal(object, reflect.New(s.goType).Interface())
}

// earlier returns the version of an object that the informer has; nil for none.
func (s *sieve) earlier(metadata metav1.ObjectMeta, change func(client.Object)) json.RawMessage {
	found, exists, err := s.known.GetByKey(keyOf(metadata))
	kept, ok := found.(client.Object)
	if err != nil || !exists || !ok || kept.GetUID() != metadata.UID {
		return nil
	}
	kept = kept.DeepCopyObject().(client.Object)
	kept.GetObjectKind().SetGroupVersionKind(s.kind)
	change(kept)
	text, err := json.Marshal(kept)
	if err != nil {
		// It was decoded from JSON.
		return nil
	}
	return text
}

func keyOf(metadata metav1.ObjectMeta) string {
	return toolscache.ObjectName{Namespace: metadata.Namespace, Name: metadata.Name}.String()
}
