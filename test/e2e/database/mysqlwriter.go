// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/test/e2e/framework"
)

// mysqlPause is what all sessions of a writer together wait between two rows of one.
const mysqlPause = 20 * time.Millisecond

// mysqlWriter writes rows with numbers, and knows which were acknowledged.
type mysqlWriter struct {
	*mysqlInstance
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu sync.Mutex
	// acked are the numbers of each session, last is when a row was acknowledged, and gap the longest time without one.
	acked [][]int
	last  time.Time
	gap   time.Duration
}

// startWriter writes rows one after the other, with numbers from this one on.
func (m *mysqlInstance) startWriter(db *sql.DB, from int) *mysqlWriter {
	m.Helper()
	return m.startWriters(db, from, 1, mysqlPause)
}

// writesNumbers makes the table of a writer, which has had a row acknowledged.
func (m *mysqlInstance) writesNumbers() *mysqlWriter {
	m.Helper()
	db := m.bound()
	m.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	w := m.startWriter(db, 1)
	w.waitForAll("in the beginning")
	return w
}

// startWriters writes rows over so many sessions at once, each of which pauses between two.
func (m *mysqlInstance) startWriters(db *sql.DB, from, sessions int, pause time.Duration) *mysqlWriter {
	m.Helper()
	ctx, stop := context.WithCancel(m.Ctx)
	w := &mysqlWriter{mysqlInstance: m, stop: stop, acked: make([][]int, sessions), last: time.Now()}
	for session := range sessions {
		w.ended.Go(func() {
			for n := from + session; ctx.Err() == nil; n += sessions {
				writing, cancel := context.WithTimeout(ctx, 2*framework.AnswerTimeout)
				_, err := db.ExecContext(writing, "INSERT INTO numbers VALUES (?)", n)
				cancel()
				if err == nil {
					w.note(session, n)
				}
				time.Sleep(pause)
			}
		})
	}
	m.Cleanup(func() { w.stop(); w.ended.Wait() })
	return w
}

func (w *mysqlWriter) note(session, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[session] = append(w.acked[session], n)
	w.gap, w.last = max(w.gap, time.Since(w.last)), time.Now()
}

// counts are how many rows of each session were acknowledged.
func (w *mysqlWriter) counts() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make([]int, len(w.acked))
	for session, acked := range w.acked {
		counts[session] = len(acked)
	}
	return counts
}

// waitForAll waits until each session has had another row acknowledged.
func (w *mysqlWriter) waitForAll(what string) {
	w.Helper()
	before := w.counts()
	w.Eventually(framework.SettleTimeout, what+": all sessions write", func() error {
		waiting := 0
		for session, now := range w.counts() {
			if now == before[session] {
				waiting++
			}
		}
		if waiting > 0 {
			return fmt.Errorf("%d of %d do not", waiting, len(before))
		}
		return nil
	})
}

// finish has each row be there that was acknowledged, and says how long none was.
func (w *mysqlWriter) finish(what string, db *sql.DB) framework.Verdict {
	w.Helper()
	w.stop()
	w.ended.Wait()
	acked := slices.Concat(w.acked...)
	if len(acked) == 0 {
		w.Fatalf("%s: no write was acknowledged", what)
	}
	there := map[string]bool{}
	w.Eventually(framework.SettleTimeout, "what was written is read", func() error {
		got, err := w.asks(db, fmt.Sprintf(
			"SELECT COALESCE(JSON_ARRAYAGG(CONCAT('n', n)), '[]') FROM numbers WHERE n BETWEEN %d AND %d", slices.Min(acked),
			slices.Max(acked)))
		for word := range strings.FieldsFuncSeq(got, func(r rune) bool { return strings.ContainsRune(`[]", `, r) }) {
			there[word] = true
		}
		return err
	})
	lost := 0
	for _, n := range acked {
		if there[fmt.Sprintf("n%d", n)] {
			continue
		}
		if lost++; lost <= 10 {
			w.Errorf("%s: row %d was acknowledged and is lost", what, n)
		}
	}
	w.Logf("%s: %d writes were acknowledged over %d sessions, %d of them are lost, and none came for %s", what, len(acked),
		len(w.acked), lost, framework.FormatSeconds(w.gap))
	return framework.Verdict{Gap: w.gap, Acknowledged: len(acked), Lost: lost}
}

// pool is a client as an application has it: it keeps so many sessions, and leaves a server that takes no writes any
// more.
func (m *mysqlInstance) pool(sessions int) *sql.DB {
	m.Helper()
	b := m.binding()
	config := m.config(b["username"], b["password"], b["database"])
	config.RejectReadOnly = true
	db := m.open(config)
	db.SetMaxOpenConns(sessions)
	db.SetMaxIdleConns(sessions)
	return db
}

// waitForSessions waits until a pool has as many sessions as it is to have.
func (m *mysqlInstance) waitForSessions(db *sql.DB) {
	m.Helper()
	m.Eventually(framework.SettleTimeout, "the pool is full", func() error {
		if s := db.Stats(); s.OpenConnections < s.MaxOpenConnections {
			return errors.New(fmt.Sprint(s.OpenConnections, " of ", s.MaxOpenConnections))
		}
		return nil
	})
}
