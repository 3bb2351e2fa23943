// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// spoilKeys changes the keys that sumKeys looks at.
const spoilKeys = `for n = 1, 2000 do redis.call('SET', 'kept:' .. n, 'spoilt') end return 'done'`

// restoreOf returns an Operation that puts the data of a Backup in the place of that of a target.
func restoreOf(name, backup string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: named(name), Spec: platformv1.OperationSpec{
		TemplateRef: "Restore", TargetRef: target, Parameters: platformv1.Parameters{"backup": platformv1.ParameterValue(backup)},
	}}
}

// TestRestoreInPlace puts the data of Backups in the place of what instances have.
func TestRestoreInPlace(t *testing.T) {
	s := newSpace(t, "inplace")
	i := s.redis("cache", withReplicas(1), safe())
	i.ready()
	s.shelf("store", i.pod().Spec.Containers[0].Image)
	i.must("EVAL", putKeys, "0")
	sum := i.must("EVAL", sumKeys, "0")
	i.create(backupOf("first", "store", i.reference()))
	i.whole("first")
	i.must("EVAL", spoilKeys, "0")
	t.Run("of data that is damaged", func(t *testing.T) { i.in(t).checkDamagedInPlace() })
	t.Run("that is cancelled", func(t *testing.T) { i.in(t).checkCancelledInPlace() })
	t.Run("that is cancelled when the pods have gone", func(t *testing.T) { i.in(t).checkReturned() })
	t.Run("of a Redis with replicas", func(t *testing.T) { i.in(t).checkInPlace(sum) })
	t.Run("of a PostgreSQL alone", func(t *testing.T) { s.in(t).checkPostgreSQLInPlace() })
	// What is left goes with the namespace.
}

// volumes are the claims of an instance.
func (s *space) volumes(application string) []string {
	s.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := s.list(&list, client.MatchingLabels{platformv1.ApplicationLabel: application}); err != nil {
		s.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

// serves checks that a Redis goes on with the data and the pods that it has.
func (i *instance) serves(sum string, before types.UID) {
	i.Helper()
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		i.Errorf("it has the sum %s, and had %s", got, sum)
	}
	if pod := i.pod(); pod.UID != before {
		i.Error("its pod is another one")
	}
	if left := i.volumes(i.application()); len(left) != 2 {
		i.Errorf("there are the volumes %v", left)
	}
}

// checkDamagedInPlace: what is not as it was kept changes nothing, and neither does what is not there.
func (i *instance) checkDamagedInPlace() {
	i.create(backupOf("damaged", "store", i.reference()))
	b := i.whole("damaged")
	const breaks = `cd "$0" && for f in */data-*; do printf damaged | dd of="$f" bs=1 seek=100 conv=notrunc 2>/dev/null || exit 1; done`
	if _, err := run(i.ctx, i.space.name, shelfName, shelfName, "", "sh", "-c", breaks, mover.VolumePath+"/kept/"+b.Status.Key); err != nil {
		i.Fatal(err)
	}
	before, sum := i.pod().UID, i.must("EVAL", sumKeys, "0")
	for name, says := range map[string]string{"damaged-backup": mover.ReasonDamaged, "nowhere": "there is no Backup"} {
		i.create(restoreOf("of-"+name, name, i.reference()))
		if ended := i.finished("of-"+name, 3*readyIn); ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, says) {
			i.Errorf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
		}
		i.serves(sum, before)
	}
}

// checkCancelledInPlace: until the swap the instance goes on as if nobody had asked.
func (i *instance) checkCancelledInPlace() {
	before, sum := i.pod().UID, i.must("EVAL", sumKeys, "0")
	op := restoreOf("taken-back", "first-backup", i.reference())
	i.create(op)
	i.restorerOf("first-backup")
	if err := world.client.Patch(i.ctx, op, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		i.Fatal(err)
	}
	i.cancelled(op)
	i.serves(sum, before)
}

