// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// columns returns what "kubectl get -o wide" shows of one object, by title.
func (s *space) columns(resource schema.GroupVersionResource, name string) map[string]string {
	s.Helper()
	request := world.kube.CoreV1().RESTClient().Get().
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		AbsPath("/apis", resource.Group, resource.Version)
	if s.name != "" {
		request = request.Namespace(s.name)
	}
	data, err := request.Resource(resource.Resource).Name(name).DoRaw(s.ctx)
	if err != nil {
		s.Fatalf("cannot get %s %q as a table: %v", resource.Resource, name, err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		s.Fatal(err)
	}
	if len(table.Rows) != 1 {
		s.Fatalf("the table of %s %q has %d rows", resource.Resource, name, len(table.Rows))
	}
	shown := map[string]string{}
	for n, column := range table.ColumnDefinitions {
		shown[column.Name] = ""
		if cell := table.Rows[0].Cells[n]; cell != nil {
			shown[column.Name] = fmt.Sprint(cell)
		}
	}
	return shown
}

// wantColumns has the test fail when a column is empty.
func (s *space) wantColumns(resource schema.GroupVersionResource, name string, titles ...string) {
	s.Helper()
	shown := s.columns(resource, name)
	for _, title := range titles {
		if shown[title] == "" || shown[title] == "<unknown>" {
			s.Errorf("kubectl get %s %s shows nothing under %q: %v", resource.Resource, name, title, shown)
		}
	}
	s.Logf("kubectl get %s %s: %v", resource.Resource, name, shown)
}
