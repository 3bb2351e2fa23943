// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// yamlBlock is a piece of a plugin's files in the author's guide.
var yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")

// Every piece of YAML in the author's guide is of a file that a plugin has, of a component, or a list of steps or
// actions: its fields are there.
func TestSnippetsOfTheGuide(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatchIndex(string(data), -1)
	// So many there were when this was written.
	if len(blocks) < 20 {
		t.Errorf("only %d pieces were found", len(blocks))
	}
	for _, at := range blocks {
		line := strings.Count(string(data[:at[2]]), "\n") + 1
		var least []string
		for _, as := range []struct {
			within string
			of     reflect.Type
		}{
			{"", reflect.TypeFor[manifestDocument]()},
			{"", reflect.TypeFor[schema.Components]()},
			{"", reflect.TypeFor[schema.Component]()},
			{"", reflect.TypeFor[schema.ParameterSet]()},
			{"", reflect.TypeFor[optemplate.Template]()},
			{"", reflect.TypeFor[corev1.PodTemplateSpec]()},
			{"steps:\n", reflect.TypeFor[optemplate.Template]()},
			{"actions:\n", reflect.TypeFor[schema.Component]()},
		} {
			wrong := fieldsWrong(as.within+string(data[at[2]:at[3]]), as.of)
			if len(wrong) == 0 {
				least = nil
				break
			}
			if least == nil || len(wrong) < len(least) {
				least = wrong
			}
		}
		for _, wrong := range least {
			t.Errorf("docs/plugins.md:%d: %s", line, wrong)
		}
	}
}

// fieldsWrong says what is wrong with the YAML of a type but for the marks of a version that extends another one.
func fieldsWrong(text string, of reflect.Type) []string {
	doc, problems := document.Parse(text)
	if doc != nil {
		doc, problems = expandConstants(doc)
	}
	if doc != nil {
		problems = doc.Check(of, nil)
	}
	var wrong []string
	for _, p := range problems {
		if !strings.Contains(p.Message, "$patch") && !strings.Contains(p.Message, "has no value") {
			wrong = append(wrong, p.Message)
		}
	}
	return wrong
}
