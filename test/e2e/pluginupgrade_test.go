// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// countKeys is a template that asks a Redis from a pod of its own.
const countKeys = `name: CountKeys
parameters: {host: {schema: string, default: ""}}
steps:
  - name: count
    timeout: 3m
    job:
      component: redis
      command: [sh, -c, 'n=$(redis-cli -e -h "$HOST" --no-auth-warning DBSIZE) && echo "keys=$n" > /dev/termination-log']
      env:
        - {name: HOST, value: "${parameters.host == '' ? target.application : parameters.host}"}
        - {name: REDISCLI_AUTH, secret: {credential: default, key: password}}
      outputs: {keys: '=~"^[0-9]+$"'}
`

// TestPluginUpgrade proves that an instance goes to another version of its plugin by an Operation only, that what this changes nothing of
// goes on and what it changes in place happens in place, and that a template of it runs a job.
func TestPluginUpgrade(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "pluginup")
	next, last := s.newBundle(), s.newBundle()
	next.parts["manifest"]["allowed-upgrade-from"] = originalVersion
	next.parts["operations"]["CountKeys.yaml"] = countKeys
	last.parts["manifest"]["allowed-upgrade-from"] = next.version
	last.replace(`args: ["*", "-::*"]`, `args: ["*"]`)
	i := s.redis("db", ofPlugin(originalVersion))
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.footprint()
	s.refusedOperation(operation("early", "UpgradeApp", i.reference(), "version", next.version), "plugin redis has no version "+next.version)
	for _, b := range []*bundle{next, last} {
		b.install()
		b.accepted()
	}
	s.wantRefused(i.tryUpdate(func(spec *databasev1.RedisSpec) { spec.PluginVersion = next.version }), "template UpgradeApp with targetRef Redis 'db'")
	s.refusedOperation(operation("too-far", "UpgradeApp", i.reference(), "version", last.version), "does not take over from version "+originalVersion)

	s.create(operation("next", "UpgradeApp", i.reference(), "version", next.version))
	s.succeeded("next")
	app := &platformv1.Application{}
	s.mustGet(i.application(), app)
	if app.Status.Plugin == nil || app.Status.Plugin.Version != next.version || app.Spec.PluginVersion != next.version {
		t.Errorf("the Application is made from %+v, want version %s", app.Status.Plugin, next.version)
	}
	i.unharmed(before)

	s.create(operation("count", "CountKeys", i.reference()))
	if outputs := s.succeeded("count").Status.Steps[0].Outputs; outputs["keys"] != "1" {
		t.Errorf("the job says %v, want one key", outputs)
	}
	s.refusedOperation(operation("lost", "CountKeys", i.reference(), "host", "nowhere.invalid"), "job lost-count failed: Job has reached the specified backoff limit: exit code 1")
	s.mustGet("lost-count", &batchv1.Job{})
	s.eventually(errorIn, "the job that succeeded is removed", func() error { return gone(s.get("count-count", &batchv1.Job{})) })

	s.create(operation("last", "UpgradeApp", i.reference(), "version", last.version))
	s.succeeded("last")
	if err := before.restartedInPlace(i.footprint()); err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(i.must("CONFIG", "GET", "bind")); !strings.HasSuffix(got, "*") || strings.Contains(got, "-::*") {
		t.Errorf("the server says %q of bind", got)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
}
