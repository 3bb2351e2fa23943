// SPDX-License-Identifier: Apache-2.0

package placeholder

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
)

// Member is a pod as its agent reports it: the variables source and target of a switchover.
type Member struct {
	Name    string `cel:"name"`
	Ordinal int64  `cel:"ordinal"`
	// FQDN is the pod's own DNS name through the headless Service.
	FQDN string `cel:"fqdn"`
	// Role and Version as the probe reports them.
	Role    string `cel:"role"`
	Version string `cel:"version"`
	// Attributes as the probe reports them.
	Attributes map[string]string `cel:"attributes"`
}

// Switchover is the scope of what looks at pods that hand over: source, the pod that writes, and target, the one that
// could take over.
const Switchover Scope = "switchover"

// Members are what expressions of Switchover see.
type Members struct{ Source, Target Member }

func (m Members) bindings() map[string]any {
	for _, attributes := range []*map[string]string{&m.Source.Attributes, &m.Target.Attributes} {
		if *attributes == nil {
			*attributes = map[string]string{}
		}
	}
	return map[string]any{"source": m.Source, "target": m.Target}
}

// ExpandMembers fills in a text of scope Switchover, which Compile has checked.
func ExpandMembers(source string, m Members) (string, error) {
	return expandText(source, Switchover, m.bindings())
}

// CheckMembers evaluates an expression of scope Switchover that gives true or false, without "${" and "}".
func CheckMembers(source string, m Members) (bool, error) {
	program, err := cachedProgram(source, Switchover)
	if err != nil {
		return false, err
	}
	value, err := segment{source: source, program: program, longest: maxTextLength}.eval(m.bindings())
	if err != nil {
		return false, err
	}
	truth, ok := value.(bool)
	if !ok {
		return false, fmt.Errorf("expression %q gives no true or false", source)
	}
	return truth, nil
}

// memberTypes are the variables of scope Switchover.
func memberTypes() (variables map[string]*cel.Type, native reflect.Type) {
	member := cel.ObjectType("placeholder.Member")
	return map[string]*cel.Type{"source": member, "target": member}, reflect.TypeFor[Member]()
}
