// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// checkRebuild has the volume of a follower deleted under load by a RebuildMember: the cluster has three members again,
// one of them with another ID, which has copied what it missed; and nothing that was acknowledged is lost.
func (e *etcd) checkRebuild() {
	leader, followers := e.led()
	lost := followers[0]
	before := e.memberIDs(leader)
	w := e.startWriterTo(leader, e.local())
	op := framework.NewOperation("rebuild", "RebuildMember", framework.CoreReference("Application", e.Name), "pod", lost)
	e.Create(op)
	e.ExpectOperationSucceeded(op.Name)
	e.WaitReady()
	e.Eventually(framework.SettleTimeout, "three members serve, one of them a new one", func() error {
		after := e.memberIDs(leader)
		if len(after) != 3 || after[lost] == "" || after[lost] == before[lost] {
			return fmt.Errorf("the members were %v and are %v", before, after)
		}
		for pod, id := range before {
			if pod != lost && after[pod] != id {
				return fmt.Errorf("member %s had the ID %s and has %s", pod, id, after[pod])
			}
		}
		return nil
	})
	w.stop(framework.FailoverGapLimit)
	if out := e.mustCtl(lost, e.local(), "get", "kept", "--consistency=s", "--print-value-only"); out != "yes" {
		e.Errorf("the member that joined anew has %q for what was put before, want yes", out)
	}
}

// memberIDs are the IDs of the members that serve, by name.
func (e *etcd) memberIDs(pod string) map[string]string {
	e.Helper()
	found := map[string]string{}
	for line := range strings.Lines(e.mustCtl(pod, e.service(), "member", "list")) {
		// ID, status, name, peer URLs, client URLs, learner
		if fields := strings.Split(strings.TrimSpace(line), ", "); len(fields) >= 5 && fields[4] != "" {
			found[fields[2]] = fields[0]
		}
	}
	return found
}

// checkSpace fills the space of the cluster with revisions of one key: etcd refuses writes, a condition says so, and
// the Operation FreeSpace has it take them again.
func (e *etcd) checkSpace() {
	e.Update(framework.WithComponent(etcdComponent, func(c *platformv1.ApplicationComponent) {
		c.Parameters = maps.Clone(c.Parameters)
		c.Parameters["quota-backend-bytes"] = "16777216"
	}))
	e.WaitReady()
	leader, _ := e.led()
	fill := `i=0; while [ $i -lt 200 ]; do i=$((i+1)); head -c 400000 /dev/zero | tr '\0' x | etcdctl --endpoints="$1" ` +
		`put big >/dev/null || exit 0; done; exit 1`
	if out, err := framework.Run(e.Ctx, e.Namespace.Name, leader, etcdComponent, "",
		e.client("sh", "-c", fill, "fill", e.local())...); err != nil {
		e.Fatalf("80 MB were written in spite of a quota of 16 MiB: %v\n%s", err, out)
	}
	if _, err := e.ctl(leader, e.local(), "put", "more", "x"); err == nil {
		e.Error("etcd takes writes beyond its quota")
	}
	clear := func() *metav1.Condition { return meta.FindStatusCondition(e.Object().Status.Conditions, "AlarmsClear") }
	e.Eventually(framework.SettleTimeout, "a condition tells of the alarm", func() error {
		if c := clear(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NoSpace" ||
			!strings.Contains(c.Message, "FreeSpace") {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
	op := framework.NewOperation("free", "FreeSpace", framework.CoreReference("Application", e.Name))
	e.Create(op)
	e.ExpectOperationSucceeded(op.Name)
	e.mustCtl(leader, e.local(), "put", "more", "x")
	e.Eventually(framework.SettleTimeout, "the condition is gone", func() error {
		if c := clear(); c != nil {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
	if out := e.mustCtl(leader, e.service(), "get", "kept", "--print-value-only"); out != "yes" {
		e.Errorf("after the compaction the value is %q, want yes", out)
	}
}
