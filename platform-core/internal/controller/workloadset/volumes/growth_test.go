// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// growingClaim is one that has 1Gi, was asked for another size, and has been told so by its storage.
func growingClaim(asks string, tells ...func(*corev1.PersistentVolumeClaimStatus)) *corev1.PersistentVolumeClaim {
	claim := testClaim("1Gi")
	claim.Spec.Resources.Requests = storage(asks)
	claim.Annotations = map[string]string{platformv1.DataAnnotation: "/"}
	for _, tell := range tells {
		tell(&claim.Status)
	}
	return claim
}

// tried has a storage say what became of a size.
func tried(size string, status corev1.ClaimResourceStatus) func(*corev1.PersistentVolumeClaimStatus) {
	return func(s *corev1.PersistentVolumeClaimStatus) {
		s.AllocatedResources = storage(size)
		s.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status}
	}
}

func told(condition corev1.PersistentVolumeClaimConditionType,
	message string) func(*corev1.PersistentVolumeClaimStatus) {
	return func(s *corev1.PersistentVolumeClaimStatus) {
		s.Conditions = append(s.Conditions,
			corev1.PersistentVolumeClaimCondition{Type: condition, Status: corev1.ConditionTrue, Message: message})
	}
}

// growthFacts are those of claims that can grow.
func growthFacts(claims ...*corev1.PersistentVolumeClaim) *facts.Facts {
	f := &facts.Facts{Claims: map[string]*corev1.PersistentVolumeClaim{},
		Classes: map[string]*storagev1.StorageClass{"fast": testClass("fast", new(true), "")}}
	for _, claim := range claims {
		f.Claims[claim.Name] = claim
	}
	return f
}

