// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const day = 24 * time.Hour

// simulation is a repository with several series, whose clock is set now and then.
type simulation struct {
	*rand.Rand
	// series and their retentions.
	series     []func(*platformv1.Backup)
	retentions []*platformv1.BackupRetention
	now        time.Time
	kept       []*platformv1.Backup
	inUse      map[string]bool
	made       int
}

func simulate(seed uint64) *simulation {
	s := &simulation{Rand: rand.New(rand.NewPCG(seed, 1)), now: epoch, inUse: map[string]bool{},
		series: []func(*platformv1.Backup){func(*platformv1.Backup) {}, byPolicy, other, logical}}
	for range s.series {
		r := rules(int32(s.IntN(9)), time.Duration(s.IntN(3)*s.IntN(20))*day)
		if r.MaxCount == nil && r.MaxAge == nil {
			r = rules(1, 0)
		}
		s.retentions = append(s.retentions, r)
	}
	return s
}

// pass lets a day pass. Now and then the clock is set, forward or back, by up to 60 days.
func (s *simulation) pass() {
	s.now = s.now.Add(day)
	if s.IntN(25) == 0 {
		s.now = s.now.Add(time.Duration(s.IntN(121)-60) * day)
	}
}

// backUp makes up to two Backups of each series, some of which are not as others.
func (s *simulation) backUp(days int) {
	for i, of := range s.series {
		for range s.IntN(3) {
			s.made++
			b := backup(fmt.Sprintf("%05d", s.made), 0, of)
			b.Status.CompletionTime, b.Spec.Retention = new(metav1.NewTime(s.now)), s.retentions[i]
			switch odd := s.IntN(40); {
			case odd < 8 || days > 200 && days < 260 && i == 0:
				failed(b)
			case odd == 9:
				pinned(b)
			case odd == 10:
				stays(b)
			case odd == 11:
				gone(b)
			case odd == 12:
				running(b)
			case odd == 13:
				s.inUse[b.Name] = true
			case odd == 14:
				b.Spec.Retention = rules(int32(1+s.IntN(3)), time.Duration(1+s.IntN(30))*day)
			}
			s.kept = append(s.kept, b)
		}
	}
}

// settle has what runs come to its end, what was found missing be found again, what is in use be free again, and what
// is being deleted go: sooner or later.
func (s *simulation) settle() {
	for _, b := range s.kept {
		switch {
		case s.IntN(4) > 0:
		case b.Status.Phase == platformv1.BackupRunning:
			b.Status.Phase, b.Status.CompletionTime = platformv1.BackupCompleted, new(metav1.NewTime(s.now))
		case missing(b):
			b.Status.Conditions = nil
		default:
			delete(s.inUse, b.Name)
		}
	}
	s.kept = slices.DeleteFunc(s.kept, func(b *platformv1.Backup) bool {
		return !b.DeletionTimestamp.IsZero() && s.IntN(3) == 0
	})
}

// The sentences of docs/backup.md, one by one, each asked of one Backup and of all others.

// restorable: it is whole and its data is there. spoilt: it failed, and its record stays. What is being deleted is
// neither.
func restorable(b *platformv1.Backup) bool {
	return b.DeletionTimestamp == nil && b.Status.Phase == platformv1.BackupCompleted && len(b.Status.Conditions) == 0
}

func spoilt(b *platformv1.Backup) bool {
	return b.DeletionTimestamp == nil && b.Status.Phase == platformv1.BackupFailed
}

// ruled: it has a retention, and is not to be left in the repository.
func ruled(b *platformv1.Backup) bool {
	return b.Spec.Retention != nil && b.Spec.DeletionPolicy == platformv1.BackupDelete
}

// peers: they are of one series, and of one kind.
func peers(a, b *platformv1.Backup) bool {
	return a.Spec.ApplicationRef == b.Spec.ApplicationRef && a.Spec.Method == b.Spec.Method &&
		a.Labels["platform.zeroinfra.github.com/schedule"] == b.Labels["platform.zeroinfra.github.com/schedule"] &&
		(restorable(a) && restorable(b) || spoilt(a) && spoilt(b))
}

// newer: it was whole, or had failed, later; of the same second the one whose name comes later.
func newer(a, than *platformv1.Backup) bool {
	x, y := a.Status.CompletionTime.Time, than.Status.CompletionTime.Time
	return x.After(y) || x.Equal(y) && a.Name > than.Name
}

// oracle says whether the documentation has a Backup go.
func (s *simulation) oracle(b *platformv1.Backup) bool {
	if !restorable(b) && !spoilt(b) || !ruled(b) || s.inUse[b.Name] {
		return false
	}
	last, counted := true, 0
	for _, other := range s.kept {
		if other != b && peers(b, other) && newer(other, b) {
			last = false
			if ruled(other) {
				counted++
			}
		}
	}
	r := b.Spec.Retention
	byCount := r.MaxCount != nil && counted >= int(*r.MaxCount)
	byAge := r.MaxAge != nil && s.now.Sub(b.Status.CompletionTime.Time) >= r.MaxAge.Duration
	return !last && (byCount || byAge)
}

// 400 days of several series, with a clock that is set, with Backups that fail, run, are kept for good, left in the
// repository, missing, in use, of rules of their own or being deleted for some time: on each day those go of which the
// documentation says so, and no others. Whatever happens, what can be restored of a series can be afterwards.
func TestManyDays(t *testing.T) {
	went := 0
	for seed := range uint64(25) {
		s := simulate(seed)
		for days := range 400 {
			s.pass()
			s.settle()
			s.backUp(days)
			went += s.decide(t, fmt.Sprintf("seed %d, day %d", seed, days))
			if t.Failed() {
				return
			}
		}
	}
	if went < 1000 {
		t.Errorf("only %d Backups went in all that time", went)
	}
}

// decide compares a decision with the oracle, and has go what is to: as the controller has it, some of it only after a
// while.
func (s *simulation) decide(t *testing.T, when string) (went int) {
	t.Helper()
	p := decide(s.kept, s.inUse, s.now)
	due := map[*platformv1.Backup]bool{}
	for i, v := range p.due {
		due[v.backup] = true
		if i > 0 && newer(p.due[i-1].backup, v.backup) {
			t.Errorf("%s: %s goes before %s, which is older", when, p.due[i-1].backup.Name, v.backup.Name)
		}
	}
	for _, b := range s.kept {
		if want := s.oracle(b); due[b] != want {
			t.Errorf("%s: %s goes: %v, want %v", when, b.Name, due[b], want)
		}
	}
	for b := range due {
		survives := func(other *platformv1.Backup) bool { return !due[other] && peers(b, other) }
		if !slices.ContainsFunc(s.kept, survives) {
			t.Errorf("%s: nothing is left of the series of %s", when, b.Name)
		}
	}
	if !p.next.IsZero() && !p.next.After(s.now) {
		t.Errorf("%s: it looks again at %s, which is over", when, p.next)
	}
	for b := range due {
		leaving(b)
	}
	if again := decide(s.kept, s.inUse, s.now); len(again.due) > 0 {
		t.Errorf("%s: what is left is not at rest: %d go", when, len(again.due))
	}
	return len(due)
}
