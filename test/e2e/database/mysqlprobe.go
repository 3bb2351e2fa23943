// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroinfra/test/bench/faults"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// mysqlProbeEvery is how often each member is written to.
	mysqlProbeEvery = 100 * time.Millisecond
	// mysqlProbes is the table for that: a number of each write, and the view of the group that it was made in.
	mysqlProbes = "app.probes"
	// mysqlProbe writes nothing in a server that is in no group.
	mysqlProbe = "INSERT INTO " + mysqlProbes + " SELECT ?, VIEW_ID " +
		"FROM performance_schema.replication_group_member_stats WHERE MEMBER_ID = @@global.server_uuid AND VIEW_ID <> ''"
)

// hostOf is the name that a pod of the group has in DNS.
func (g *mysqlGroup) hostOf(pod string) string {
	return pod + "." + g.application().Name + "-mysql-headless." + g.Namespace.Name + ".svc"
}

// direct is a client of one member, whoever is the primary: the account root, which only super_read_only keeps from
// writing.
func (g *mysqlGroup) direct(pod string) *sql.DB {
	g.Helper()
	config := g.externalConfig(g.hostOf(pod), "3306")
	root := g.credential("root")
	config.User, config.Passwd, config.DBName, config.RejectReadOnly = root["username"], root["password"], "", false
	db := g.open(config)
	db.SetMaxOpenConns(1)
	return db
}

// probe writes to a member until the context ends. What was not acknowledged is not counted.
func (t *mysqlTrial) probe(ctx context.Context, pod string, member *sql.DB) {
	pace := time.NewTicker(mysqlProbeEvery)
	defer pace.Stop()
	for ctx.Err() == nil {
		t.writeTo(ctx, pod, member)
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

func (t *mysqlTrial) writeTo(ctx context.Context, pod string, member *sql.DB) {
	ctx, cancel := context.WithTimeout(ctx, framework.ProbeTimeout)
	defer cancel()
	n, begun := framework.Written.Add(1), time.Now()
	result, err := member.ExecContext(ctx, mysqlProbe, n)
	if err != nil {
		return
	}
	w := faults.Write{Member: pod, Begun: begun, Acked: time.Now()}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		t.note(w, "")
		return
	}
	view := ""
	if err := member.QueryRowContext(ctx, "SELECT view FROM "+mysqlProbes+" WHERE n = ?", n).Scan(&view); err == nil {
		t.note(w, view)
	}
}

// note keeps a write that a member acknowledged in a view of its group.
func (t *mysqlTrial) note(w faults.Write, view string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	group, number, _ := strings.Cut(view, ":")
	epoch, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.alone[w.Member]++
		return
	}
	w.Group, w.Epoch = group, epoch
	t.took = append(t.took, w)
}

// judgeProbes has the test fail where two members took writes at once, and returns for how long none did.
func (t *mysqlTrial) judgeProbes(fault string) time.Duration {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	by := map[string]int{}
	moments := make([]time.Time, 0, len(t.took))
	for _, w := range t.took {
		by[w.Member]++
		moments = append(moments, w.Acked)
	}
	slices.SortFunc(moments, time.Time.Compare)
	two := faults.TwoPrimaries(t.took)
	for _, said := range two[:min(len(two), framework.ReportedLosses)] {
		t.Errorf("%s: two members took writes at once: %s", fault, said)
	}
	t.Logf("%s: of writes to each member these were acknowledged: %v; %d of them beside another primary; outside of a "+
		"group: %v", fault, by, len(two), t.alone)
	return framework.LongestGap(moments)
}

// mysqlIsolated writes to a server from its own container, and keeps what was acknowledged with its times in
// microseconds, until a file ends it.
const mysqlIsolated = `file=$1
: >"$file"
(
  while [ ! -e "$file.stop" ]; do
    timeout 3 mysql --defaults-file=/zeroinfra/run/mysql.cnf --batch --skip-column-names --connect-timeout=1 \
      --execute="SET @begun = CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS UNSIGNED);
      INSERT INTO app.probes SELECT @begun, VIEW_ID FROM performance_schema.replication_group_member_stats
        WHERE MEMBER_ID = @@global.server_uuid AND VIEW_ID <> '';
      SELECT @begun, CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS UNSIGNED), view FROM app.probes
        WHERE n = @begun" >>"$file"
    sleep 0.1
  done
  : >"$file.ended"
) >/dev/null 2>&1 &
`

// startIsolatedSession has a client in the container of a member go on to write to its server, as one does that is cut
// off with it. What is returned ends it, and has its writes judged with those of the others.
func (t *mysqlTrial) startIsolatedSession(pod string) (leave func()) {
	t.Helper()
	file := fmt.Sprintf("/tmp/isolated%d", time.Now().UnixNano())
	if _, err := framework.Run(t.Ctx, t.Namespace.Name, pod, mysqlComponent, "", "sh", "-c", mysqlIsolated, "session",
		file); err != nil {
		t.Fatal(err)
	}
	t.Eventually(framework.SettleTimeout, "the session in "+pod+" writes", func() error {
		_, err := framework.Run(t.Ctx, t.Namespace.Name, pod, mysqlComponent, "", "test", "-s", file)
		return err
	})
	return func() {
		t.Helper()
		taken := ""
		t.Eventually(framework.SettleTimeout, "the session in "+pod+" ends", func() (err error) {
			taken, err = framework.Run(t.Ctx, t.Namespace.Name, pod, mysqlComponent, "", "sh", "-c",
				`: >"$1.stop"; [ -e "$1.ended" ] && cat "$1"`, "session", file)
			return err
		})
		count := 0
		for line := range strings.Lines(taken) {
			var begun, acked int64
			var view string
			if n, _ := fmt.Sscan(line, &begun, &acked, &view); n == 3 {
				t.note(faults.Write{Member: pod, Begun: time.UnixMicro(begun), Acked: time.UnixMicro(acked)}, view)
				count++
			}
		}
		if count == 0 {
			t.Fatalf("the session in %s says %q", pod, taken)
		}
		t.Logf("the session in %s had %d writes acknowledged", pod, count)
	}
}
