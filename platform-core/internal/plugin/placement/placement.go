// SPDX-License-Identifier: Apache-2.0

// Package placement checks where pods may run before the API server rejects it.
package placement

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeSelector says what the API server would reject in the labels that nodes have to have; empty for nothing. It is
// the end of a sentence that begins with their place.
func NodeSelector(labels map[string]string) (problem string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key]))
		if len(problems) > 0 {
			return fmt.Sprintf("has %s=%s, which is no label: %s", key, labels[key], problems[0])
		}
	}
	return ""
}

// Tolerations says what the API server would reject in tolerations; empty for nothing. It is a clause that names one of
// them by its key.
func Tolerations(all []corev1.Toleration) (problem string) {
	for _, t := range all {
		if problem := toleration(t); problem != "" {
			return problem
		}
	}
	return ""
}

func toleration(t corev1.Toleration) (problem string) {
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute}
	switch {
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return fmt.Sprintf("the one of key %q has operator Exists and a value: take the value out", t.Key)
	case t.Operator != corev1.TolerationOpExists && t.Key == "":
		return "one has no key: it needs operator Exists then"
	case t.Operator != "" && t.Operator != corev1.TolerationOpExists && t.Operator != corev1.TolerationOpEqual:
		return fmt.Sprintf("the one of key %q has operator %q: it must be Exists or Equal", t.Key, t.Operator)
	case !slices.Contains(effects, t.Effect):
		return fmt.Sprintf("the one of key %q has effect %q: it must be NoSchedule, PreferNoSchedule or NoExecute", t.Key,
			t.Effect)
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		return fmt.Sprintf("the one of key %q has tolerationSeconds: they need effect NoExecute", t.Key)
	case t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0:
		return fmt.Sprintf("the one of key %q has a key that no taint can have: %s", t.Key,
			validation.IsQualifiedName(t.Key)[0])
	case len(validation.IsValidLabelValue(t.Value)) > 0:
		return fmt.Sprintf("the one of key %q has value %q, which no taint can have: %s", t.Key, t.Value,
			validation.IsValidLabelValue(t.Value)[0])
	}
	return ""
}

// PriorityClass says what the API server would reject in the name of a PriorityClass, which may be left out; empty for
// nothing. It is the end of a sentence that begins with its place.
func PriorityClass(name string) (problem string) {
	if name == "" || len(validation.IsDNS1123Subdomain(name)) == 0 {
		return ""
	}
	return fmt.Sprintf("is %q, which is no name of a PriorityClass", name)
}
