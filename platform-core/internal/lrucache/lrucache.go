// SPDX-License-Identifier: Apache-2.0

// Package lrucache caches values that are expensive to compute and are used again and again while an object is being
// reconciled. A cache that is not used for a while is emptied.
package lrucache

import (
	"time"

	"k8s.io/utils/lru"
)

// idleTimeout is the time after its last use at which a Cache is emptied.
const idleTimeout = 10 * time.Second

// Cache holds values by a key that has everything that the value depends on. It is safe for concurrent use. The values
// are shared: callers must not change them.
type Cache[K comparable, V any] struct {
	values *lru.Cache
	timer  *time.Timer
}

// New returns a Cache of at most size values. The least recently used one is evicted first.
func New[K comparable, V any](size int) Cache[K, V] {
	values := lru.New(size)
	return Cache[K, V]{values: values, timer: time.AfterFunc(idleTimeout, values.Clear)}
}

// Get returns the value of a key, and calls produce if it is not cached. Errors are not cached.
func (c Cache[K, V]) Get(key K, produce func() (V, error)) (V, error) {
	c.timer.Reset(idleTimeout)
	if value, found := c.values.Get(key); found {
		return value.(V), nil
	}
	value, err := produce()
	if err == nil {
		c.values.Add(key, value)
	}
	return value, err
}
