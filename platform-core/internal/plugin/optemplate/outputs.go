// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// outputOperation is the name of the Operation that a step runs.
const outputOperation = "operation"

// outputTypes are those of the outputs of one step, by name.
type outputTypes map[string]platformv1.OutputType

// edited are the outputs of verbs that change what is declared.
var edited = outputTypes{"changed": platformv1.OutputString, "generation": platformv1.OutputInt}

// upgraded are those of another version: it tells the one before as well.
var upgraded = outputTypes{"changed": platformv1.OutputString, "generation": platformv1.OutputInt,
	"from": platformv1.OutputString}

// engineOutputs are the outputs of engine steps that expressions can use, by verb.
var engineOutputs = map[EngineVerb]outputTypes{
	EngineStop: edited, EngineStart: edited, EngineScale: edited, EngineResize: edited, EngineExpand: edited,
	EngineUpgrade:   upgraded,
	EngineDowngrade: edited, EngineUpgradePlugin: edited, EngineApply: edited,
	EngineCreate:     {"uid": platformv1.OutputString, "generation": platformv1.OutputInt},
	EngineDelete:     {"uid": platformv1.OutputString},
	EngineSwitchover: {"from": platformv1.OutputString, "to": platformv1.OutputString},
	EngineFailover: {"from": platformv1.OutputString, "to": platformv1.OutputString, "reason": platformv1.OutputString,
		"choice":  platformv1.OutputString,
		"seconds": platformv1.OutputNumber},
	EngineRebuild: {"pod": platformv1.OutputString},
	EngineBackup: {"backup": platformv1.OutputString, "digest": platformv1.OutputString, "size": platformv1.OutputInt,
		"source": platformv1.OutputString},
	EnginePrepareData: {"method": platformv1.OutputString, "repository": platformv1.OutputString},
	EngineDrill: {"backup": platformv1.OutputString, "instance": platformv1.OutputString,
		"outcome": platformv1.OutputString,
		"found":   platformv1.OutputString},
}

// shapes are what expressions see of an output, and kinds what an expression can give for one.
var (
	shapes = map[platformv1.OutputType]placeholder.Shape{
		platformv1.OutputString: placeholder.TextShape, platformv1.OutputInt: placeholder.IntShape,
		platformv1.OutputNumber: placeholder.NumberShape,
		platformv1.OutputBool:   placeholder.BoolShape, platformv1.OutputList: placeholder.ItemsShape,
		platformv1.OutputObject: placeholder.ObjectShape,
	}
	kinds = map[platformv1.OutputType][]placeholder.Kind{
		platformv1.OutputString: {placeholder.Text}, platformv1.OutputInt: {placeholder.Int},
		platformv1.OutputNumber: {placeholder.Number, placeholder.Int},
		platformv1.OutputBool:   {placeholder.Bool}, platformv1.OutputList: {placeholder.Items},
		platformv1.OutputObject: {placeholder.Object},
	}
	// anyKind is what an expression can give that no type is declared for, and ofKind the type that its output has then.
	anyKind = []placeholder.Kind{placeholder.Text, placeholder.Int, placeholder.Number, placeholder.Bool,
		placeholder.Items, placeholder.Object}
	ofKind = map[placeholder.Kind]platformv1.OutputType{
		"": platformv1.OutputString, placeholder.Text: platformv1.OutputString, placeholder.Int: platformv1.OutputInt,
		placeholder.Number: platformv1.OutputNumber,
		placeholder.Bool:   platformv1.OutputBool, placeholder.Items: platformv1.OutputList,
		placeholder.Object: platformv1.OutputObject,
	}
)

// authored are the names of the outputs that a step has because its author, or that of its action, says so.
func (c checker) authored(step *Step) []string {
	switch {
	case step.Wait != nil:
		return slices.Sorted(maps.Keys(step.Wait.Outputs))
	case step.HTTP != nil:
		return slices.Sorted(maps.Keys(step.HTTP.Outputs))
	case step.Task() != nil && step.ForEach != "":
		// Each item has a pod of its own.
	case step.Job != nil, step.Task() != nil:
		return slices.Sorted(maps.Keys(step.StepOutputs()))
	case step.Agent == nil || step.Agent.Action == "":
		return nil
	}
	var outputs []string
	for i := range c.scope.Components {
		for _, action := range c.scope.Components[i].Actions {
			if action.Name == step.Agent.Action {
				outputs = append(outputs, slices.Collect(maps.Keys(action.Outputs))...)
			}
		}
	}
	slices.Sort(outputs)
	return slices.Compact(outputs)
}

