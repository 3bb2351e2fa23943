// SPDX-License-Identifier: Apache-2.0

package kindparts

import "fmt"

// Replicated is what a kind of primaries and their replicas has Operations change.
type Replicated struct {
	// Component of the plugin that the servers are.
	Component string
	// Field of the object that counts the replicas of a primary. The Application counts pods: the replicas and their primary.
	Field string
	// Whole is what has one primary, in words such as "a Redis".
	Whole string
}

// WriteThrough is the answer to typed.Writer.
func (r Replicated) WriteThrough() map[string]string {
	of := "components[" + r.Component + "]."
	return map[string]string{
		"running": "running", "version": "version", "pluginVersion": "pluginVersion", of + "resources": "resources", of + "storage.size": "storage.size",
		of + "parameters": "parameters", r.pods(): r.Field,
	}
}

// pods is the field of the Application that counts them.
func (r Replicated) pods() string { return "components[" + r.Component + "].replicas" }

// Convert is the answer to typed.Converter.
func (r Replicated) Convert(field string, value any) (any, error) {
	if field != r.pods() {
		return value, nil
	}
	pods, ok := value.(int64)
	if !ok || pods < 1 {
		return nil, fmt.Errorf("%v pods are asked for, and %s has 1 at least: its primary. To have none, use the Operation Stop", value, r.Whole)
	}
	return pods - 1, nil
}
