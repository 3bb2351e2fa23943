// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// How far a pod may be behind is asked only of a plugin that can tell, and then handed to the set with what tells it.
func TestMaxLagNeedsAPluginThatTells(t *testing.T) {
	app := application(func(a *platformv1.Application) {
		a.Spec.Topology, a.Spec.Failover = "replication", &platformv1.Failover{MaxLag: new(resource.MustParse("1Mi"))}
	})
	const says = `failover.maxLag is set, and the plugin cannot tell how far a pod of component "redis" is behind: take ` +
		`it out`
	if specs, refusal := Components(changed(t, redisSources(t)), app); refusal == nil || specs != nil ||
		refusal.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(refusal.Message, says) {
		t.Errorf("got %+v, %v; want %s", specs, refusal, says)
	}
	tells := changed(t, redisSources(t), "      measure: measure\n",
		"      measure: measure\n      lagAttribute: silence\n")
	ws, _ := render(t, tells, settings, app)
	f := ws.Spec.Failover
	if f == nil || f.MaxLag == nil || f.MaxLag.Value() != 1<<20 || f.LagAttribute != "silence" ||
		f.Mode != platformv1.FailoverAuto || f.After.Duration != 2*time.Second {
		t.Errorf("the set fails over by %+v", f)
	}
}
