// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Clean returns an error unless the repository at root is under git, and has no change that is not committed: so
// "git checkout . && git clean -fd" takes a kind back, and nothing else.
func Clean(root string) error {
	out, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
	if err != nil {
		reason := err.Error()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			reason = strings.TrimSpace(string(exit.Stderr))
		}
		return fmt.Errorf("git cannot say whether %s has changes, and a kind is written only where it can be taken back: %s",
			root, reason)
	}
	if changes := strings.TrimSpace(string(out)); changes != "" {
		first, _, _ := strings.Cut(changes, "\n")
		return fmt.Errorf("%s has changes that are not committed, such as %q: commit or stash them, so that the kind can be "+
			"taken back by itself", root, strings.TrimSpace(first))
	}
	return nil
}
