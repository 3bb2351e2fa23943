// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/internal/objectdiff"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// minimal is the case that all others are compared with, directly or through the one of their topology.
const minimal = "minimal"

// aCase is what an input becomes.
type aCase struct {
	topology string
	// objects are compact. There are none where the input is refused.
	objects []any
	refusal []byte
	err     error
}

// cases of a plugin by name.
type cases map[string]*aCase

// rendered is the case of an input.
func rendered(bundle *plugin.Bundle, input string) *aCase {
	c := &aCase{}
	data, err := os.ReadFile(input)
	if err != nil {
		c.err = err
		return c
	}
	app, place, err := ReadInput(data, input)
	if err != nil {
		c.err = err
		return c
	}
	c.topology = app.Spec.Topology
	got, refusal, err := Render(bundle, app, place)
	if err != nil {
		c.err = err
		return c
	}
	if refusal != nil {
		c.refusal = got
		return c
	}
	all, err := read(got)
	if err != nil {
		c.err = err
		return c
	}
	c.become(all)
	return c
}

// become has the case be of these objects.
func (c *aCase) become(objects []any) {
	c.objects = compact(objects)
	// What is left out is what can be put in again.
	if back, err := expand(c.objects); err != nil || !reflect.DeepEqual(back, objects) {
		c.err = errors.Join(errors.New("the golden file would not tell all that is rendered"), err)
	}
}

// baseOf is the case whose objects a case is compared with; empty for the one that is written in full. Cases of another
// topology than minimal have one among them in common: that which is called like the topology, or else the first.
func (c cases) baseOf(name string) string {
	own, first := c[name], ""
	for _, other := range slices.Sorted(maps.Keys(c)) {
		if c[other].objects == nil || c[other].topology != own.topology {
			continue
		}
		if first == "" || other == minimal || other == own.topology && first != minimal {
			first = other
		}
	}
	if first != name {
		return first
	}
	if all := c[minimal]; name != minimal && all != nil && all.objects != nil {
		return minimal
	}
	return ""
}

// golden is the text of a golden file.
func (c cases) golden(name string) ([]byte, error) {
	own := c[name]
	if own.err != nil || own.refusal != nil {
		return own.refusal, own.err
	}
	base := c.baseOf(name)
	if base == "" {
		return write("", own.objects)
	}
	if err := c[base].err; err != nil {
		return nil, fmt.Errorf("the case %s, with which it is compared, has no outcome: %w", base, err)
	}
	patch, err := objectdiff.DiffObjects(c[base].objects, own.objects)
	if err != nil {
		return nil, err
	}
	text, err := write("# What differs from "+base+outputEnding+".\n", patch)
	if err != nil {
		return nil, err
	}
	// The file says all of it: what it makes of the base is the outcome.
	said, err := read(text)
	if back := objectdiff.ApplyObjects(c[base].objects, said); err == nil && !reflect.DeepEqual(back, own.objects) {
		err = fmt.Errorf("the golden file would not tell all in which it differs from %s", base)
	}
	return text, err
}

// read reads YAML documents.
func read(text []byte) ([]any, error) {
	var all []any
	for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		var object objectdiff.Object
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		if object != nil {
			all = append(all, object)
		}
	}
	return all, nil
}

// write writes YAML documents below a comment.
func write(comment string, documents []any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(comment)
	for _, document := range documents {
		data, err := yaml.Marshal(document)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}