// outputs of a step with their types: those that it declares, else what its type of step implies, else text.
func (c checker) outputs(step *Step) outputTypes {
	outputs := outputTypes{}
	switch {
	case step.Operation != nil:
		outputs[outputOperation] = platformv1.OutputString
		if template := step.Operation.Inline(); template != nil && step.ForEach == "" {
			maps.Copy(outputs, template.results)
		}
	case step.Approval != nil:
		outputs["by"] = platformv1.OutputString
	case step.Engine != nil:
		return maps.Clone(engineOutputs[step.Engine.Do])
	case step.HTTP != nil:
		outputs["status"] = platformv1.OutputInt
	case step.Job != nil, step.Task() != nil:
		outputs["job"], outputs["result"] = platformv1.OutputString, platformv1.OutputString
	}
	for _, name := range c.authored(step) {
		outputs[name] = platformv1.OutputString
		if declared, ok := step.Types[name]; ok {
			outputs[name] = declared
		}
	}
	return outputs
}

// types checks that a step declares types of outputs that it has and whose type is the author's to say.
func (c checker) types(path document.Path, step *Step) {
	authored := c.authored(step)
	for _, name := range slices.Sorted(maps.Keys(step.Types)) {
		if !slices.Contains(authored, name) {
			c.fail(path.With("types").With(name), "is no output that a type can be said of: those of this step are %s",
				cmp.Or(strings.Join(authored, ", "), "none"))
		}
	}
}

// OutputType is the type of an output of a step; OutputString for one that is not known.
func (t *Template) OutputType(step, name string) platformv1.OutputType {
	if known, ok := t.outputs[step][name]; ok {
		return known
	}
	return platformv1.OutputString
}

// RecordOutput brings the text of an output into the form in which it is kept on record: its JSON, or a text as it is.
// The error is a sentence.
func (t *Template) RecordOutput(step, name, text string) (string, error) {
	declared := t.OutputType(step, name)
	if declared == platformv1.OutputString {
		return text, nil
	}
	value, err := readOutput(declared, strings.TrimSpace(text))
	if err != nil {
		return "", fmt.Errorf("output %q of step %q is %q: it must be %s", name, step, shortened(text), inWords[declared])
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("output %q of step %q cannot be written: %w", name, step, err)
	}
	return string(data), nil
}

// Output is the value that expressions see of an output that is on record. A text that is not of the type stays one.
func (t *Template) Output(step, name, text string) any {
	value, err := readOutput(t.OutputType(step, name), text)
	if err != nil {
		return text
	}
	return value
}

// inWords says what values of a type look like.
var inWords = map[platformv1.OutputType]string{
	platformv1.OutputInt: "a whole number of 64 bits", platformv1.OutputNumber: "a number",
	platformv1.OutputBool: "true or false",
	platformv1.OutputList: "a JSON list", platformv1.OutputObject: "a JSON object",
}

// readOutput reads a text as a value of a type: string, int64, float64, bool, []any or map[string]any.
func readOutput(declared platformv1.OutputType, text string) (any, error) {
	wrong := fmt.Errorf("it is not of type %s", declared)
	switch declared {
	case platformv1.OutputInt:
		return strconv.ParseInt(text, 10, 64)
	case platformv1.OutputNumber:
		number, err := strconv.ParseFloat(text, 64)
		if err == nil && (math.IsNaN(number) || math.IsInf(number, 0)) {
			err = wrong
		}
		return number, err
	case platformv1.OutputBool:
		if text != "true" && text != "false" {
			return nil, wrong
		}
		return text == "true", nil
	case platformv1.OutputList, platformv1.OutputObject:
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, err
		}
		_, list := value.([]any)
		_, object := value.(map[string]any)
		if list && declared == platformv1.OutputList || object && declared == platformv1.OutputObject {
			return value, nil
		}
		return nil, wrong
	}
	return text, nil
}

// longestQuote is how many characters of a wrong value are quoted.
const longestQuote = 80

func shortened(text string) string {
	if runes := []rune(text); len(runes) > longestQuote {
		return string(runes[:longestQuote]) + "…"
	}
	return text
}
