// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// lifecycle are the operations that each page of what runs an instance speaks of, in order.
var lifecycle = []string{"Create", "Delete", "VerticalScaleResource", "VerticalScaleVolume", "HorizontalScale", "Stop",
	"Start", "Restart", "Reload", "Failover",
	"UpgradeApp", "UpgradePaaS"}

// lifecyclePages have a table for each plugin that is named. kinds says what a typed kind offers otherwise than its
// plugin.
var lifecyclePages = map[string]struct {
	plugins []string
	kind    map[string]string
}{
	"docs/kinds/inference.md":    {plugins: []string{"llama-cpp"}},
	"docs/kinds/mysqlcluster.md": {plugins: []string{"mysql"}, kind: map[string]string{"UpgradePaaS": "no"}},
	"docs/kinds/mysql.md": {plugins: []string{"mysql"},
		kind: map[string]string{"HorizontalScale": "no", "UpgradePaaS": "no"}},
	"docs/kinds/redis.md":        {plugins: []string{"redis"}},
	"docs/kinds/rediscluster.md": {plugins: []string{"redis"}},
	"docs/kinds/postgresql.md":   {plugins: []string{"postgresql"}},
	"docs/kinds/objectstorage.md": {plugins: []string{"minio", "s3-external"},
		kind: map[string]string{"HorizontalScale": "no"}},
	"docs/kinds/kafkacluster.md":                         {plugins: []string{"kafka"}},
	"database-operator/plugins/etcd/1.0.0/README.md":     {plugins: []string{"etcd"}},
	"common-operator/plugins/nginx/1.0.0/README.md":      {plugins: []string{"nginx"}},
	"model-operator/plugins/llama-cpp/1.0.0/README.md":   {plugins: []string{"llama-cpp"}},
	"model-operator/plugins/onnxruntime/1.0.0/README.md": {plugins: []string{"onnxruntime"}},
}

var (
	// lifecycleTable is a table of operations: its columns are topologies.
	lifecycleTable = regexp.MustCompile("(?m)^\\| operation \\|(.*)\\|\n\\|[-|]+\\|\n((?:\\|.*\\|\n?)+)")
	// packagedVersion is the name of a version of a plugin as it is packaged.
	packagedVersion = regexp.MustCompile(`^(.*)-(\d+)\.(\d+)\.(\d+)\.yaml$`)
)

// span is a range of a number of pods or sets.
type span struct{ Min, Max int32 }

// lifecyclePlugin is what of a plugin says which operations it has.
type lifecyclePlugin struct {
	Components []struct {
		Name, Authority, Scaling string
		Replicas                 *span
		Sets                     *span
		Volumes                  []any
		Process                  struct{ Reload map[string]any }
		Failover, Monitoring     map[string]any
	}
	Topologies []struct {
		Name       string
		From       []string
		Components []struct {
			Name, Authority string
			Replicas, Sets  *span
		}
	}
	versions   int
	operations map[string]struct{ Topologies []string }
}

// The table of a page says of each operation whether each topology of the plugin has it, as the plugin itself does, and
// why not.
func TestLifecycleOperationsOfThePages(t *testing.T) {
	for page, of := range lifecyclePages {
		tables := lifecycleTable.FindAllStringSubmatch(read(t, filepath.Join("../..", page)), -1)
		if len(tables) != len(of.plugins) {
			t.Errorf("%s has %d tables of operations, want one of each of %v", page, len(tables), of.plugins)
			continue
		}
		for i, table := range tables {
			checkLifecycle(t, page+", table of "+of.plugins[i], newestPlugin(t, of.plugins[i]), of.kind, table[1], table[2])
		}
	}
	var told []string
	for _, of := range lifecyclePages {
		told = append(told, of.plugins...)
	}
	for _, folder := range shippedPlugins(t) {
		if name := filepath.Base(folder); !slices.Contains(told, name) {
			t.Errorf("no page has a table of the operations of plugin %s: add one, and name it in lifecyclePages", name)
		}
	}
}

