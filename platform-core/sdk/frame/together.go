// SPDX-License-Identifier: Apache-2.0

package frame

import "sync"

// atOnce is how many things one turn does at the same time, so that an object of many parts leaves room for others.
const atOnce = 8

// Together does things that do not depend on each other at the same time: what takes long is the way to the API server
// and back. It returns when all are through, with the first error in their order.
func Together(tasks ...func() error) error {
	failures, panics := make([]error, len(tasks)), make([]any, len(tasks))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, task := range tasks {
		slots <- struct{}{}
		all.Go(func() {
			// A panic is for the goroutine of the turn, where it ends that turn only.
			defer func() { panics[i] = recover(); <-slots }()
			failures[i] = task()
		})
	}
	all.Wait()
	for i := range tasks {
		if panics[i] != nil {
			panic(panics[i])
		}
		if failures[i] != nil {
			return failures[i]
		}
	}
	return nil
}
