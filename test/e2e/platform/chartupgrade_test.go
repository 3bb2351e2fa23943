// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestChartUpgrade takes a Redis and a PostgreSQL with replicas, both of which are written to, from the release that is
// installed to the next one: other charts and other builds of the operator and its agents. No pod and no process is
// touched, no acknowledged write is lost, and the new operator does with the agents of before what is asked for. "make
// test-upgrade" says which releases these are.
func TestChartUpgrade(t *testing.T) {
	if framework.Config.NextChartsDir == "" || framework.Config.NextVersion == "" {
		t.Fatal(`cannot upgrade: set E2E_NEXT_CHARTS to a folder of charts and E2E_NEXT_VERSION to the tag of their ` +
			`images, or run "make test-upgrade"`)
	}
	s := framework.NewNamespace(t, "charts")
	db := s.CreateRedis("db", framework.WithFsyncAlways(), framework.WithReplicas(2))
	s.Create(framework.NewUpgradablePostgreSQL("db"))
	pg := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	db.WaitForReplicas(2)
	pg.WaitForReplicas(1)
	super := pg.Pool(framework.Login{})
	pg.Exec(super, "CREATE TABLE numbers (n int PRIMARY KEY)")
	all := []*framework.PluginUpgrade{
		{Application: &framework.Application{Namespace: s, Name: db.Application()}, Target: db.Reference(),
			Processes: db.Processes},
		{Application: pg.Application(), Target: pg.Reference(), Processes: pg.ProcessStarts},
	}
	images, definitions := map[string]string{}, suiteDefinitions(s)
	for _, u := range all {
		u.Before = u.ProcessMarks()
		maps.Copy(images, podImages(u.Application))
	}
	if former := leaderPod(s).Spec.Containers[0].Image; strings.HasSuffix(former, ":"+framework.Config.NextVersion) {
		t.Fatalf("the operator is image %s already", former)
	}

	w, pw := db.StartWriter(), pg.StartWriter(super)
	if err := framework.InstallFrom(s.Ctx, framework.Config.NextChartsDir, framework.OperatorName, "image.tag="+
		framework.Config.NextVersion, "agentImage.tag="+framework.Config.NextVersion); err != nil {
		t.Fatal(err)
	}
	s.Eventually(framework.ReadyTimeout, "the new operator leads", func() error {
		if now := leaderPod(s).Spec.Containers[0].Image; !strings.HasSuffix(now, ":"+framework.Config.NextVersion) {
			return fmt.Errorf("the one that leads is image %s", now)
		}
		return framework.WaitForOperator(s.Ctx)
	})
	for _, u := range all {
		u.Throughout(framework.QuietPeriod, "the pods of "+u.Name+" are left alone", func() error {
			if now := u.ProcessMarks(); !maps.Equal(now, u.Before) {
				return fmt.Errorf("they were %v and are %v", u.Before, now)
			}
			return nil
		})
	}
	w.Stop()
	w.StopAndVerify("another release", framework.InPlaceGapLimit)
	pw.StopAndVerify("another release", framework.InPlaceGapLimit)
	db.WaitForReplicas(2)
	pg.WaitForReplicas(1)
	for name, uid := range definitions {
		if now := suiteDefinitions(s)[name]; now != uid {
			t.Errorf("definition %q had UID %s and has %q: with it went every object of its kind", name, uid, now)
		}
	}

	managedByNext(s, db, pg)
	for _, u := range all {
		for pod, now := range podImages(u.Application) {
			if images[pod] != now {
				t.Errorf("the images of pod %s were %q and are %q", pod, images[pod], now)
			}
		}
	}
	other := s.CreateRedis("other")
	other.WaitReady()
	if now := imagesOf(other.Pod()); !strings.Contains(now, "zeroinfra/agent:"+framework.Config.NextVersion) {
		t.Errorf("a new pod has the images %s", now)
	}
}

// managedByNext has agents of the release before do what the operator of the next one asks of them: a reload of each
// instance, and a restart of every Redis server in its pod, behind a switchover.
func managedByNext(s *framework.Namespace, db *framework.Instance, pg *framework.PostgreSQLInstance) {
	s.Helper()
	redis := &framework.Application{Namespace: s, Name: db.Application()}
	uids, runs, starts := redis.UIDs(), db.Processes(), pg.ProcessStarts()
	managed(db, "222")
	pg.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["work_mem"] = "5MB" })
	pg.WaitForAnswerEverywhere("5MB", "SHOW work_mem")
	if now := db.Processes(); !maps.Equal(now, runs) {
		s.Errorf("the Redis servers were %v and are %v", runs, now)
	}
	if now := pg.ProcessStarts(); !maps.Equal(now, starts) {
		s.Errorf("the PostgreSQL servers were %v and are %v", starts, now)
	}
	s.Create(framework.NewRestartOperation("restart", db.Reference()))
	s.WaitForOperation("restart")
	db.WaitForReplicas(2)
	for pod, run := range db.Processes() {
		if runs[pod] == run {
			s.Errorf("the server in pod %s was not restarted", pod)
		}
	}
	if now := redis.UIDs(); !maps.Equal(now, uids) {
		s.Errorf("the pods had UIDs %v and have %v", uids, now)
	}
}

// podImages are those of each pod.
func podImages(a *framework.Application) map[string]string {
	a.Helper()
	all := map[string]string{}
	for _, pod := range a.Pods() {
		all[pod.Name] = imagesOf(&pod)
	}
	return all
}

// leaderPod waits until a pod of the operator leads, and returns it.
func leaderPod(s *framework.Namespace) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	if err := framework.Cluster.Client.Get(s.Ctx,
		client.ObjectKey{Namespace: framework.OperatorNamespace, Name: s.MustLeader()}, pod); err != nil {
		s.Fatal(err)
	}
	return pod
}