// withoutInstance are the pages of kinds that run no instance, to which the operations do not apply.
var withoutInstance = []string{"backuppolicy", "cronjob", "dataset", "kafkatopic", "model", "workflow"}

// noOperations begins what the page of a kind without an instance says of operations; a reason follows the colon.
const noOperations = "## Operations\n\nIt has none of the [operations of an instance](../operations.md): "

// The page of each kind has a table of operations, or says why it has none.
func TestEachPageTellsOfOperations(t *testing.T) {
	for english, chinese := range translated(t) {
		name, isKind := strings.CutPrefix(strings.TrimSuffix(english, ".md"), "kinds/")
		if _, table := lifecyclePages["docs/"+english]; table || !isKind || name == "instance" {
			continue
		}
		if !slices.Contains(withoutInstance, name) {
			t.Errorf("docs/%s has no table of operations: add one, and name it in lifecyclePages", english)
			continue
		}
		_, after, found := strings.Cut(read(t, filepath.Join("../../docs", english)), noOperations)
		if why, _, _ := strings.Cut(after, "."); !found || len(why) < 10 {
			t.Errorf("docs/%s lacks %q, with the reason", english, noOperations)
		}
		if !strings.Contains(read(t, filepath.Join("../../docs", chinese)), "\n## 操作\n") {
			t.Errorf("docs/%s lacks the part 操作", chinese)
		}
	}
}

func checkLifecycle(t *testing.T, where string, plugin lifecyclePlugin, kind map[string]string, head, body string) {
	t.Helper()
	topologies := cells(head)
	var rows []string
	for line := range strings.Lines(body) {
		row := cells(strings.Trim(strings.TrimSpace(line), "|"))
		rows = append(rows, row[0])
		for i, said := range row[1:] {
			want, known := kind[row[0]]
			if !known {
				want = plugin.has(row[0], topologies[i])
			}
			is, why, _ := strings.Cut(said, ":")
			if is != want || is == "no" && len(strings.TrimSpace(why)) < 10 {
				t.Errorf("%s: %s of topology %s is said to be %q, and by the plugin it is %q; a reason follows a colon", where,
					row[0], topologies[i], said, want)
			}
		}
		if len(row) != len(topologies)+1 {
			t.Errorf("%s: %s has %d cells, want one for each of %v", where, row[0], len(row)-1, topologies)
		}
	}
	if !slices.Equal(rows, lifecycle) {
		t.Errorf("%s: the rows are %v, want %v", where, rows, lifecycle)
	}
}

// unmeasured are components without metrics, and why.
var unmeasured = map[string]string{
	"redis/sentinel": "what Sentinels say of their primary is in the metrics of the servers, and whether one " +
		"answers in the status of its pod",
	"kafka/keeper": "the metrics of a cluster elsewhere are where it is",
	"kafka/zookeeper": "how the sessions of brokers there are is in the metrics of these, and whether a server " +
		"serves in the status of its pod",
	"s3-external/keeper": "the metrics of a storage are where it is",
}

// Each component of a shipped plugin has metrics, but where there is a reason that it has none.
func TestComponentsHaveMetrics(t *testing.T) {
	for _, folder := range shippedPlugins(t) {
		name := filepath.Base(folder)
		for _, c := range newestPlugin(t, name).Components {
			if why := unmeasured[name+"/"+c.Name]; (why == "") != (c.Monitoring != nil) {
				t.Errorf("component %s of plugin %s has the monitoring %v, and the reason for none is %q", c.Name, name,
					c.Monitoring, why)
			}
		}
	}
}

// cells of a row, without what marks them as code.
func cells(row string) []string {
	var all []string
	for cell := range strings.SplitSeq(row, "|") {
		cell = strings.TrimSpace(cell)
		if inner := strings.Trim(cell, "`"); !strings.Contains(inner, "`") {
			cell = inner
		}
		all = append(all, cell)
	}
	return all
}

