// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// reader is the account whose token the pod of a task has.
	reader = "reader"
	// group that may write to the volume of the pod.
	group = 2000
)

// placedAndOwned has the pod of a task placed, confined and given a volume and an account. A second one reads what the
// first has written into the volume, and has neither group nor account.
func placedAndOwned(p *place) {
	p.Create(&corev1.ServiceAccount{ObjectMeta: framework.ObjectMeta(reader)})
	shelf := &corev1.PersistentVolumeClaim{ObjectMeta: framework.ObjectMeta("shelf")}
	shelf.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	shelf.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
	p.Create(shelf)
	node := &corev1.Node{}
	if err := framework.Cluster.Client.Get(p.Ctx, client.ObjectKey{Name: p.NodeOf(serverPod)}, node); err != nil {
		p.Fatal(err)
	}
	host := node.Labels[corev1.LabelHostname]
	wf := p.workflow("placed", `
tasks:
  - name: write
    script:
      `+shellLines+`
      serviceAccountName: `+reader+`
      fsGroup: `+strconv.Itoa(group)+`
      nodeSelector: {`+corev1.LabelHostname+`: '`+host+`'}
      tolerations: [{key: example.com/gpu, operator: Exists, effect: NoSchedule}]
      priorityClassName: system-cluster-critical
      mounts: [{path: /shelf, claim: shelf}]
      source: |
        case " $(id -G) " in *" `+strconv.Itoa(group)+` "*) ;; *) exit 1 ;; esac
        test -s /var/run/secrets/kubernetes.io/serviceaccount/token
        echo text >/shelf/file
  - name: read
    dependsOn: [{name: write}]
    script:
      `+shellLines+`
      mounts: [{path: /shelf, claim: shelf, readOnly: true}]
      source: |
        test "$(cat /shelf/file)" = text; if echo no >/shelf/other; then exit 1; fi
        case " $(id -G) " in *" `+strconv.Itoa(group)+` "*) exit 1 ;; esac
        test ! -e /var/run/secrets/kubernetes.io/serviceaccount/token
`)
	p.ended(wf, batchv1.WorkflowSucceeded)
	write, read := p.podOf(wf, "write"), p.podOf(wf, "read")
	p.wantConfined(write)
	p.wantConfined(read)
	for what, c := range map[string]struct{ got, want any }{
		"account":           {write.Spec.ServiceAccountName, reader},
		"token":             {write.Spec.AutomountServiceAccountToken, new(true)},
		"token of read":     {read.Spec.AutomountServiceAccountToken, new(false)},
		"group":             {write.Spec.SecurityContext.FSGroup, new(int64(group))},
		"group of read":     {read.Spec.SecurityContext.FSGroup, (*int64)(nil)},
		"node":              {write.Spec.NodeName, node.Name},
		"labels of nodes":   {write.Spec.NodeSelector, map[string]string{corev1.LabelHostname: host}},
		"class":             {write.Spec.PriorityClassName, "system-cluster-critical"},
		"volume":            {claimOf(write), corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shelf"}},
		"volume of read":    {claimOf(read), corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shelf", ReadOnly: true}},
		"read has no class": {read.Spec.PriorityClassName == write.Spec.PriorityClassName, false},
	} {
		if !equality.Semantic.DeepEqual(c.got, c.want) {
			p.Errorf("%s: the pod has %+v, want %+v", what, c.got, c.want)
		}
	}
	taint := corev1.Toleration{Key: "example.com/gpu", Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}
	if all := write.Spec.Tolerations; !slices.Contains(all, taint) || slices.Contains(read.Spec.Tolerations, taint) {
		p.Errorf("the tolerations are %+v and %+v", all, read.Spec.Tolerations)
	}
}

// podOf is the one pod of a task of a Workflow, as the cluster has it.
func (p *place) podOf(wf *batchv1.Workflow, task string) *corev1.Pod {
	p.Helper()
	var pods corev1.PodList
	err := framework.Cluster.Client.List(p.Ctx, &pods, client.InNamespace(p.Name),
		client.MatchingLabels{platformv1.OperationLabel: wf.Status.Operation, platformv1.StepLabel: task})
	if err != nil || len(pods.Items) != 1 {
		p.Fatalf("task %q has %d pods, want 1: %v", task, len(pods.Items), err)
	}
	return &pods.Items[0]
}

// wantConfined checks that a pod runs as the user of the tests, and may do no more than the level restricted allows.
func (p *place) wantConfined(pod *corev1.Pod) {
	p.Helper()
	security := pod.Spec.SecurityContext
	if !equality.Semantic.DeepEqual(security.RunAsUser, new(int64(999))) ||
		!equality.Semantic.DeepEqual(security.RunAsNonRoot, new(true)) || security.SeccompProfile == nil ||
		security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		p.Errorf("pod %q has %+v", pod.Name, security)
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; !equality.Semantic.DeepEqual(c.SecurityContext, &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}) {
			p.Errorf("container %q of pod %q has %+v", c.Name, pod.Name, c.SecurityContext)
		}
	}
}

// claimOf is the volume of a pod that is a claim; empty for none.
func claimOf(pod *corev1.Pod) corev1.PersistentVolumeClaimVolumeSource {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			return *claim
		}
	}
	return corev1.PersistentVolumeClaimVolumeSource{}
}
