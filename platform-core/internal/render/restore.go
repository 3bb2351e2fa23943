// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// restore says how the volumes of the first pod are filled, where the component begins with the data of a Backup, and
// the set with a part of it where that is in several. A plugin that has lost the way back is an error: an instance that
// waits for its data must not begin without.
func (c *setContext) restore(values placeholder.Values) (*platformv1.SetRestore, error) {
	from := c.spec.RestoreFrom
	if from == nil || len(from.Sets) > 0 && !slices.Contains(from.Sets, c.set.name) {
		return nil, nil
	}
	method, found := c.declared.BackupMethod(from.Method)
	if !found || method.Restore == nil {
		return nil, fmt.Errorf("it begins with Backup %q, and this version of the plugin restores nothing of method %q",
			from.Backup, from.Method)
	}
	way, err := method.Restore.Expand(values)
	if err != nil {
		return nil, fmt.Errorf("method %q: %w", from.Method, err)
	}
	restore := &platformv1.SetRestore{From: *from.DeepCopy(), Container: c.declared.Container, Folder: way.Folder,
		Command: way.Command, Env: way.Env}
	if method.Objects != "" {
		// All servers have them when one is given them.
		if c.spec.Sets[0].Name != c.set.name {
			return nil, nil
		}
		restore.Destination = platformv1.RestoreToServers
	}
	if len(from.Sets) > 0 {
		// Of the others it need not know.
		restore.From.Sets, restore.Part = nil, c.set.name
	}
	restore.Logs = c.toLogs(&restore.From)
	return restore, nil
}

// withTarget has a mover go on to a point in time from the data of a Backup, where that is asked for.
func withTarget(spec *corev1.PodSpec, target *platformv1.RestoreTarget, from *platformv1.Backup) error {
	if target == nil {
		return nil
	}
	at, err := target.Moment()
	if err != nil {
		return fmt.Errorf("target.time: %w", err)
	}
	if from == nil || from.Status.CompletionTime == nil {
		return fmt.Errorf("it is not recorded when the Backup was complete, from which a point in time is to be reached")
	}
	text := mover.Target{Time: at.UTC(), Since: from.Status.CompletionTime.UTC(), Place: from.Namespace + "/" +
		from.Spec.ApplicationRef.Name,
		Parameters: map[string]string{}, Facts: maps.Clone(from.Status.Facts)}
	for name, value := range target.Parameters {
		text.Parameters[name] = string(value)
	}
	content, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("cannot write a target: %w", err)
	}
	container := &spec.Containers[0]
	container.Env = append(container.Env, corev1.EnvVar{Name: mover.TargetEnv, Value: string(content)})
	for _, credential := range target.Credentials {
		name := volumeTarget + credential.Name
		spec.Volumes = append(spec.Volumes,
			corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: credential.PasswordFrom.Name, DefaultMode: new(int32(secretMode)),
				Items: []corev1.KeyToPath{{Key: cmp.Or(credential.PasswordFrom.Key, plugin.SecretKeyPassword),
					Path: plugin.SecretKeyPassword}},
			}}})
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: path.Join(plan.SecretsDir, credential.Name), ReadOnly: true})
	}
	return nil
}
