// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestOperationsOfEachPlugin tries, on the real middleware of each plugin, the Operations that no other test does: each
// succeeds, does to the pods what it says and to nothing else, has an effect that the running thing itself tells, and
// leaves all that was written before.
func TestOperationsOfEachPlugin(t *testing.T) {
	t.Parallel()
	for _, plugin := range []operatedPlugin{operatedRedis, operatedEtcd, operatedNginx, operatedMinio,
		operatedPostgreSQL} {
		t.Run(plugin.name, func(t *testing.T) {
			t.Parallel()
			s := framework.NewNamespace(t, "ops-"+plugin.name)
			plugin.make(s)
			plugin.as(s).settle()
			var words []string
			for _, try := range plugin.tries {
				if !t.Run(try.template, func(t *testing.T) { words = plugin.as(s.In(t)).goesThrough(try, words) }) {
					// The next one would be judged by what this one left.
					return
				}
			}
		})
	}
}

// goesThrough tries one Operation. It returns what was written so far.
func (o *operated) goesThrough(try operatedTry, words []string) []string {
	o.Helper()
	name := strings.ToLower(try.template)
	before, err := o.stands()
	if err != nil {
		o.Fatal(err)
	}
	claims := o.volumes()
	if len(before) > 0 {
		words = append(words, name)
		o.write(name)
	}
	var parameters []string
	took := func(*platformv1.Operation) {}
	if try.begin != nil {
		parameters, took = try.begin(o)
	}
	op := framework.NewOperation(name, try.template, o.target, parameters...)
	o.Create(op)
	op = o.WaitForOperationEnd(name, operatedIn)
	if op.Status.Phase != platformv1.OperationSucceeded {
		o.Fatalf("%s is %s: %s", try.template, op.Status.Phase, op.Status.Error)
	}
	o.Logf("%s took %s", try.template, op.Status.CompletionTime.Sub(op.Status.StartTime.Time))
	took(op)
	// An agent reports a moment later what it has started.
	o.Eventually(framework.SettleTimeout, string(try.pods), func() error {
		after, err := o.stands()
		if err != nil {
			return err
		}
		return try.pods.became(before, after, claims, o.volumes(), string(op.Spec.Parameters["pod"]))
	})
	if try.pods != podsEnd {
		o.settle()
		o.holds(words)
	}
	return words
}
