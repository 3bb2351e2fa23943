// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// foreign are packages whose types the guide leaves to others to tell of.
var foreign = regexp.MustCompile(`^(k8s\.io|sigs\.k8s\.io)/`)

// TestGuideNamesEveryField of what a plugin's files say.
func TestGuideNamesEveryField(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*`).FindAllString(string(guide), -1) {
		named[word] = true
	}
	fields, seen := map[string]string{}, map[reflect.Type]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[plugin.Manifest](), reflect.TypeFor[schema.Components](),
		reflect.TypeFor[optemplate.Template]()} {
		gather(of, fields, seen)
	}
	if len(fields) < 100 {
		t.Fatalf("there are %d fields, so that the test shows nothing", len(fields))
	}
	for field, of := range fields {
		if !named[field] {
			t.Errorf("docs/plugins.md does not name the field %q of %s", field, of)
		}
	}
}

// gather collects the names of all fields of a type and of what is in it, each with a type that has it.
func gather(of reflect.Type, fields map[string]string, seen map[reflect.Type]bool) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		gather(of.Elem(), fields, seen)
		return
	case reflect.Struct:
	default:
		return
	}
	if foreign.MatchString(of.PkgPath()) || seen[of] {
		return
	}
	seen[of] = true
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name != "" {
			fields[name] = of.String()
		}
		gather(field.Type, fields, seen)
	}
}
