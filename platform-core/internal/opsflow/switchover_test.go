// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// handing is a run of a Switchover of a set whose primary the engine names.
func handing(to string) *world { return writingWorld("Switchover", map[string]string{"to": to}) }

// declines has the set say that its primary does not hand over; empty when it does after all.
func declines(why string) func(*world) { return func(w *world) { w.refuse["for now"] = why } }

// switchoverStories are those of a set that does not do what it is asked.
var switchoverStories = map[string]func() *world{
	"switchover-declined": func() *world {
		w := handing("")
		w.happens("The Operation starts.", nil)
		w.happens("Nobody can take over.", declines("pod redis-a-main-0 is to hand over, and no other can take over: "+
			"redis-a-main-1 is 100 bytes behind, and failover.maxLag is 10"))
		w.happens("9 s later.", wait(9*time.Second))
		w.crash = crashAfterCall
		w.happens("Another second later; the controller dies once it has looked how that stands.", wait(time.Second))
		w.happens("A controller starts.", nil)
		w.outputs()
		return w
	},
	"switchover-declined-for-a-while": func() *world {
		w := handing("redis-a-main-2")
		w.happens("The Operation starts.", nil)
		w.happens("Pod 2 is behind.", declines("redis-a-main-2 is 100 bytes behind"))
		w.happens("9 s later it has caught up.", func(w *world) { wait(9 * time.Second)(w); declines("")(w) })
		w.happens("It falls behind again.", declines("redis-a-main-2 is 90 bytes behind"))
		w.happens("9 s later it takes over.", func(w *world) {
			wait(9 * time.Second)(w)
			deposed(w)
			named(2)(w)
			labelled(2)(w)
		})
		w.outputs()
		return w
	},
	"switchover-declined-and-tried-again": func() *world {
		w := handing("")
		w.op.Spec.Retry = &platformv1.OperationRetry{Limit: 1}
		w.happens("The Operation starts.", nil)
		w.happens("Nobody can take over.", declines("nobody is a member"))
		w.happens("10 s later.", wait(10*time.Second))
		w.happens("5 s later.", wait(5*time.Second))
		w.happens("Another pod can, and takes over.", func(w *world) {
			declines("")(w)
			deposed(w)
			named(1)(w)
			labelled(1)(w)
		})
		return w
	},
}
