// SPDX-License-Identifier: Apache-2.0

// Package memo keeps what takes long to make and is asked for again and again while an object is at work. At rest
// nobody asks, and nothing is kept.
package memo

import (
	"time"

	"k8s.io/utils/lru"
)

// rest is how long after it was last asked a Memo keeps what it has.
const rest = 10 * time.Second

// Memo keeps values under all that they depend on. It is safe for concurrent use; the values are shared, and nobody may
// change them.
type Memo[K comparable, V any] struct {
	kept  *lru.Cache
	clear *time.Timer
}

// New returns a Memo of at most so many values: the least recently used go first.
func New[K comparable, V any](size int) Memo[K, V] {
	kept := lru.New(size)
	return Memo[K, V]{kept: kept, clear: time.AfterFunc(rest, kept.Clear)}
}

// Of returns the value under a key, which is made when it is not kept. An error is not kept.
func (m Memo[K, V]) Of(key K, produce func() (V, error)) (V, error) {
	m.clear.Reset(rest)
	if known, found := m.kept.Get(key); found {
		return known.(V), nil
	}
	value, err := produce()
	if err == nil {
		m.kept.Add(key, value)
	}
	return value, err
}
