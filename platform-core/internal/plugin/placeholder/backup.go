// SPDX-License-Identifier: Apache-2.0

package placeholder

// Backup is the scope of what takes the data of an instance: app, and source, the pod that it is taken from.
const Backup Scope = "backup"

// Origin is what texts of the scope Backup see.
type Origin struct {
	App    App
	Source Member
}

// ExpandBackup fills in a text of the scope Backup, which Compile has checked.
func ExpandBackup(text string, o Origin) (string, error) {
	if o.Source.Attributes == nil {
		o.Source.Attributes = map[string]string{}
	}
	return expandText(text, Backup, map[string]any{"app": o.App, "source": o.Source})
}

// ExpandRestore fills in a text of the scope Rules, which Compile has checked: one of the way back, for the instance
// that is to have the data.
func ExpandRestore(text string, v Values) (string, error) {
	return expandText(text, Rules, v.bindings())
}