// checkReturned: until it is opened, all that was acknowledged before the pods ended is there again: also what the safety copy, which is taken under load,
// does not have.
func (i *instance) checkReturned() {
	sum := i.must("EVAL", sumKeys, "0")
	w := i.startWriter()
	op := restoreOf("regretted", "first-backup", i.reference())
	i.create(op)
	i.eventually(3*readyIn, "its pods go to the restored data", func() error {
		if err := i.get(op.Name, op); err != nil {
			return err
		}
		for _, step := range op.Status.Steps {
			if step.Name == "swap" && step.Phase == platformv1.OperationRunning {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %s", op.Status.Phase, op.Status.Error)
	})
	if err := world.client.Patch(i.ctx, op, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		i.Fatal(err)
	}
	i.cancelled(op)
	i.ready()
	w.stop()
	w.judge("writes while a restore is taken back", 3*readyIn)
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		i.Errorf("it has the sum %s, and had %s", got, sum)
	}
	if left := i.volumes(i.application()); len(left) != 2 {
		i.Errorf("there are the volumes %v", left)
	}
}

// cancelled waits until an Operation is.
func (i *instance) cancelled(op *platformv1.Operation) {
	i.Helper()
	i.eventually(readyIn, "it is cancelled", func() error {
		if err := i.get(op.Name, op); err != nil {
			return err
		}
		if op.Status.Phase != platformv1.OperationCancelled {
			return fmt.Errorf("it is %s: %s", op.Status.Phase, op.Status.Error)
		}
		return nil
	})
}

// checkInPlace: a mover and the operator are killed on the way, and the instance has all of the Backup, under the password that it had.
func (i *instance) checkInPlace(sum string) {
	before, password, spoilt := i.pod().UID, i.account().password, i.must("EVAL", sumKeys, "0")
	i.create(restoreOf("back", "first-backup", i.reference()))
	i.delete(i.restorerOf("first-backup"), graceZero)
	i.deleteOperator()
	i.passes("back")
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		i.Errorf("it has the sum %s, want %s", got, sum)
	}
	if i.pod().UID == before || i.account().password != password {
		i.Error("its pod is the same, or its password another one")
	}
	i.eventually(readyIn, "the volumes of before are gone", func() error {
		if left := i.volumes(i.application()); len(left) != 2 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	// A replica has copied it: it has all when it takes over.
	i.create(&platformv1.Operation{ObjectMeta: named("over"), Spec: platformv1.OperationSpec{TemplateRef: "Switchover", TargetRef: i.reference()}})
	i.passes("over")
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		i.Errorf("after a switchover it has the sum %s, want %s", got, sum)
	}
	// And what it had is in the safety copy.
	op := &platformv1.Operation{}
	i.mustGet("back", op)
	copied := op.Status.Steps[1].Outputs["backup"]
	again := restoreOf("forth", copied, i.reference())
	again.Spec.Parameters["safetyCopy"] = "Skip"
	i.create(again)
	i.passes("forth")
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != spoilt {
		i.Errorf("from its safety copy it has the sum %s, want %s", got, spoilt)
	}
}

func (s *space) checkPostgreSQLInPlace() {
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "64MB"},
		Databases:      []databasev1.PostgreSQLDatabase{{Name: "shop"}},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.ready()
	pool := p.pool(login{database: "shop"})
	p.exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n")
	sum, err := asks(p.ctx, pool, sumRows)
	if err != nil {
		s.Fatal(err)
	}
	s.create(backupOf("base", "store", p.reference()))
	s.whole("base")
	p.exec(pool, "UPDATE kept SET s = 'spoilt'")
	password := p.binding()["password"]
	s.create(restoreOf("rewind", "base-backup", p.reference()))
	s.passes("rewind")
	p.ready()
	restored := p.pool(login{database: "shop"})
	p.answers(restored, sum, sumRows)
	p.exec(restored, "INSERT INTO kept VALUES (0, 'new')")
	if p.binding()["password"] != password {
		s.Error("its password is another one")
	}
}
