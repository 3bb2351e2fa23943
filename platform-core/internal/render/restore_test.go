// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Objects are put into the servers of one set: all others have them then.
func TestRestoreOfObjectsIsRendered(t *testing.T) {
	const metrics = "    # Redis itself has no metrics"
	const env = "{name: S3_ENDPOINT, value: x}, {name: S3_ACCESS_KEY, value: x}"
	b := redis(t, metrics, `    backups:
      - name: objects
        objects: Full
        env: [`+env+`, {name: S3_SECRET_KEY, secret: {credential: default, key: password}}]
        restore:
          env: [`+env+`, {name: S3_SECRET_KEY, credential: default, key: password}]
`+metrics)
	app := application(component(func(*platformv1.ApplicationComponent) {}))
	specs, refusal := Components(b, app)
	if refusal != nil {
		t.Fatal(refusal)
	}
	specs[0].RestoreFrom = &platformv1.ComponentRestore{Backup: "nightly", UID: "uid", Method: "objects"}
	specs[0].Sets = append(specs[0].Sets, platformv1.ComponentSet{Name: "second"})
	output, refusal := Component(b, settings,
		Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: "database"}, &specs[0])
	if refusal != nil {
		t.Fatal(refusal)
	}
	first, second := output.WorkloadSets[0].Spec.Restore, output.WorkloadSets[1].Spec.Restore
	if first == nil || !first.ToServers() || first.Folder != "" || len(first.Command) > 0 ||
		first.Env[2].Credential != "default" || second != nil {
		t.Errorf("the sets are restored by %+v and %+v", first, second)
	}
}

// A set says how its first volume is filled, and its pods are the same as without.
func TestRestoreIsRendered(t *testing.T) {
	const metrics = "    # Redis itself has no metrics"
	b := redis(t, metrics, `    backups:
      - name: rdb
        from: [{role: primary}]
        command: [dump]
        restore:
          folder: /data
          command: [load, "${app.version}"]
          env:
            - {name: LIMIT, value: "${'maxmemory' in params ? params['maxmemory'] : 'none'}"}
      - {name: keys, default: true, from: [{role: primary}], command: [dump]}
`+metrics)
	app := application(component(func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"maxmemory": "64mb"}
	}))
	empty, _ := render(t, b, settings, app)
	specs, refusal := Components(b, app)
	if refusal != nil {
		t.Fatal(refusal)
	}
	from := platformv1.ComponentRestore{Backup: "nightly", UID: "uid", Method: "rdb"}
	specs[0].RestoreFrom = &from
	owner := Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: "database"}
	output, refusal := Component(b, settings, owner, &specs[0])
	if refusal != nil {
		t.Fatal(refusal)
	}
	set := output.WorkloadSets[0].Spec
	r := set.Restore
	if empty.Spec.Restore != nil || r == nil || !reflect.DeepEqual(r.From, from) || r.Container != "redis" ||
		r.Folder != "/data" || !slices.Equal(r.Command, []string{"load", "7.0"}) ||
		!slices.Equal(r.Env, []platformv1.RestoreVariable{{Name: "LIMIT", Value: "64mb"}}) {
		t.Errorf("it is restored by %+v", r)
	}
	if set.Revision != empty.Spec.Revision {
		t.Error("where the data comes from is another pod")
	}
	// Of several parts a set gets its own, and one that has none begins without.
	for sets, part := range map[string]string{"main": "main", "other": ""} {
		specs[0].RestoreFrom.Sets = []string{sets, "more"}
		output, refusal := Component(b, settings, owner, &specs[0])
		if refusal != nil {
			t.Fatal(refusal)
		}
		if r := output.WorkloadSets[0].Spec.Restore; (r != nil) != (part != "") || r != nil &&
			(r.Part != part || len(r.From.Sets) > 0) {
			t.Errorf("of the sets %q it is restored by %+v", sets, r)
		}
	}
	specs[0].RestoreFrom.Sets, specs[0].RestoreFrom.Method = nil, "keys"
	if _, refusal := Component(b, settings, owner, &specs[0]); refusal == nil ||
		!strings.Contains(refusal.Message, `restores nothing of method "keys"`) {
		t.Errorf("a method without a way back: %v", refusal)
	}
}
