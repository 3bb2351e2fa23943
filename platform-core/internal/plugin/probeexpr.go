// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// probeEnvironment declares what the expressions of a probe see; the status agent
// evaluates them with the standard functions of CEL.
var probeEnvironment = sync.OnceValue(func() *cel.Env { return resultEnvironment() })

// actionEnvironment is the same for the expressions of an action, which the ops agent evaluates.
var actionEnvironment = sync.OnceValue(func() *cel.Env { return resultEnvironment(cel.Variable("json", cel.DynType)) })

// resultEnvironment has what a command did.
func resultEnvironment(more ...cel.EnvOption) *cel.Env {
	env, err := cel.NewEnv(append(more,
		cel.Variable("stdout", cel.StringType),
		cel.Variable("stderr", cel.StringType),
		cel.Variable("exitCode", cel.IntType),
		cel.Variable("fields", cel.MapType(cel.StringType, cel.StringType)),
	)...)
	if err != nil {
		// The variables are constants of this package.
		panic(fmt.Sprintf("cannot make the environment of probes and actions: %v", err))
	}
	return env
}

func (l *loader) checkProbe(path document.Path, c *schema.Component) {
	l.checkProbeMeans(path, c)
	l.checkEnv(path.With("env"), c, c.Probe.Env)
	l.checkProbeExpression(path.With("healthy"), c.Probe.Healthy, cel.BoolType)
	l.checkProbeExpression(path.With("outOfConnections"), c.Probe.OutOfConnections, cel.BoolType)
	l.checkProbeExpression(path.With("role"), c.Probe.Role, cel.StringType)
	l.checkProbeExpression(path.With("version"), c.Probe.Version, cel.StringType)
	l.checkProbeExpression(path.With("memberID"), c.Probe.MemberID, cel.StringType)
	for _, name := range slices.Sorted(maps.Keys(c.Probe.Attributes)) {
		l.checkProbeExpression(path.With("attributes").With(name), c.Probe.Attributes[name], cel.StringType)
	}
	l.checkProbeExpression(path.With("attributesWhen"), c.Probe.AttributesWhen, cel.BoolType)
	if c.Probe.AttributesWhen != "" && len(c.Probe.Attributes) == 0 {
		l.wrong(path.With("attributesWhen"), "says when attributes are reported, and there are none: add probe.attributes")
	}
	if c.Probe.Role != "" && len(c.Roles) == 0 {
		l.wrong(path.With("role"), "gives a role, and the component declares none: add roles")
	}
	if c.Probe.Role == "" && len(c.Roles) > 0 {
		l.wrong(path, "gives no role, and the component declares some: add probe.role")
	}
	if len(c.Probe.Reserved) > 0 && c.Probe.OutOfConnections == "" {
		l.wrong(path.With("reserved"), "is for another attempt where the middleware has no connection left, and nothing "+
			"says when that is so: add probe.outOfConnections")
	}
	if timeout, interval := c.Probe.TimeoutSeconds, c.Probe.IntervalSeconds; timeout > 0 && interval > 0 &&
		timeout > interval*10 {
		l.wrong(path.With("timeoutSeconds"), "is %d: it must be at most ten times the interval of %d s", timeout, interval)
	}
}

func (l *loader) checkProbeExpression(path document.Path, source string, want *cel.Type) {
	if source == "" {
		return
	}
	checked, issues := probeEnvironment().Compile(source)
	if issues.Err() != nil {
		l.wrong(path, "is not a valid expression: %s; known here: stdout, stderr, exitCode, fields, and the standard "+
			"functions of CEL", placeholder.Explain(issues))
		return
	}
	if !checked.OutputType().IsExactType(want) {
		l.wrong(path, "gives %s: it must give %s", checked.OutputType(), want)
	}
}
