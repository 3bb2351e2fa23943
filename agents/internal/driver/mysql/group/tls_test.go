// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/testpki"
)

// certificates are those of all members, in one folder.
type certificates struct {
	authority *testpki.Authority
	dir       string
}

// issue makes another certificate, which ends so late.
func (c *certificates) issue(t *testing.T, after time.Duration) {
	t.Helper()
	leaf := testpki.Pod("mysql-0", "shop")
	leaf.NotAfter = time.Now().Add(after)
	certificate, key := c.authority.Issue(t, leaf)
	for name, text := range map[string][]byte{"ca.crt": c.authority.PEM(), "tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(c.dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Members show each other a renewed certificate only once they have joined anew. One after the other does so, the
// primary last.
func TestGroupSpeaksTLS(t *testing.T) {
	files := &certificates{testpki.New(t), t.TempDir()}
	files.issue(t, time.Hour)
	c := newClusterWith(t, files.dir)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	c.everywhere(1)
	c.phase(group.Done, "")

	t.Log("the certificate is renewed")
	files.issue(t, 2*time.Hour)
	c.phase(group.Done, "")
	for _, pod := range pods {
		c.servers[pod].SQL("ALTER INSTANCE RELOAD TLS")
	}
	c.phase(group.Working, "b leaves the group for a moment, to show the others its renewed certificate")
	c.settle(group.Formed)
	if now := c.primary(); now == "a" {
		t.Error("a was the last one, and is still the primary")
	}
	if err := c.write(c.primary(), 2); err != nil {
		t.Error(err)
	}
	c.everywhere(2)
}

// phase has the members be in a phase, for a reason.
func (c *cluster) phase(want, reason string) {
	c.Helper()
	state, err := c.Look(c.Context(), c.shape, group.Formed)
	if err != nil || state.Phase != want || !strings.Contains(state.Reason, reason) {
		c.Errorf("got %+v, %v", state, err)
	}
}
