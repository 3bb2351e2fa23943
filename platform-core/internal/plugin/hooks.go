// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkHooks: what is run before a stop leaves the process time to stop.
func (l *loader) checkHooks(path document.Path, c *schema.Component) {
	hooks := c.Process.Hooks
	if hooks == nil {
		return
	}
	at := hooks.At()
	if len(at) == 0 {
		l.wrong(path, "has no hook: name one of preStart, postStart and preStop, or take it out")
	}
	for _, point := range []plan.HookPoint{plan.PreStart, plan.PostStart, plan.PreStop} {
		if hook := at[point]; hook != nil {
			l.checkEnv(path.With(string(point)).With("env"), c, hook.Env)
		}
	}
	if hooks.PreStop == nil {
		return
	}
	hook, stop := cmp.Or(hooks.PreStop.TimeoutSeconds, plan.DefaultHookSeconds),
		cmp.Or(c.Process.Stop.TimeoutSeconds, DefaultStopTimeoutSeconds)
	if hook >= stop {
		l.wrong(path.With(string(plan.PreStop)), "may take %d s, and the process is killed %d s after its stop began: give "+
			"it less (timeoutSeconds), or the stop more (process.stop.timeoutSeconds)", hook, stop)
	}
}
