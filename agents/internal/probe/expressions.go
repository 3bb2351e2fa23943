// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zeroinfra/agents/internal/expression"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// defaultHealthy is what plan.Probe promises.
const defaultHealthy = "exitCode == 0"

// Expressions are a probe's, compiled once.
type Expressions struct {
	healthy expression.Expression[bool]
	// outOfConnections is nil where the plan does not tell that apart.
	outOfConnections *expression.Expression[bool]

	role       *expression.Expression[string]
	version    *expression.Expression[string]
	memberID   *expression.Expression[string]
	attributes map[string]expression.Expression[string]
	// attributesWhen is nil where only a healthy middleware has attributes.
	attributesWhen *expression.Expression[bool]
}

// Compile checks and compiles the expressions of a probe.
func Compile(p plan.Probe) (*Expressions, error) {
	env, err := expression.Probes()
	if err != nil {
		return nil, err
	}
	healthy := p.Healthy
	if healthy == "" {
		healthy = defaultHealthy
	}
	x := &Expressions{attributes: map[string]expression.Expression[string]{}}
	if x.healthy, err = expression.Compile[bool](env, "healthy", healthy); err != nil {
		return nil, err
	}
	if x.outOfConnections, err = compileOptional[bool](env, "outOfConnections", p.OutOfConnections); err != nil {
		return nil, err
	}
	if x.role, err = compileOptional[string](env, "role", p.Role); err != nil {
		return nil, err
	}
	if x.version, err = compileOptional[string](env, "version", p.Version); err != nil {
		return nil, err
	}
	if x.memberID, err = compileOptional[string](env, "memberID", p.MemberID); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Attributes)) {
		if x.attributes[name], err = expression.Compile[string](env, fmt.Sprintf("attributes[%q]", name),
			p.Attributes[name]); err != nil {
			return nil, err
		}
	}
	if x.attributesWhen, err = compileOptional[bool](env, "attributesWhen", p.AttributesWhen); err != nil {
		return nil, err
	}
	return x, nil
}

func compileOptional[T bool | string](env expression.Env, name, source string) (*expression.Expression[T], error) {
	if source == "" {
		return nil, nil
	}
	x, err := expression.Compile[T](env, name, source)
	if err != nil {
		return nil, err
	}
	return &x, nil
}
