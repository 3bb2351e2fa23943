// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/scheduling"
)

// TemplatesFor says of templates what the schedules of an instance go by. bundle is nil while its plugin is not loaded.
func TemplatesFor(app *platformv1.Application, bundle *plugin.Bundle) scheduling.Templates {
	return scheduling.Templates{
		Disrupts:   func(templateRef string) bool { return DisruptsByName(templateRef, bundle) },
		Impossible: func(templateRef string) string { return impossible(app, bundle, templateRef) },
	}
}

// impossible says why each Operation of a template would be refused; empty when it would not, and where that is not
// known.
func impossible(app *platformv1.Application, bundle *plugin.Bundle, templateRef string) string {
	if bundle == nil {
		return ""
	}
	bundle = bundle.In(app.Spec.Topology)
	template, refusal := FindTemplate(platformv1.OperationSpec{TemplateRef: templateRef}, bundle)
	topology, known := bundle.Topology(app.Spec.Topology)
	if refusal != nil || !known {
		return ""
	}
	var components []string
	for _, part := range topology.Wanted(app.Spec.Names) {
		components = append(components, part.Name)
	}
	if refusal := Supported(template, bundle, components, ""); refusal != nil {
		return refusal.Message
	}
	return ""
}
