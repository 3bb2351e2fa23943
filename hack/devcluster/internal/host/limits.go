// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// limits are kernel parameters whose defaults are too small for several
// kubelets of one user on one machine, with the least value that a few
// clusters need. Where a limit is hit, kubelets end with "too many open files".
var limits = map[string]int{
	"/proc/sys/fs/inotify/max_user_instances": 4096,
	"/proc/sys/fs/inotify/max_user_watches":   131072,
}

// RaiseLimits raises kernel parameters that are too small, never lowers one,
// and says what it did.
func RaiseLimits(say func(format string, args ...any)) error {
	for path, least := range limits {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("cannot read kernel parameter %q: %w", path, err)
		}
		now, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			return fmt.Errorf("cannot read kernel parameter %q: %w", path, err)
		}
		if now >= least {
			continue
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(least)), 0); err != nil {
			return fmt.Errorf("cannot raise kernel parameter %q from %d to %d: %w", path, now, least, err)
		}
		say("raised kernel parameter %s from %d to %d", path, now, least)
	}
	return nil
}