// scales are the words for whether replicas and sets can change.
var scales = map[[2]bool]string{
	{true, true}: "replicas and sets", {true, false}: "replicas", {false, true}: "sets", {false, false}: "no",
}

// has says whether a topology has an operation: yes, no, or what HorizontalScale changes.
func (p lifecyclePlugin) has(operation, topology string) string {
	replicas, sets, volumes, reload, failover, known := false, false, false, false, false, false
	for _, t := range p.Topologies {
		// One that goes on from another one begins with its pods.
		if t.Name != topology && !slices.Contains(t.From, topology) {
			continue
		}
		known = known || t.Name == topology
		for _, part := range t.Components {
			for _, c := range p.Components {
				if c.Name != part.Name {
					continue
				}
				pods, groups, authority := or(part.Replicas, c.Replicas), or(part.Sets, c.Sets), c.Authority
				if part.Authority != "" {
					authority = part.Authority
				}
				replicas = replicas || c.Scaling == "" && pods != nil && pods.Max > pods.Min
				if t.Name != topology {
					continue
				}
				sets = sets || c.Scaling != "Fixed" && groups != nil && groups.Max > groups.Min
				volumes = volumes || len(c.Volumes) > 0
				reload = reload || len(c.Process.Reload) > 0
				failover = failover || c.Failover != nil && authority == "engine" && pods != nil && pods.Max > 1
			}
		}
	}
	if own, ok := p.operations[operation]; ok && (len(own.Topologies) == 0 || slices.Contains(own.Topologies, topology)) {
		return "yes"
	}
	if !known {
		return "unknown, since the plugin has no such topology"
	}
	if always(operation) {
		return "yes"
	}
	return map[string]string{
		"VerticalScaleVolume": yes(volumes), "Reload": yes(reload), "Failover": yes(failover),
		"UpgradePaaS":     yes(p.versions > 1),
		"HorizontalScale": scales[[2]bool{replicas, sets}],
	}[operation]
}

// always says whether the engine does that for every plugin.
func always(operation string) bool {
	return slices.Contains([]string{"Create", "Delete", "VerticalScaleResource", "Stop", "Start", "Restart",
		"UpgradeApp"}, operation)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func or(first, second *span) *span {
	if first != nil {
		return first
	}
	return second
}

// shippedPlugins are the folders of the plugins that operators bring.
func shippedPlugins(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob("../../*-operator/plugins/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("there are no plugins: %v", err)
	}
	return folders
}

// newestPlugin reads the newest version of a plugin as it is packaged.
func newestPlugin(t *testing.T, name string) lifecyclePlugin {
	t.Helper()
	files, err := filepath.Glob("../../*-operator/config/plugins/" + name + "-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	newest, file := "", ""
	for _, path := range files {
		if m := packagedVersion.FindStringSubmatch(filepath.Base(path)); m != nil && m[1] == name {
			if version := fmt.Sprintf("%06s.%06s.%06s", m[2], m[3], m[4]); version > newest {
				newest, file = version, path
			}
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("plugin %s is packaged in no version: %v", name, err)
	}
	p := lifecyclePlugin{operations: map[string]struct{ Topologies []string }{}}
	for _, document := range separator.Split(string(data), -1) {
		var part corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &part); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for key, text := range part.Data {
			var err error
			switch operation, isOperation := strings.CutSuffix(key, ".yaml"); {
			case key == "components.yaml":
				err = yaml.Unmarshal([]byte(text), &p)
			case key == "supported-versions":
				p.versions = len(strings.Split(text, ","))
			case isOperation && strings.Contains(part.Name, "-operations-"):
				var template struct{ Topologies []string }
				err = yaml.Unmarshal([]byte(text), &template)
				p.operations[operation] = template
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", file, key, err)
			}
		}
	}
	return p
}
