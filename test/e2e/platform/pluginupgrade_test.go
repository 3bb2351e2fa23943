// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// countKeys is a template that asks a Redis from a pod of its own.
const countKeys = `name: CountKeys
parameters: {host: {schema: string, default: ""}}
steps:
  - name: count
    timeout: 3m
    job:
      component: redis
      command: [sh, -c, 'n=$(redis-cli -e -h "$HOST" --no-auth-warning DBSIZE) &&
        echo "keys=$n" > /dev/termination-log']
      env:
        - {name: HOST, value: "${parameters.host == '' ? target.application : parameters.host}"}
        - {name: REDISCLI_AUTH, secret: {credential: default, key: password}}
      outputs: {keys: '=~"^[0-9]+$"'}
`

// TestPluginUpgrade proves that an instance goes to another version of its plugin by an Operation only, that what this
// changes nothing of goes on and what it changes in place happens in place, and that a template of it runs a job.
func TestPluginUpgrade(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pluginup")
	next, last := s.NewBundle(), s.NewBundle()
	next.Parts["manifest"]["allowed-upgrade-from"] = framework.OriginalVersion
	next.Parts["operations"]["CountKeys.yaml"] = countKeys
	last.Parts["manifest"]["allowed-upgrade-from"] = next.Version
	last.Replace(`args: ["*", "-::*"]`, `args: ["*"]`)
	i := s.CreateRedis("db", framework.WithPluginVersion(framework.OriginalVersion))
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := i.Footprint()
	s.ExpectOperationRefused(framework.NewOperation("early", "UpgradeApp", i.Reference(), "version", next.Version),
		"plugin redis has no version "+next.Version)
	for _, b := range []*framework.Bundle{next, last} {
		b.Install()
		b.ExpectAccepted()
	}
	s.ExpectRefused(i.TryUpdate(framework.WithPluginVersion(next.Version)),
		"template UpgradeApp with targetRef Redis 'db'")
	s.ExpectOperationRefused(framework.NewOperation("too-far", "UpgradeApp", i.Reference(), "version", last.Version),
		"does not take over from version "+framework.OriginalVersion)

	s.Create(framework.NewOperation("next", "UpgradeApp", i.Reference(), "version", next.Version))
	s.ExpectOperationSucceeded("next")
	app := &platformv1.Application{}
	s.MustGet(i.Application(), app)
	if app.Status.Plugin == nil || app.Status.Plugin.Version != next.Version || app.Spec.PluginVersion != next.Version {
		t.Errorf("the Application is made from %+v, want version %s", app.Status.Plugin, next.Version)
	}
	unharmed(i, before)

	s.Create(framework.NewOperation("count", "CountKeys", i.Reference()))
	if outputs := s.ExpectOperationSucceeded("count").Status.Steps[0].Outputs; outputs["keys"] != "1" {
		t.Errorf("the job says %v, want one key", outputs)
	}
	s.ExpectOperationRefused(framework.NewOperation("lost", "CountKeys", i.Reference(), "host", "nowhere.invalid"),
		"job lost-count failed: exit code 1")
	s.MustGet("lost-count", &batchv1.Job{})
	s.Eventually(framework.ErrorTimeout, "the job that succeeded is removed",
		func() error { return framework.ErrUnlessNotFound(s.Get("count-count", &batchv1.Job{})) })

	s.Create(framework.NewOperation("last", "UpgradeApp", i.Reference(), "version", last.Version))
	s.ExpectOperationSucceeded("last")
	if err := before.RestartedInPlace(i.Footprint()); err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(i.MustDo("CONFIG", "GET", "bind")); !strings.HasSuffix(got, "*") ||
		strings.Contains(got, "-::*") {
		t.Errorf("the server says %q of bind", got)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
}
