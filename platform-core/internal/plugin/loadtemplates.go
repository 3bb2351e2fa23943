// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// podTemplate is a "<template>.yaml" of the podtemplates part as it was read.
type podTemplate struct {
	*tree
	key      string
	document *document.Document
	usesFQDN bool
}

func (l *loader) loadPodTemplates() {
	data := l.part(PartPodTemplates)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name, ok := strings.CutSuffix(key, ".yaml")
		if !ok {
			l.fail(PartPodTemplates, key, 0, "the key is not known: this part has keys <template>.yaml")
			continue
		}
		doc := l.parse(PartPodTemplates, key, data[key])
		if doc == nil {
			continue
		}
		template := &podTemplate{tree: newTree(), key: key, document: doc}
		template.value = doc.Value()
		problems := doc.Check(reflect.TypeFor[corev1.PodTemplateSpec](),
			func(path document.Path, text string, kind reflect.Kind) (bool, error) {
				return template.compile(path, text, kind, placeholder.PodTemplate)
			})
		for _, p := range problems {
			l.fail(PartPodTemplates, key, p.Line, "%s", p.Message)
		}
		for _, leaf := range template.templates {
			template.usesFQDN = template.usesFQDN || leaf.UsesFQDN()
		}
		// A broken one is noted too, so that a component that names it is not blamed.
		l.templates[name] = template
	}
}
