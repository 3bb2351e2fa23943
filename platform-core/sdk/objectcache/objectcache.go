// SPDX-License-Identifier: Apache-2.0

// Package objectcache makes caches that survive objects which cannot be decoded: those that were written before the
// schema had a rule about it, or under an older definition. The informers of client-go take a list or an event as a
// whole, so that one duration such as "1d" would leave an operator without any object of that kind.
//
// Such an object stalls alone. It is named in a log line and in the metric zeroinfra_undecodable_objects. A cache that
// has an earlier version of it, which did decode, keeps that: to controllers it is not deleted, and what was made of it
// goes on. A cache that begins later lacks it. Once the object decodes, or is deleted, the cache has what the API
// server has, as usual.
//
// Nothing of this costs anything until a list or a watch fails to decode: the answers of the API server for that kind
// are looked at object by object from then on, and are no more once the last such object is gone.
package objectcache

import (
	"fmt"
	"net/http"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// New is cache.New for a cache that survives objects which cannot be decoded. It is a cache.NewCacheFunc.
func New(config *rest.Config, o cache.Options) (cache.Cache, error) {
	if o.HTTPClient == nil {
		made, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("cannot make an HTTP client: %w", err)
		}
		o.HTTPClient = made
	}
	if o.Scheme == nil {
		o.Scheme = clientgoscheme.Scheme
	}
	sifting := *o.HTTPClient
	sifting.Transport = transport{base: o.HTTPClient.Transport}
	o.HTTPClient = &sifting
	o.NewInformer = informers{o.Scheme}.make
	return cache.New(config, o)
}

// informers makes those of a cache.
type informers struct{ scheme *runtime.Scheme }

// make is toolscache.NewSharedIndexInformer with a sieve, for objects that have a Go type of their own: all others
// always decode.
func (i informers) make(
	upstream toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	_, anything := object.(runtime.Unstructured)
	_, metadata := object.(*metav1.PartialObjectMetadata)
	kind, err := apiutil.GVKForObject(object, i.scheme)
	if anything || metadata || err != nil {
		return toolscache.NewSharedIndexInformer(upstream, object, resync, indexers)
	}
	s := &sieve{
		upstream: toolscache.ToListerWatcherWithContext(upstream),
		kind:     kind,
		goType:   reflect.TypeOf(object).Elem(),
		log:      ctrl.Log.WithName("cache"),
		bad:      map[string]refusal{},
	}
	sifted := &toolscache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	informer := toolscache.NewSharedIndexInformer(sifted, object, resync, indexers)
	s.known = informer.GetStore()
	return informer
}

// transport hands the answers to requests of an informer with a sieve in use to that.
type transport struct{ base http.RoundTripper }

// WrappedRoundTripper has client-go find what it looks for in the transport.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	response, err := base.RoundTrip(request)
	s := sieveOf(request.Context())
	if err != nil || s == nil || response.StatusCode != http.StatusOK || !isJSON(response) {
		return response, err
	}
	if request.URL.Query().Get("watch") == "true" {
		response.Body = s.siftStream(response.Body, request.URL.Query().Get("sendInitialEvents") == "true")
	} else if response.Body, err = s.siftList(response.Body); err != nil {
		return nil, err
	}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}
