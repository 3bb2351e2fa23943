// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestOperatorKilledDuringCreation kills the operator (SIGKILL from the node, or a forced deletion, in turns) after its 0th, k-th, 2k-th … write for a new Redis, up to the
// number of writes that an undisturbed creation takes. However far it came, the next operator finishes: the same
// objects as ever, each once, and none of those that were there before is made again.
func TestOperatorKilledDuringCreation(t *testing.T) {
	s := newSpace(t, "crash")
	// A spare replica, so that a round lasts as long as the Lease and not as a pod's start on top.
	s.restoreOperator()
	s.mustInstall(operatorName, "replicas=2")
	model := s.redis("model")
	audit := auditFromNow(t)
	model.ready()
	s.flush(audit)
	whole := count(in(s.name, audit.writes()), byOperator)
	want := model.anonymous(model.inventoryOf())
	t.Logf("an undisturbed creation: about %d writes of the operator, objects %v", whole, want)
	if whole < 3 || len(want) < 8 {
		t.Fatalf("too few writes (%d) or objects (%d) to be a whole creation", whole, len(want))
	}
	for round := range set.killRounds {
		after := round * whole / max(set.killRounds-1, 1)
		t.Run(fmt.Sprintf("after %d writes", after), func(t *testing.T) {
			s := s.in(t)
			s.mustLeader()
			end := s.deleteOperator
			if round%2 == 0 {
				end = s.aimAtOperator()
			}
			s.endDuringCreation(fmt.Sprintf("round%d", round), after, end, want)
		})
	}
	// The one that was there all the time.
	model.becomesReady()
}

// endDuringCreation creates a Redis, ends the operator after that many writes for it, and judges what comes of it.
func (s *space) endDuringCreation(name string, after int, end func(), want []string) {
	s.Helper()
	audit := auditFromNow(s.T)
	start := time.Now()
	i := s.redis(name)
	seen := 0
	s.eventually(settleIn, fmt.Sprintf("the operator has made %d writes", after), func() error {
		seen = i.operatorWrites(audit)
		if seen < after && readyNow(i.object(), i.object().Status.ObservedGeneration) != nil {
			return fmt.Errorf("it has made %d", seen)
		}
		return nil
	})
	end()
	early := i.identities()
	s.flush(audit)
	made := i.operatorWrites(audit)
	took := i.ready()
	late := i.identities()
	for object, uid := range early {
		if late[object] != uid {
			s.Errorf("%s was there when the operator ended and is another one now", object)
		}
	}
	i.eventually(settleIn, "the objects are those of any creation", func() error {
		if got := i.anonymous(i.inventoryOf()); !slices.Equal(got, want) {
			return fmt.Errorf("they are\n%v\nwant\n%v", got, want)
		}
		return nil
	})
	i.claim()
	if counts := restarts(i.pod()); slices.Max(slices.Collect(maps.Values(counts))) > 0 {
		s.Errorf("containers were restarted: %v", counts)
	}
	i.checkBinding()
	s.Logf("ended at %d writes, when it had made %d, with %d objects there; create to Ready %s, of which after the end %s",
		seen, made, len(early), seconds(time.Since(start)), seconds(took))
}

// operatorWrites counts the operator's writes for one instance.
func (i *instance) operatorWrites(audit *auditLog) int {
	i.Helper()
	mine := slices.DeleteFunc(in(i.space.name, audit.writes()), func(w write) bool {
		return w.by() != byOperator || !i.owns(w.name)
	})
	return len(mine)
}

// owns says whether a name is the instance's or begins as those of its objects do.
func (i *instance) owns(name string) bool {
	return name == i.name || containsWord(name, i.application())
}

// identities returns the UIDs of what must be made only once: pod, claim, Secrets and Services, and the
// generated password.
func (i *instance) identities() map[string]string {
	i.Helper()
	found := map[string]string{}
	pod, claims, secrets, services := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}
	i.listOwned(pod, claims, secrets, services)
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
		if o.Name == platformv1.CredentialNameFor(i.application(), "default") {
			found["password in "+o.Name] = string(o.Data["password"])
		}
	}
	return found
}