// settled is what a set says of its volumes first.
func settled(v Verdict) outcome.Outcome {
	if v.Refused != nil {
		return *v.Refused
	}
	return *v.Growing
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func second(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Name = "data-redis-a-redis-main-1"
	return claim
}

// What a storage cannot give is said with what to do, and what it said of another size is not.
func TestVolumesThatDoNotGrow(t *testing.T) {
	noRoom := told(corev1.PersistentVolumeClaimControllerResizeError, "the pool is full")
	for name, test := range map[string]struct {
		claims []*corev1.PersistentVolumeClaim
		// size that is asked for, else 2Gi.
		size   string
		kind   outcome.Kind
		reason string
		says   string
	}{
		"grows": {claims: []*corev1.PersistentVolumeClaim{growingClaim("2Gi")},
			kind: outcome.KindWaiting, reason: platformv1.ReasonProgressing, says: "grows from 1Gi to 2Gi"},
		"infeasible": {claims: []*corev1.PersistentVolumeClaim{
			growingClaim("2Gi", tried("2Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible), noRoom)},
			kind: outcome.KindStalled, reason: platformv1.ReasonVolumeExpansionUnsupported,
			says: "the volume of claim data-redis-a-redis-main-0 does not grow from 1Gi to 2Gi (ControllerResizeInfeasible: " +
				"the pool is full): make room for it, or set the size back to one above 1Gi"},
		"infeasible on the node": {claims: []*corev1.PersistentVolumeClaim{
			growingClaim("2Gi", tried("2Gi", corev1.PersistentVolumeClaimNodeResizeInfeasible))},
			kind: outcome.KindStalled, reason: platformv1.ReasonVolumeExpansionUnsupported,
			says: "(NodeResizeInfeasible): make room for it, or set the size back to one above 1Gi"},
		"infeasible, while another one has more": {
			claims: []*corev1.PersistentVolumeClaim{
				growingClaim("3Gi", tried("3Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible)),
				second(testClaim("2Gi"))}, size: "3Gi",
			kind: outcome.KindStalled, reason: platformv1.ReasonVolumeExpansionUnsupported,
			says: "set the size back to one above 2Gi"},
		"infeasible, and another one has it": {
			claims: []*corev1.PersistentVolumeClaim{
				growingClaim("2Gi", tried("2Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible)),
				second(testClaim("2Gi"))},
			kind: outcome.KindStalled, reason: platformv1.ReasonVolumeExpansionUnsupported,
			says: "make room for it: others of the set have the size, and no volume shrinks"},
		"another size was infeasible": {claims: []*corev1.PersistentVolumeClaim{
			growingClaim("2Gi", tried("9Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible))},
			kind: outcome.KindWaiting, reason: platformv1.ReasonProgressing, says: "grows from 1Gi to 2Gi"},
		"an infeasible size is to be taken back": {
			claims: []*corev1.PersistentVolumeClaim{
				growingClaim("9Gi", tried("9Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible))},
			kind: outcome.KindWaiting, reason: platformv1.ReasonProgressing, says: "grows from 1Gi to 2Gi"},
		"fails, behind one that grows": {claims: []*corev1.PersistentVolumeClaim{growingClaim("2Gi"),
			second(growingClaim("2Gi", noRoom))},
			kind: outcome.KindWaiting, reason: platformv1.ReasonVolumeExpansionUnsupported,
			says: "claim data-redis-a-redis-main-1 does not grow from 1Gi to 2Gi (the pool is full): make room for it, or set " +
				"the size back to one above 1Gi"},
		"taken back to what it has": {claims: []*corev1.PersistentVolumeClaim{growingClaim("9Gi")}, size: "1Gi",
			kind: outcome.KindStalled, reason: platformv1.ReasonVolumeShrinkRefused, says: "set the size to one above 1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			set := testSet()
			set.Spec.Replicas = int32(len(test.claims))
			if test.size != "" {
				set.Spec.Volumes[0].Size = resource.MustParse(test.size)
			}
			o := settled(Plan(set, growthFacts(test.claims...)))
			if o.Kind() != test.kind || o.Reason() != test.reason || !strings.Contains(o.Message(), test.says) {
				t.Errorf("got %v %s %q", o.Kind(), o.Reason(), o.Message())
			}
		})
	}
}

// A pod is not made anew for a size that its node cannot give.
func TestNoPodIsMadeAnewForAnInfeasibleSize(t *testing.T) {
	set, now := testSet(), time.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "redis-a-redis-main-0",
		CreationTimestamp: metav1.NewTime(now.Add(-2 * OnlinePatience))}}
	claim := growingClaim("2Gi", told(corev1.PersistentVolumeClaimFileSystemResizePending, ""))
	claim.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-OnlinePatience))
	f := growthFacts(claim)
	f.Now = now
	if fit, _, _ := (&Reconciler{}).Fit(set, f, pod); fit != rollout.Replace {
		t.Errorf("a driver that grows volumes of new pods only: %v", fit)
	}
	tried("2Gi", corev1.PersistentVolumeClaimNodeResizeInfeasible)(&claim.Status)
	if fit, _, _ := (&Reconciler{}).Fit(set, f, pod); fit != rollout.Current {
		t.Errorf("a node that cannot give it: %v", fit)
	}
}

// server answers to patches of claims.
type server struct {
	client.Client
	refuses error
	asked   []string
}

func (s *server) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	s.asked = append(s.asked, string(body))
	return s.refuses
}

// A claim is asked for another size as long as it can have that, and a refusal of the API server is a stall that says
// what to do.
func TestClaimsAreAskedForTheirSize(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	quota := apierrors.NewForbidden(claims, "data", nil)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "data", nil)
	unbound := growingClaim("1Gi")
	unbound.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	of := func(size string) string { return `{"spec":{"resources":{"requests":{"storage":"` + size + `"}}}}` }
	for name, test := range map[string]struct {
		claim         *corev1.PersistentVolumeClaim
		size, asked   string
		refuses       error
		reason, tells string
		event         string
	}{
		"larger": {claim: growingClaim("1Gi"), size: "2Gi", asked: of("2Gi"),
			event: "grows from 1Gi to 2Gi"},
		"taken back": {claim: growingClaim("9Gi"), size: "2Gi", asked: of("2Gi"),
			event: "grows to 2Gi and not to 9Gi"},
		"taken back, infeasible": {claim: growingClaim("9Gi",
			tried("9Gi", corev1.PersistentVolumeClaimNodeResizeInfeasible)), size: "2Gi", asked: of("2Gi"), event: "not to 9Gi"},
		"taken back to what it has": {claim: growingClaim("9Gi"), size: "1Gi"},
		"infeasible": {claim: growingClaim("2Gi",
			tried("2Gi", corev1.PersistentVolumeClaimNodeResizeInfeasible)), size: "2Gi"},
		"not bound yet": {claim: unbound, size: "2Gi"},
		"a quota": {claim: growingClaim("1Gi"), size: "2Gi", asked: of("2Gi"), refuses: quota,
			reason: platformv1.ReasonVolumeExpansionUnsupported, tells: "mend that, or set the size back to 1Gi"},
		"a server that takes nothing back": {claim: growingClaim("9Gi"), size: "2Gi", asked: of("2Gi"), refuses: invalid,
			reason: platformv1.ReasonVolumeShrinkRefused, tells: "set the size to at least 9Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			set, s, recorded := testSet(), &server{refuses: test.refuses}, events.NewFakeRecorder(1)
			set.Spec.Volumes[0].Size = resource.MustParse(test.size)
			r := &Reconciler{Client: s, Events: event.New(recorded)}
			o := r.Reconcile(t.Context(), set, growthFacts(test.claim))
			if test.reason == "" && o.Kind() != outcome.KindDone ||
				test.reason != "" && (o.Kind() != outcome.KindStalled || o.Reason() != test.reason ||
					!strings.Contains(o.Message(), test.tells) || o.After() != quotaRecheck) {
				t.Errorf("got %v %s %q", o.Kind(), o.Reason(), o.Message())
			}
			if asked := strings.Join(s.asked, " "); asked != test.asked {
				t.Errorf("it was asked for %q, want %q", asked, test.asked)
			}
			close(recorded.Events)
			if said := <-recorded.Events; (said != "") != (test.event != "") || !strings.Contains(said, test.event) {
				t.Errorf("event %q", said)
			}
		})
	}
}

// A dry run says that a volume grows to a smaller size than it was to have.
func TestForecastOfASizeThatIsTakenBack(t *testing.T) {
	changes := Forecast(testSet(), growthFacts(growingClaim("9Gi")))
	if len(changes) != 1 || changes[0].Action != platformv1.PlannedGrow || changes[0].Reason != "from 1Gi to 2Gi" {
		t.Errorf("it says %v", changes)
	}
	if changes := Forecast(testSet(), growthFacts(growingClaim("2Gi"))); len(changes) != 0 {
		t.Errorf("it says %v of a claim that asks for it already", changes)
	}
}

// What is refused to a volume keeps no note from its claim.
func TestARefusedSizeKeepsNoNoteAway(t *testing.T) {
	set, s := testSet(), &server{}
	set.Spec.Plugin.Name, set.Spec.Version = "redis", "7.2"
	claim := growingClaim("9Gi")
	claim.Status.Capacity = storage("9Gi")
	r := &Reconciler{Client: s}
	if o := r.Reconcile(t.Context(), set, growthFacts(claim)); o.Kind() != outcome.KindDone || len(s.asked) != 1 ||
		!strings.Contains(s.asked[0], "redis/7.2") {
		t.Errorf("it says %+v and asked for %v", o, s.asked)
	}
}
