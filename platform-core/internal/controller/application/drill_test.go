// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Only Backups that a drill has judged are looked at, and of them the last one tells.
func TestLastJudged(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(time.Unix(100, 0))}}
	of := func(name, of string, judged int64) platformv1.Backup {
		b := platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: of}}}
		if judged > 0 {
			b.Status.Verified = &platformv1.BackupVerification{Time: metav1.NewTime(time.Unix(judged, 0))}
		}
		return b
	}
	all := []platformv1.Backup{of("never", "a", 0), of("first", "a", 200), of("last", "a", 300), of("of another", "b", 400), of("of one before", "a", 50)}
	indexed := slices.DeleteFunc(slices.Clone(all), func(b platformv1.Backup) bool { return !slices.Equal(judgedOf(&b), []string{app.Name}) })
	if len(indexed) != 3 {
		t.Errorf("%d are looked at", len(indexed))
	}
	for _, list := range [][]platformv1.Backup{all, indexed} {
		if got := lastJudged(app, list); got == nil || got.Name != "last" {
			t.Errorf("the last is %+v", got)
		}
	}
}
