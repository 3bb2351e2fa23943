// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestReport(t *testing.T) {
	named := metav1.ObjectMeta{Name: "mysql-a"}
	running := &platformv1.Application{ObjectMeta: named, Status: platformv1.ApplicationStatus{
		Version:   "9.7",
		Ready:     "1/1",
		Endpoints: []platformv1.Endpoint{{Host: "mysql-a.shop.svc", Port: 1234, Role: "primary"}},
		Binding:   &platformv1.Binding{Name: "mysql-a-binding"},
	}}
	for name, c := range map[string]struct {
		app  *platformv1.Application
		want databasev1.MySQLStatus
	}{
		"running": {running, databasev1.MySQLStatus{
			InstanceStatus: platformv1.InstanceStatus{
				Application: "mysql-a", Version: "9.7", Ready: "1/1",
				Endpoint: "mysql-a.shop.svc:1234", BindingName: "mysql-a-binding",
			},
		}},
		// What is no longer so does not stay in the status.
		"nothing known": {&platformv1.Application{ObjectMeta: named}, databasev1.MySQLStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "mysql-a"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &databasev1.MySQL{}
			obj.Status.InstanceStatus = platformv1.InstanceStatus{
				Version: "0", Ready: "0/1", Endpoint: "old:1", BindingName: "old",
				Members: []platformv1.InstanceMember{{Name: "old", Role: "old"}},
			}
			Kind{}.Report(obj, c.app)
			if !reflect.DeepEqual(obj.Status, c.want) {
				t.Errorf("got %+v, want %+v", obj.Status, c.want)
			}
		})
	}
}
