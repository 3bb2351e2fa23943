// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// mysqlWriter writes rows with numbers, and knows which were acknowledged.
type mysqlWriter struct {
	*mysqlInstance
	stop  context.CancelFunc
	ended sync.WaitGroup
	acked []int
	gap   time.Duration
}

func (m *mysqlInstance) startWriter(db *sql.DB, from int) *mysqlWriter {
	m.Helper()
	ctx, stop := context.WithCancel(m.Ctx)
	w := &mysqlWriter{mysqlInstance: m, stop: stop}
	w.ended.Go(func() {
		last := time.Now()
		for n := from; ctx.Err() == nil; n++ {
			writing, cancel := context.WithTimeout(ctx, 2*framework.AnswerTimeout)
			_, err := db.ExecContext(writing, "INSERT INTO numbers VALUES (?)", n)
			cancel()
			if err == nil {
				w.acked, w.gap, last = append(w.acked, n), max(w.gap, time.Since(last)), time.Now()
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return w
}

// finish has each row be there that was acknowledged, and says how long none was.
func (w *mysqlWriter) finish(what string, db *sql.DB) {
	w.Helper()
	w.stop()
	w.ended.Wait()
	if len(w.acked) == 0 {
		w.Fatalf("%s: no write was acknowledged", what)
	}
	first, last := w.acked[0], w.acked[len(w.acked)-1]
	there := map[string]bool{}
	w.Eventually(framework.SettleTimeout, "what was written is read", func() error {
		got, err := w.asks(db, fmt.Sprintf("SELECT COALESCE(JSON_ARRAYAGG(CONCAT('n', n)), '[]') FROM numbers WHERE n BETWEEN %d AND %d", first, last))
		for word := range strings.FieldsFuncSeq(got, func(r rune) bool { return strings.ContainsRune(`[]", `, r) }) {
			there[word] = true
		}
		return err
	})
	for _, n := range w.acked {
		if !there[fmt.Sprintf("n%d", n)] {
			w.Errorf("%s: row %d was acknowledged and is lost", what, n)
		}
	}
	w.Logf("%s: %d writes were acknowledged, and none for %s", what, len(w.acked), framework.FormatSeconds(w.gap))
}

// primaryPod is the pod that the engine calls the primary. Two are an error.
func (m *mysqlInstance) primaryPod() *corev1.Pod {
	m.Helper()
	var found *corev1.Pod
	m.Eventually(framework.ReadyTimeout, "one pod is the primary", func() error {
		found = nil
		for _, pod := range m.application().Pods() {
			if pod.Labels[platformv1.RoleLabel] != "primary" {
				continue
			}
			if found != nil {
				m.Errorf("%s and %s are called the primary", found.Name, pod.Name)
			}
			found = &pod
		}
		if found == nil {
			return errNotYet
		}
		return nil
	})
	return found
}

// TestMySQLGroup has three members keep what they acknowledge through faults of the primary, changes of their number, and an outage of all.
func TestMySQLGroup(t *testing.T) {
	s := framework.NewNamespace(t, "mysqlgroup")
	app := s.CreateApplication("db", platformv1.ApplicationSpec{
		Plugin: "mysql", PluginVersion: "1.0.0", Version: mysqlVersion, Topology: "group", DeletionPolicy: platformv1.DeletionPolicyDelete,
		Components: []platformv1.ApplicationComponent{{Name: "mysql", Storage: &platformv1.Storage{Size: resource.MustParse("1Gi")},
			Parameters: platformv1.Parameters{"innodb_redo_log_capacity": "32M"}}},
	})
	t.Logf("apply to Ready: %s", framework.FormatSeconds(app.WaitReady()))
	m := &mysqlInstance{Namespace: s, name: "db", ways: s.NewPortForwards(), alone: true}
	db := m.bound()
	m.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	target := framework.CoreReference("Application", "db")
	for i, part := range []struct {
		name string
		run  func()
	}{
		{"pod of the primary deleted", func() { s.Delete(m.primaryPod(), framework.GraceZero) }},
		{"switched over", func() {
			m.Create(framework.NewOperation("switch", "Switchover", target))
			m.WaitForOperation("switch")
		}},
		{"restarted, the primary last", func() {
			m.Create(framework.NewRestartOperation("restart", target))
			m.WaitForOperation("restart")
		}},
		{"five members", func() { app.Update(framework.WithComponentReplicas("mysql", 5)) }},
		{"three members again", func() { app.Update(framework.WithComponentReplicas("mysql", 3)) }},
		{"all pods deleted at once", func() {
			for _, pod := range app.Pods() {
				s.Delete(&pod, framework.GraceZero)
			}
		}},
	} {
		w := m.startWriter(db, i*1000000)
		part.run()
		app.WaitReady()
		m.primaryPod()
		w.finish(part.name, db)
	}
}
