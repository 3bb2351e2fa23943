// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestOperatorKilledDuringCreation kills the operator (SIGKILL from the node, or a forced deletion, in turns) after its
// 0th, k-th, 2k-th … write for a new Redis, up to the number of writes that an undisturbed creation takes. However far
// it came, the next operator finishes: the same objects as ever, each once, and none of those that were there before is
// made again.
func TestOperatorKilledDuringCreation(t *testing.T) {
	s := framework.NewNamespace(t, "crash")
	// A spare replica, so that a round lasts as long as the Lease and not as a pod's start on top.
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	model := s.CreateRedis("model")
	audit := framework.StartAudit(t)
	model.WaitReady()
	s.Flush(audit)
	whole := framework.CountWrites(framework.WritesInNamespace(s.Name, audit.Writes()), framework.OperatorActor)
	want := anonymous(model, inventoryOf(model))
	t.Logf("an undisturbed creation: about %d writes of the operator, objects %v", whole, want)
	if whole < 3 || len(want) < 8 {
		t.Fatalf("too few writes (%d) or objects (%d) to be a whole creation", whole, len(want))
	}
	for round := range framework.Config.KillRounds {
		after := round * whole / max(framework.Config.KillRounds-1, 1)
		t.Run(fmt.Sprintf("after %d writes", after), func(t *testing.T) {
			s := s.In(t)
			s.MustLeader()
			end := s.DeleteOperatorPods
			if round%2 == 0 {
				end = s.PrepareOperatorKill()
			}
			endDuringCreation(s, fmt.Sprintf("round%d", round), after, end, want)
		})
	}
	// The one that was there all the time.
	model.WaitReadyCondition()
}

// endDuringCreation creates a Redis, ends the operator after that many writes for it, and judges what comes of it.
func endDuringCreation(s *framework.Namespace, name string, after int, end func(), want []string) {
	s.Helper()
	audit := framework.StartAudit(s.T)
	start := time.Now()
	i := s.CreateRedis(name)
	seen := 0
	s.Eventually(framework.SettleTimeout, fmt.Sprintf("the operator has made %d writes", after), func() error {
		seen = operatorWrites(i, audit)
		if seen < after && framework.ReadyNow(i.Object(), i.Object().Status.ObservedGeneration) != nil {
			return fmt.Errorf("it has made %d", seen)
		}
		return nil
	})
	end()
	early := identities(i)
	s.Flush(audit)
	made := operatorWrites(i, audit)
	took := i.WaitReady()
	late := identities(i)
	for object, uid := range early {
		if late[object] != uid {
			s.Errorf("%s was there when the operator ended and is another one now", object)
		}
	}
	i.Eventually(framework.SettleTimeout, "the objects are those of any creation", func() error {
		if got := anonymous(i, inventoryOf(i)); !slices.Equal(got, want) {
			return fmt.Errorf("they are\n%v\nwant\n%v", got, want)
		}
		return nil
	})
	i.Claim()
	if counts := framework.Restarts(i.Pod()); slices.Max(slices.Collect(maps.Values(counts))) > 0 {
		s.Errorf("containers were restarted: %v", counts)
	}
	i.CheckBinding()
	s.Logf("ended at %d writes, when it had made %d, with %d objects there; create to Ready %s, of which after the end %s",
		seen, made, len(early), framework.FormatSeconds(time.Since(start)), framework.FormatSeconds(took))
}

// operatorWrites counts the operator's writes for one instance.
func operatorWrites(i *framework.Instance, audit *framework.AuditLog) int {
	i.Helper()
	mine := slices.DeleteFunc(framework.WritesInNamespace(i.Namespace.Name, audit.Writes()),
		func(w framework.AuditedWrite) bool {
			return w.Actor() != framework.OperatorActor || !owns(i, w.Name)
		})
	return len(mine)
}

// owns says whether a name is the instance's or begins as those of its objects do.
func owns(i *framework.Instance, name string) bool {
	return name == i.Name || framework.ContainsWord(name, i.Application())
}

// identities returns the UIDs of what must be made only once: pod, claim, Secrets and Services, and the
// generated password.
func identities(i *framework.Instance) map[string]string {
	i.Helper()
	found := map[string]string{}
	pod, claims, secrets, services := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{},
		&corev1.ServiceList{}
	listOwned(i, pod, claims, secrets, services)
	for _, o := range pod.Items {
		found["pod "+o.Name] = string(o.UID)
	}
	for _, o := range claims.Items {
		found["claim "+o.Name] = string(o.UID)
	}
	for _, o := range services.Items {
		found["service "+o.Name] = string(o.UID)
	}
	for _, o := range secrets.Items {
		found["secret "+o.Name] = string(o.UID)
		if o.Name == platformv1.CredentialNameFor(i.Application(), "default") {
			found["password in "+o.Name] = string(o.Data["password"])
		}
	}
	return found
}
