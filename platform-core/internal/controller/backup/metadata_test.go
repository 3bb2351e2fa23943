// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// backedUp is an Application with a password in a Secret, and the Backup of it.
func backedUp() (*platformv1.Backup, *platformv1.Application) {
	b := made(running)
	b.Labels = map[string]string{platformv1.ScheduleLabel: "nightly"}
	b.Status.Plugin, b.Status.Version = &platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:2"},
		"7.0"
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "redis-cache", UID: "app"}}
	app.Spec.Plugin, app.Spec.PluginVersion, app.Spec.Version, app.Spec.Topology = "redis", "1.0.0", "7.0", "replication"
	return b, app
}

func user(name string) platformv1.Entity {
	e := platformv1.Entity{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "redis-cache-acl-user-" + name}}
	e.Spec = platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: "redis-cache"}, Type: "acl-user",
		Name:         name,
		Parameters:   platformv1.Parameters{"keys": "~*"},
		PasswordFrom: &platformv1.SecretKeyReference{Name: name + "-password", Key: "password"}}
	return e
}

// What is kept beside the data says how the instance was declared, with its users, and names Secrets without what is in
// them. It has all that a mover tells of it when the object of the backup was lost.
func TestMetadata(t *testing.T) {
	b, app := backedUp()
	from := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "database.zeroinfra.github.com/v1", "kind": "Redis",
			"metadata": map[string]any{"name": "cache"},
			"spec": map[string]any{"version": "7.0",
				"users": []any{map[string]any{"name": "reader",
					"passwordFrom": map[string]any{"name": "reader-password", "key": "password"}}}}}}
	text, err := metadataOf(b, "database", app, from, []platformv1.Entity{user("writer"), user("reader")})
	if err != nil {
		t.Fatal(err)
	}
	var m metadata
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Entities) != 2 || m.Entities[0].Spec.Name != "reader" ||
		m.Entities[0].Spec.PasswordFrom.Name != "reader-password" || m.Entities[1].Spec.Parameters["keys"] != "~*" ||
		m.EntitiesOmitted != 0 {
		t.Errorf("its users are %+v", m.Entities)
	}
	if m.DeclaredBy.Kind != "Redis" || m.DeclaredBy.Name != "cache" ||
		!strings.Contains(fmt.Sprint(m.DeclaredBy.Spec), "reader-password") || m.Application.Spec.Topology != "replication" {
		t.Errorf("it was declared by %+v, as %+v", m.DeclaredBy, m.Application)
	}
	var origin mover.Origin
	if err := json.Unmarshal(text, &origin); err != nil {
		t.Fatal(err)
	}
	if origin.Backup != "nightly" || origin.Domain != "database" || origin.Schedule != "nightly" ||
		origin.Method != "rdb" || origin.Version != "7.0" ||
		origin.Application.Namespace != "shop" || origin.Application.Name != "redis-cache" ||
		!strings.Contains(string(origin.Plugin), `"sha256:2"`) ||
		!strings.Contains(string(origin.Source), "redis-cache-redis-main-1") {
		t.Errorf("a mover takes it for %+v", origin)
	}
}

// However many users there are, the metadata have room in the plan of a mover, and say how many are left out.
func TestMetadataOfManyEntities(t *testing.T) {
	b, app := backedUp()
	var users []platformv1.Entity
	for i := range 2000 {
		users = append(users, user(fmt.Sprintf("user-%04d", i)))
	}
	text, err := metadataOf(b, "database", app, nil, users)
	if err != nil {
		t.Fatal(err)
	}
	var m metadata
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if len(text) > 2*maxEntities || len(m.Entities) < 100 || len(m.Entities)+m.EntitiesOmitted != len(users) ||
		m.DeclaredBy != nil {
		t.Errorf("%d bytes have %d users, and %d are left out", len(text), len(m.Entities), m.EntitiesOmitted)
	}
}
