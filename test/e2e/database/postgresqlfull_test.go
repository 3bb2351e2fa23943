// SPDX-License-Identifier: Apache-2.0

package database

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
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// alarmIn is how soon the condition says what the probe sees.
	alarmIn = 2 * time.Minute
	// fullIn is how long it may take to fill a volume of half a gibibyte.
	fullIn = 8 * time.Minute
)

// archiveNowhere has the log archived to a place that nobody serves.
func archiveNowhere(spec *platformv1.ApplicationSpec) {
	spec.Credentials = append(spec.Credentials,
		platformv1.Credential{Name: "archive", PasswordFrom: platformv1.SecretKeyReference{Name: "archive", Key: "password"}})
	for name, value := range map[string]platformv1.ParameterValue{"archive.endpoint": "http://127.0.0.1:9",
		"archive.bucket": "log", "archive.accessKey": "nobody"} {
		spec.Components[0].Parameters[name] = value
	}
}

// TestPostgreSQLVolumeFullOfLog proves that log which waits for its archive is never dropped, and that nothing is lost
// for it: there are alarms before the volume is full, another member takes over when the primary stops for want of
// room, and all are back when there is more.
func TestPostgreSQLVolumeFullOfLog(t *testing.T) {
	t.Parallel()
	for n := range framework.Config.FaultRounds {
		// A volume can only grow: each round has an instance of its own.
		t.Run(fmt.Sprintf("round %d", n+1), volumeFullOfLog)
	}
}

func volumeFullOfLog(t *testing.T) {
	s := framework.NewNamespace(t, "pgfull")
	s.CreateSecret("archive", "password", "none")
	r := s.CreateReplicatedPostgreSQL("db", archiveNowhere)
	r.WaitReady()
	primary, _ := r.WaitForPrimary()
	p := &framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}
	p.WaitForAnswer("1", "SELECT 1")
	p.SQL("postgres", "CREATE TABLE ha (n int PRIMARY KEY); CREATE TABLE probe (n int); GRANT ALL ON ha, probe TO app")
	p.WaitForAnswer("2", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
	archiving(r, "ArchivingFails", "VolumeFillsUp", "VolumeNearlyFull")

	load := r.StartTrial()
	for _, alarm := range []struct {
		below int
		says  []string
	}{
		{25, []string{"VolumeFillsUp", "VolumeNearlyFull"}},
		{10, []string{"VolumeNearlyFull"}},
	} {
		r.Eventually(fullIn, fmt.Sprintf("less than %d percent of the volume are free", alarm.below), func() error {
			if free := freeShare(r, primary); free >= alarm.below {
				segment(p)
				return fmt.Errorf("%d percent are", free)
			}
			return nil
		})
		archiving(r, alarm.says...)
	}
	r.Eventually(fullIn, "the volume is full and another pod writes", func() error {
		if now := r.Object().Status.Primary; now == "" || now == primary {
			segment(p)
			return fmt.Errorf("%q writes, and %d percent are free", now, freeShare(r, primary))
		}
		return nil
	})
	archiving(r, "ArchivingFails", "VolumeFillsUp", "VolumeNearlyFull")
	r.Update(framework.WithComponent(framework.PostgreSQLComponent,
		func(c *platformv1.ApplicationComponent) { c.Storage.Size = resource.MustParse("1Gi") }))
	r.Eventually(framework.VolumeGrowthTimeout, "all members are back with more room", func() error {
		app := r.Object()
		return framework.ReadyNow(app, app.Status.ObservedGeneration)
	})
	r.WaitForPrimary()
	v := load.End()
	v.Record("PostgreSQL: volume full of log")
	v.ExpectWithin(t, "volume full of log", framework.AnyGap)
	if v.Acknowledged == 0 {
		t.Error("no write was acknowledged")
	}
	r.LogChanges()
}

// segment fills one more file of the log, where the server still can.
func segment(p *framework.PostgreSQLApplication) {
	_, _ = p.PSQL("postgres", p.SuperuserPassword(), "postgres", "INSERT INTO probe VALUES (0)", "SELECT pg_switch_wal()")
}

// archiving waits until the condition says one of these reasons why not all is well.
func archiving(r *framework.Replicated, reasons ...string) {
	r.Helper()
	r.Eventually(alarmIn, "Archiving says "+strings.Join(reasons, " or "), func() error {
		c := meta.FindStatusCondition(r.Object().Status.Conditions, "Archiving")
		if c == nil || c.Status != metav1.ConditionFalse || !slices.Contains(reasons, c.Reason) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// freeShare of the volume of a pod, in percent.
func freeShare(r *framework.Replicated, pod string) int {
	r.Helper()
	out, err := framework.Run(r.Ctx, r.Namespace.Name, pod, r.Kind.Component, "", "df", "-P", "-k", "/data")
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
