// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"

	uberzap "go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/engine"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/tuning"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

// live is what settings change while the operator runs.
type live struct {
	level     uberzap.AtomicLevel
	limiter   *tuning.Limiter
	workers   *queue.Limit
	rendering *engine.Settings
	keeper    *tuning.Keeper
}

// newLive returns what the flags say, in effect.
func newLive(s settings, level uberzap.AtomicLevel) (*live, error) {
	values, err := s.tuned()
	if err != nil {
		return nil, err
	}
	pods, err := s.pods.settings()
	if err != nil {
		return nil, err
	}
	l := &live{
		level:     level,
		limiter:   tuning.NewLimiter(values.QPS, values.Burst),
		workers:   queue.NewLimit(values.Workers),
		rendering: engine.NewSettings(s.agentImage, pods),
	}
	l.keeper = &tuning.Keeper{Key: s.settingsKey(), Defaults: values, Use: l.use, Log: ctrl.Log.WithName("settings")}
	l.use(values)
	return l, nil
}

// use has settings take effect.
func (l *live) use(v tuning.Values) {
	l.level.SetLevel(v.LogLevel)
	l.limiter.Set(v.QPS, v.Burst)
	l.workers.Set(v.Workers)
	l.rendering.Use(v.ImageRegistry, v.ClusterDomain)
	l.rendering.Respect(strings.FieldsFunc(v.GitOpsManagers, func(r rune) bool { return r == ',' }))
	l.rendering.UseEntityInterval(v.EntityInterval)
	l.rendering.UseHistory(historyOf(v))
}

// historyOf is how long records are kept, in the words of an Application.
func historyOf(v tuning.Values) platformv1.OperationHistory {
	var history platformv1.OperationHistory
	if v.HistoryTTL > 0 {
		history.TTL = &metav1.Duration{Duration: v.HistoryTTL}
	}
	if v.HistoryLimit >= 0 {
		history.Limit = new(int32(v.HistoryLimit))
	}
	return history
}

// first reads the ConfigMap before anything is done, so that nothing is rendered with settings that
// are not meant. What is refused does not keep the operator from starting: it is told again, in an
// event, once the manager runs.
func (l *live) first(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) error {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	found, err := tuning.Read(ctx, c, l.keeper.Key)
	if err != nil {
		return err
	}
	_ = l.keeper.Take(found) // It has logged what it refuses.
	return nil
}
