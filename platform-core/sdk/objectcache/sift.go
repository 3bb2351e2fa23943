// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unchanged leaves an earlier version of an object as it is. Its resource version is older than that of the API server,
// so that a write which depends on it is refused.
func unchanged(client.Object) {}

// siftList returns a list without what cannot be decoded; the version that the informer has takes its place, if there
// is one.
func (s *sieve) siftList(body io.ReadCloser) (io.ReadCloser, error) {
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	var list map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(data, &list) != nil || json.Unmarshal(list["items"], &items) != nil {
		// No list: the client tells what it is.
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	sifted := make([]json.RawMessage, 0, len(items))
	for _, item := range items {
		metadata, decodes := s.check(item)
		if !decodes {
			item = s.earlier(metadata, unchanged)
		}
		if item != nil {
			sifted = append(sifted, item)
		}
	}
	if list["items"], err = json.Marshal(sifted); err != nil {
		return nil, err
	}
	if data, err = json.Marshal(list); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// stream is the body of a watch without what cannot be decoded.
type stream struct {
	sieve   *sieve
	body    io.Closer
	events  *json.Decoder
	pending []byte
}

// siftStream returns the events of a watch without those that cannot be decoded. A watch that lists begins with an
// event for each object, and marks their end.
func (s *sieve) siftStream(body io.ReadCloser, lists bool) io.ReadCloser {
	if lists {
		s.begin()
	}
	return &stream{sieve: s, body: body, events: json.NewDecoder(body)}
}

// Close implements io.Closer.
func (s *stream) Close() error { return s.body.Close() }

// Read implements io.Reader.
func (s *stream) Read(into []byte) (int, error) {
	for len(s.pending) == 0 {
		var event json.RawMessage
		if err := s.events.Decode(&event); err != nil {
			return 0, err
		}
		s.pending = s.sieve.siftEvent(event)
	}
	n := copy(into, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// siftEvent returns an event that can be decoded, nil for none.
func (s *sieve) siftEvent(raw json.RawMessage) []byte {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(raw, &event) != nil {
		return raw
	}
	switch event.Type {
	case watch.Bookmark:
		s.bookmark(event.Object)
		return raw
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return raw
	}
	metadata, decodes := s.check(event.Object)
	if event.Type == watch.Deleted {
		s.gone(metadata)
	}
	if decodes {
		return raw
	}
	switch event.Type {
	case watch.Added:
		event.Object = s.earlier(metadata, unchanged)
	case watch.Deleted:
		// Of an object that is gone the informer wants to know the last version.
		event.Object = s.earlier(metadata, func(o client.Object) { o.SetResourceVersion(metadata.ResourceVersion) })
	default:
		// The informer keeps the one that it has.
		return nil
	}
	if event.Object == nil {
		return nil
	}
	sifted, err := json.Marshal(event)
	if err != nil {
		return nil
	}
	return slices.Concat(sifted, []byte("\n"))
}

// bookmark ends the listing of a watch that lists.
func (s *sieve) bookmark(object json.RawMessage) {
	var mark metav1.PartialObjectMetadata
	if json.Unmarshal(object, &mark) == nil && mark.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		s.end()
	}
}
