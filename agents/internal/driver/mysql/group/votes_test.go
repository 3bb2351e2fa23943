// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// rendered is the probe of a member as the plugin renders it.
func rendered(t *testing.T) plan.Probe {
	t.Helper()
	const plugin = "../database-operator/plugins/mysql/1.0.0"
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/zictl", "plugin", "render", plugin, "-f", plugin+
		"/testdata/group.in.yaml")
	cmd.Dir, cmd.Stderr = "../../../../../platform-core", &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot render the plugin: %v: %s", err, said.String())
	}
	for documents := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var object struct {
			Kind string
			Spec struct {
				Plan struct{ Probe map[string]any }
			}
		}
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			t.Fatal("there is no WorkloadSet with a probe")
		} else if err != nil {
			t.Fatal(err)
		}
		if object.Kind != "WorkloadSet" {
			continue
		}
		var p plan.Probe
		data, err := json.Marshal(object.Spec.Plan.Probe)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// probed is what the probe finds in a member.
func (c *cluster) probed(pod string) (probe.Outcome, error) {
	p := c.probe
	expressions, err := probe.Compile(p)
	if err != nil {
		c.Fatal(err)
	}
	_, statement, found := strings.Cut(strings.Join(p.Command, "\n"), "--execute=")
	if !found {
		c.Fatalf("the probe is %q", p.Command)
	}
	said, err := c.servers[pod].TrySQL(statement)
	return expressions.Judge(command.Result{Stdout: said}), err
}

// votesLike waits until a member that copies, and is not healthy, reports what a healthy one does: whom it takes for
// the primary, and in which view.
func (c *cluster) votesLike(copying, healthy, primary string) {
	c.Helper()
	what := fmt.Sprintf("%s votes for %s as %s does", copying, primary, healthy)
	c.servers[copying].Until(what, func(context.Context) error {
		one, err := c.probed(copying)
		if err != nil {
			return err
		}
		other, err := c.probed(healthy)
		if err != nil {
			return err
		}
		switch {
		case one.Cause != probe.CauseUnhealthy || one.Role != "" || one.Attributes["state"] != "RECOVERING":
			return fmt.Errorf("it is %+v", one)
		case other.Cause != "" || other.Attributes["primary"] == "" || other.Attributes["view"] == "":
			return fmt.Errorf("%s is %+v", healthy, other)
		case one.Attributes["uuid"] == "" || one.Attributes["uuid"] == other.Attributes["uuid"],
			one.Attributes["primary"] != other.Attributes["primary"], one.Attributes["view"] != other.Attributes["view"]:
			return fmt.Errorf("it reports %v, and %s reports %v", one.Attributes, healthy, other.Attributes)
		}
		leader, err := c.probed(primary)
		if err == nil && (leader.Role != "primary" || leader.Attributes["uuid"] != one.Attributes["primary"]) {
			err = fmt.Errorf("%s is %+v", primary, leader)
		}
		return err
	})
}

// A member that copies what it lacks is not healthy, and reports whom it takes for the primary all the same, also when
// that has just died.
func TestMemberThatCopiesVotes(t *testing.T) {
	c := newCluster(t)
	c.probe = rendered(t)
	c.settle(group.Unformed)
	c.servers["a"].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	c.everywhere(1)
	held := c.servers["c"]
	held.SQL("STOP GROUP_REPLICATION")
	if outcome, err := c.probed("c"); err != nil || outcome.Cause != probe.CauseUnhealthy || outcome.Attributes != nil {
		t.Errorf("a member that is out of the group reports %+v, %v", outcome, err)
	}

	t.Log("a reader has what is copied wait for it")
	reads := make(chan error, 1)
	go func() {
		_, err := held.TrySQL("SELECT SLEEP(3600) FROM app.rows_")
		reads <- err
	}()
	reader := ""
	held.Until("there is a reader", func(context.Context) error {
		said, err := held.TrySQL("SELECT ID FROM performance_schema.processlist WHERE INFO LIKE 'SELECT SLEEP(3600)%'")
		if reader = said; err == nil && said == "" {
			err = errors.New("there is none")
		}
		return err
	})
	c.servers["a"].SQL("ALTER TABLE app.rows_ ADD COLUMN m INT")
	if state, err := c.Step(t.Context(), c.shape, group.Formed); err != nil || state.Phase != group.Working {
		t.Fatalf("got %+v, %v", state, err)
	}
	c.votesLike("c", "b", "a")

	t.Log("the primary is killed")
	c.servers["a"].Kill()
	c.votesLike("c", "b", "b")

	t.Log("the reader ends")
	held.SQL("KILL " + reader)
	if err := <-reads; err == nil {
		t.Error("the reader was not ended")
	}
	held.Until("it has copied", func(context.Context) error {
		outcome, err := c.probed("c")
		if err == nil && outcome.Cause != "" {
			err = fmt.Errorf("it is %+v", outcome)
		}
		return err
	})
}
