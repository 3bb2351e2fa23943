// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"

	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/writing"
)

// sentinel is what the process manager starts beside itself. It is no command for people, and makes nothing of what
// theirs need: all that it does is to wait.
func sentinel() int {
	err := writing.BeSentinel()
	// A log is made now only: until then nothing is there but the wait.
	_ = program.Logged(os.Stderr, func(log *slog.Logger) error {
		log.Error("the sentinel ends", "error", err.Error())
		return nil
	})
	return 1
}

// sentinelStarter starts this program as a sentinel.
func sentinelStarter(reap *reaper.Reaper) writing.StartSentinel {
	return func(timer *os.File) (writing.Process, error) {
		return reap.Start(reaper.Spec{Command: []string{self, writing.SentinelCommand},
			Env:    append(os.Environ(), "GOMAXPROCS=1", "GOGC=off"),
			Stderr: os.Stderr, Inherited: timer})
	}
}
