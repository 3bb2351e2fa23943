// SPDX-License-Identifier: Apache-2.0

package plan

// Hooks are commands that the process manager runs beside the process at points of its life. They are part of what only
// a restart changes. An agent without the capability "hooks" runs none.
type Hooks struct {
	// PreStart is run before each start of the process, with its files written, and has to succeed: else there is no
	// start, and the next attempt comes after the delay of Backoff.
	PreStart *Hook `json:"preStart,omitempty"`
	// PostStart is run once the process has stayed up. When it fails that is told, and the process goes on.
	PostStart *Hook `json:"postStart,omitempty"`
	// PreStop is run before the stop signal, within the time of Stop. Whatever becomes of it, the signal follows. A
	// process that is killed, because its permission to write ended, has none.
	PreStop *Hook `json:"preStop,omitempty"`
}

// Hook is one command. It has ended well with exit code 0.
type Hook struct {
	// Command and arguments; never through a shell.
	Command []string `json:"command"`
	// Env is added to the container's environment.
	Env []EnvVar `json:"env,omitempty"`
	// TimeoutSeconds until it is killed with its process group, which counts as a failure. Default 10.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// DefaultHookSeconds is the time that a hook has when it says none.
const DefaultHookSeconds = 10

// MaxPodHookSeconds is the most that the hook before a stop may take of its time where the pod ends, and not the
// process alone. It is part of the grace period of the pod, half of which passes before Kubernetes looks again whether
// a namespace that is deleted is empty.
const MaxPodHookSeconds = 330

// HookPoint is a point in the life of a process, by its name in Hooks.
type HookPoint string

// Points, in the order in which a process comes by.
const (
	PreStart  HookPoint = "preStart"
	PostStart HookPoint = "postStart"
	PreStop   HookPoint = "preStop"
)

// At returns the hooks that there are, by point.
func (h *Hooks) At() map[HookPoint]*Hook {
	at := map[HookPoint]*Hook{}
	if h == nil {
		return at
	}
	for point, hook := range map[HookPoint]*Hook{PreStart: h.PreStart, PostStart: h.PostStart, PreStop: h.PreStop} {
		if hook != nil {
			at[point] = hook
		}
	}
	return at
}

// Hook returns the hook at a point; nil for none.
func (p Process) Hook(point HookPoint) *Hook {
	return p.Hooks.At()[point]
}
