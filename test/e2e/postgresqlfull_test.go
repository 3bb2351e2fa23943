// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// alarmIn is how soon the condition says what the probe sees.
	alarmIn = 2 * time.Minute
	// fullIn is how long it may take to fill a volume of half a gibibyte.
	fullIn = 8 * time.Minute
)

// archiveNowhere has the log archived to a place that nobody serves.
func archiveNowhere(spec *platformv1.ApplicationSpec) {
	spec.Credentials = append(spec.Credentials, platformv1.Credential{Name: "archive", PasswordFrom: platformv1.SecretKeyReference{Name: "archive", Key: "password"}})
	for name, value := range map[string]platformv1.ParameterValue{"archive.endpoint": "http://127.0.0.1:9", "archive.bucket": "log", "archive.accessKey": "nobody"} {
		spec.Components[0].Parameters[name] = value
	}
}

// TestPostgreSQLVolumeFullOfLog proves that log which waits for its archive is never dropped, and that nothing is lost for it: there are alarms before
// the volume is full, another member takes over when the primary stops for want of room, and all are back when there is more.
func TestPostgreSQLVolumeFullOfLog(t *testing.T) {
	t.Parallel()
	for n := range set.faultRounds {
		// A volume can only grow: each round has an instance of its own.
		t.Run(fmt.Sprintf("round %d", n+1), volumeFullOfLog)
	}
}

func volumeFullOfLog(t *testing.T) {
	s := newSpace(t, "pgfull")
	s.secret("archive", "password", "none")
	r := s.replicatedPostgreSQL("db", archiveNowhere)
	r.ready()
	primary, _ := r.whole()
	p := &postgresql{application: r.application, client: postgresqlClient}
	p.answers("1", "SELECT 1")
	p.sql("postgres", "CREATE TABLE ha (n int PRIMARY KEY); CREATE TABLE probe (n int)")
	p.answers("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
	r.archiving("ArchivingFails", "VolumeFillsUp", "VolumeNearlyFull")

	load := r.begin()
	for _, alarm := range []struct {
		below int
		says  []string
	}{
		{25, []string{"VolumeFillsUp", "VolumeNearlyFull"}},
		{10, []string{"VolumeNearlyFull"}},
	} {
		r.eventually(fullIn, fmt.Sprintf("less than %d percent of the volume are free", alarm.below), func() error {
			if free := r.freeShare(primary); free >= alarm.below {
				p.segment()
				return fmt.Errorf("%d percent are", free)
			}
			return nil
		})
		r.archiving(alarm.says...)
	}
	r.eventually(fullIn, "the volume is full and another pod writes", func() error {
		if now := r.object().Status.Primary; now == "" || now == primary {
			p.segment()
			return fmt.Errorf("%q writes, and %d percent are free", now, r.freeShare(primary))
		}
		return nil
	})
	r.archiving("ArchivingFails", "VolumeFillsUp", "VolumeNearlyFull")
	r.update(component(postgresqlComponent, func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("1Gi") }))
	r.eventually(growIn, "all members are back with more room", func() error {
		app := r.object()
		return readyNow(app, app.Status.ObservedGeneration)
	})
	r.whole()
	v := load.end()
	v.tell("PostgreSQL: volume full of log")
	v.hold(t, "volume full of log", anyGap)
	if v.acknowledged == 0 {
		t.Error("no write was acknowledged")
	}
	r.tellChanges()
}

// segment fills one more file of the log, where the server still can.
func (p *postgresql) segment() {
	_, _ = p.psql("postgres", p.binding()["password"], "postgres", "INSERT INTO probe VALUES (0)", "SELECT pg_switch_wal()")
}

// archiving waits until the condition says one of these reasons why not all is well.
func (r *replicated) archiving(reasons ...string) {
	r.Helper()
	r.eventually(alarmIn, "Archiving says "+strings.Join(reasons, " or "), func() error {
		c := meta.FindStatusCondition(r.object().Status.Conditions, "Archiving")
		if c == nil || c.Status != metav1.ConditionFalse || !slices.Contains(reasons, c.Reason) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// freeShare of the volume of a pod, in percent.
func (r *replicated) freeShare(pod string) int {
	r.Helper()
	out, err := run(r.ctx, r.space.name, pod, r.kind.component, "", "df", "-P", "-k", "/data")
	if err != nil {
		r.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 5 {
		r.Fatalf("df says %q", out)
	}
	used, err := strconv.Atoi(strings.TrimSuffix(fields[4], "%"))
	if err != nil {
		r.Fatalf("df says %q: %v", out, err)
	}
	return 100 - used
}
