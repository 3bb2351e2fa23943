// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/writing"
)

// sentinel is what the process manager starts beside itself. It is no command for people, and makes nothing of what theirs need:
// all that it does is to wait.
func sentinel() int {
	fmt.Fprintf(os.Stderr, "agent: %v\n", writing.BeSentinel())
	return 1
}

// sentinelStarter starts this program as a sentinel.
func sentinelStarter(reap *reaper.Reaper) writing.StartSentinel {
	return func(timer *os.File) (writing.Process, error) {
		return reap.Start(reaper.Spec{Command: []string{self, writing.SentinelCommand}, Env: append(os.Environ(), "GOMAXPROCS=1", "GOGC=off"),
			Stderr: os.Stderr, Inherited: timer})
	}
}
