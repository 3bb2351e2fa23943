// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"
	uberzap "go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/tuning"
)

// What the flags say of Operations and Entities is in effect from the start, what a ConfigMap says from then on, and
// the flags again without it.
func TestSettingsReachWhatGoesByThem(t *testing.T) {
	var s settings
	flags := pflag.NewFlagSet("operator", pflag.ContinueOnError)
	s.bind(flags, "database")
	if err := flags.Parse([]string{"--gitops-managers=fluxcd,kustomize-controller", "--entity-interval=2m",
		"--operation-history-ttl=48h"}); err != nil {
		t.Fatal(err)
	}
	l, err := newLive(s, uberzap.NewAtomicLevel())
	if err != nil {
		t.Fatal(err)
	}
	hours := func(n time.Duration) *metav1.Duration { return &metav1.Duration{Duration: n * time.Hour} }
	for _, tc := range []struct {
		what string
		// data of the ConfigMap; nil before there is a word about one.
		data     map[string]string
		managers []string
		interval time.Duration
		history  platformv1.OperationHistory
	}{
		{"the flags", nil, []string{"fluxcd", "kustomize-controller"}, 2 * time.Minute,
			platformv1.OperationHistory{TTL: hours(48)}},
		{"another word", map[string]string{
			tuning.KeyGitOpsManagers: "kustomize-controller", tuning.KeyEntityInterval: "30s", tuning.KeyHistoryTTL: "",
			tuning.KeyHistoryLimit: "7",
		}, []string{"kustomize-controller"}, 30 * time.Second, platformv1.OperationHistory{Limit: new(int32(7))}},
		{"nobody and nothing", map[string]string{tuning.KeyGitOpsManagers: "", tuning.KeyHistoryLimit: "0",
			tuning.KeyHistoryTTL: "1h"},
			nil, 2 * time.Minute, platformv1.OperationHistory{TTL: hours(1), Limit: new(int32(0))}},
		{"the flags again", map[string]string{}, []string{"fluxcd", "kustomize-controller"}, 2 * time.Minute,
			platformv1.OperationHistory{TTL: hours(48)}},
	} {
		if tc.data != nil {
			if err := l.keeper.Take(&corev1.ConfigMap{Data: tc.data}); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.rendering.Respected(); !slices.Equal(got, tc.managers) {
			t.Errorf("%s: %q are respected, want %q", tc.what, got, tc.managers)
		}
		if got := l.rendering.EntityInterval(); got != tc.interval {
			t.Errorf("%s: entities are looked at every %s, want %s", tc.what, got, tc.interval)
		}
		if got := l.rendering.History(); !reflect.DeepEqual(got, tc.history) {
			t.Errorf("%s: records are kept by %+v, want %+v", tc.what, got, tc.history)
		}
	}
}
