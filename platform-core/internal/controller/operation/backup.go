// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// backupMethods are those that a plugin declares for some components.
func backupMethods(bundle *plugin.Bundle, components []string) []opsflow.BackupMethod {
	var methods []opsflow.BackupMethod
	declared, of := bundle.BackupMethodsOf(components)
	for i, method := range declared {
		methods = append(methods, opsflow.BackupMethod{Name: method.Name, Type: method.Type(), Component: of[i].Name,
			Default: method.Default, Spread: method.Objects != "", Verify: method.Verify})
	}
	return methods
}

// backup makes, looks at or ends a Backup. It stays when the Operation goes: it is no part of the record.
func (c *Controller) backup(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Backup) (*opsflow.Answer, error) {
	if wanted.Verb == opsflow.BackupMake {
		if refusal, err := c.makeBackup(ctx, op, seen, wanted); refusal != nil || err != nil {
			return refusal, err
		}
	}
	backup := &platformv1.Backup{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Name}, backup)
	switch {
	case apierrors.IsNotFound(err):
		return &opsflow.Answer{}, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read Backup %q: %w", wanted.Name, err)
	case backup.Annotations[platformv1.MadeByAnnotation] != string(op.UID):
		return refuse("there is a Backup %q that is not of this Operation: give the Operation another name", wanted.Name), nil
	}
	if wanted.Verb == opsflow.BackupStop && !backup.Ended() && !backup.Spec.Cancel {
		cancel := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))
		if err := c.client.Patch(ctx, backup, cancel, client.FieldOwner(owner)); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("cannot cancel Backup %q: %w", wanted.Name, err)
		}
	}
	return &opsflow.Answer{Backup: backup}, nil
}

// isKept refuses a Backup that is to be kept in a repository that is not there.
func (c *Controller) isKept(ctx context.Context, op *platformv1.Operation,
	wanted *opsflow.Backup) (*opsflow.Answer, error) {
	if wanted.Type == platformv1.BackupSnapshot {
		return nil, nil
	}
	repository := &platformv1.BackupRepository{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Repository}, repository)
	switch {
	case apierrors.IsNotFound(err):
		return refuse("there is no BackupRepository %q in namespace %q: create it, or name another one", wanted.Repository,
			op.Namespace), nil
	case err != nil:
		return nil, fmt.Errorf("cannot read BackupRepository %q: %w", wanted.Repository, err)
	}
	return nil, nil
}

// makeBackup makes a Backup under its name, unless there is one already. A repository that is not there is said at
// once.
func (c *Controller) makeBackup(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Backup) (*opsflow.Answer, error) {
	if refusal, err := c.isKept(ctx, op, wanted); refusal != nil || err != nil {
		return refusal, err
	}
	backup := &platformv1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: op.Namespace, Name: wanted.Name, Finalizers: []string{platformv1.BackupFinalizer},
			Labels: map[string]string{
				platformv1.DomainLabel: c.Domain, platformv1.ApplicationLabel: seen.application,
				platformv1.ManagedByLabel: platformv1.ManagedBy,
			},
			Annotations: map[string]string{platformv1.MadeByAnnotation: string(op.UID)},
		},
		Spec: platformv1.BackupSpec{
			ApplicationRef: platformv1.ApplicationReference{Name: seen.application}, Type: wanted.Type,
			RepositoryRef: platformv1.RepositoryReference{Name: wanted.Repository},
			Method:        wanted.Method, Compression: platformv1.BackupCompression(wanted.Compression),
			DeletionPolicy: platformv1.BackupDeletionPolicy(wanted.DeletionPolicy),
			Timeout:        metav1.Duration{Duration: wanted.Timeout},
			Retention:      wanted.Retention,
		},
	}
	// Backups of one schedule are counted by themselves.
	if schedule := cmp.Or(wanted.Series, op.Labels[platformv1.ScheduleLabel]); schedule != "" {
		backup.Labels[platformv1.ScheduleLabel] = schedule
	}
	err := c.client.Create(ctx, backup, client.FieldOwner(owner))
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case refused(err):
		return refuse("Backup %q cannot be made: %v", wanted.Name, err), nil
	case err != nil:
		return nil, fmt.Errorf("cannot make Backup %q: %w", wanted.Name, err)
	}
	return nil, nil
}
