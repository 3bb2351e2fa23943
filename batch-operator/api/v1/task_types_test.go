// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// TestTasksHaveTheFieldsOfTheStepsOfTheirName keeps the types of tasks, which are written into templates as they are,
// from missing a field of a step.
func TestTasksHaveTheFieldsOfTheStepsOfTheirName(t *testing.T) {
	for name, task := range map[string]reflect.Type{
		"container": reflect.TypeFor[batchv1.ContainerTask](), "script": reflect.TypeFor[batchv1.ScriptTask](),
		"http": reflect.TypeFor[batchv1.HTTPTask](),
		"wait": reflect.TypeFor[batchv1.WaitTask](),
	} {
		fields := shapeOf(name, task)
		steps := shapeOf(name, enginetest.StepType(name))
		// The condition of a wait is compiled to its until.
		delete(fields, "wait.condition")
		for path, shape := range fields {
			if steps[path] != shape {
				t.Errorf("%s is a %s in a task, and %q in a step", path, shape, steps[path])
			}
		}
		for path, shape := range steps {
			if fields[path] == "" {
				t.Errorf("%s, a %s, is missing in a task", path, shape)
			}
		}
	}
}

// shapeOf lists the fields of a type, and those within it, with what each is in JSON.
func shapeOf(path string, of reflect.Type) map[string]string {
	shapes := map[string]string{}
	describe(shapes, path, of)
	return shapes
}

func describe(shapes map[string]string, path string, of reflect.Type) {
	switch {
	case of == reflect.TypeFor[resource.Quantity]():
		shapes[path] = "text"
	case of.Kind() == reflect.Pointer:
		describe(shapes, path, of.Elem())
	case of.Kind() == reflect.Slice:
		shapes[path] = "list"
		describe(shapes, path+"[]", of.Elem())
	case of.Kind() == reflect.Map:
		shapes[path] = "map"
		describe(shapes, path+"{}", of.Elem())
	case of.Kind() == reflect.Struct:
		for i := range of.NumField() {
			tag := strings.Split(of.Field(i).Tag.Get("json"), ",")
			if tag[0] == "" && slices.Contains(tag, "inline") {
				describe(shapes, path, of.Field(i).Type)
				continue
			}
			shapes[path] = "object"
			describe(shapes, path+"."+tag[0], of.Field(i).Type)
		}
	case of.Kind() == reflect.String:
		shapes[path] = "text"
	case of.Kind() == reflect.Bool:
		shapes[path] = "truth"
	default:
		shapes[path] = "number"
	}
}
