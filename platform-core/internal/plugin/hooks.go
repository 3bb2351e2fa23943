// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkHooks: one at least is named, and what each has for its variables is there.
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
}
