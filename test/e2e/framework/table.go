// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ContainsWord says whether a name holds another one that ends at a dash, a dot or the end: "redis-a-main" holds
// "redis-a", and "redis-ab" does not.
func ContainsWord(name, word string) bool {
	_, rest, found := strings.Cut(name, word)
	return found && (rest == "" || rest[0] == '-' || rest[0] == '.')
}

// TableColumns returns what "kubectl get -o wide" shows of one object, by title.
func (s *Namespace) TableColumns(resource schema.GroupVersionResource, name string) map[string]string {
	s.Helper()
	request := Cluster.Kube.CoreV1().RESTClient().Get().
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		AbsPath("/apis", resource.Group, resource.Version)
	if s.Name != "" {
		request = request.Namespace(s.Name)
	}
	data, err := request.Resource(resource.Resource).Name(name).DoRaw(s.Ctx)
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

// ExpectTableColumns has the test fail when a column is empty.
func (s *Namespace) ExpectTableColumns(resource schema.GroupVersionResource, name string, titles ...string) {
	s.Helper()
	shown := s.TableColumns(resource, name)
	for _, title := range titles {
		if shown[title] == "" || shown[title] == "<unknown>" {
			s.Errorf("kubectl get %s %s shows nothing under %q: %v", resource.Resource, name, title, shown)
		}
	}
	s.Logf("kubectl get %s %s: %v", resource.Resource, name, shown)
}
