// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// NewDrillOperation returns an Operation that verifies the newest Backup of a target.
func NewDrillOperation(name string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: ObjectMeta(name),
		Spec: platformv1.OperationSpec{TemplateRef: "VerifyBackup", TargetRef: target,
			Timeout: &metav1.Duration{Duration: 3 * ReadyTimeout}}}
}

// ExpectVerified checks what a Backup says of a drill.
func (s *Namespace) ExpectVerified(backup, operation string, outcome platformv1.VerificationOutcome, says string) {
	s.Helper()
	b := &platformv1.Backup{}
	s.MustGet(backup, b)
	if v := b.Status.Verified; v == nil || v.Outcome != outcome || v.Operation != operation ||
		!strings.Contains(v.Message, says) {
		s.Errorf("Backup %q says %+v, want %s by %s: %s", backup, v, outcome, operation, says)
	}
}

// ExpectNoDrillLeftovers sees that no drill has left anything: instances, pods, volumes, Services, Secrets.
func (s *Namespace) ExpectNoDrillLeftovers() {
	s.Helper()
	s.Eventually(SettleTimeout, "nothing is left of drills", func() error {
		var left []string
		for _, list := range []client.ObjectList{
			&platformv1.ApplicationList{}, &platformv1.ComponentList{}, &platformv1.WorkloadSetList{}, &corev1.PodList{},
			&corev1.PersistentVolumeClaimList{},
			&corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		} {
			if err := s.List(list, nil); err != nil {
				return err
			}
			objects, err := meta.ExtractList(list)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if name := object.(client.Object).GetName(); strings.HasPrefix(name, "drill-") ||
					strings.Contains(name, "-drill-") {
					left = append(left, fmt.Sprintf("%T %s", object, name))
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}
