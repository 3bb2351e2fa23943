// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The pages in Chinese are below docs/zh. Their examples, links, Operations and columns are checked with those of the
// other pages; what is checked here is that they say as much as the pages in English that they come from.

var (
	// tableRow is a row of a table: its first cell, and the others.
	tableRow = regexp.MustCompile(`(?m)^\| *([^|]*?) *\|(.*)\|$`)
	// word is what is written as code.
	word = regexp.MustCompile("`([^`]+)`")
	// chineseLifecycleTable is a table of operations of a page in Chinese.
	chineseLifecycleTable = regexp.MustCompile(strings.Replace(lifecycleTable.String(), "operation", "操作", 1))
)

// translated are the pages in Chinese by those in English that they come from, both below docs.
func translated(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"concepts.md": "zh/concepts.md"}
	found, err := filepath.Glob("../../docs/kinds/*.md")
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no pages of kinds: %v", err)
	}
	for _, path := range found {
		if name := filepath.Base(path); !slices.Contains(guides, name) {
			pages["kinds/"+name] = "zh/kinds/" + name
		}
	}
	return pages
}

// Each page of a kind has one in Chinese, which leads to it, and which the contents in Chinese name.
func TestPagesOfKindsAreInChinese(t *testing.T) {
	contents, of := read(t, "../../docs/zh/README.md"), map[string]string{}
	for english, chinese := range translated(t) {
		of[chinese] = english
		path := filepath.Join("../../docs", chinese)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("docs/%s has no page in Chinese: write docs/%s", english, chinese)
			continue
		}
		page := read(t, path)
		back, _ := filepath.Rel(filepath.Dir(chinese), english)
		index, _ := filepath.Rel(filepath.Dir(chinese), "zh/README.md")
		for _, target := range []string{back, index} {
			if !strings.Contains(page, "]("+target+")") {
				t.Errorf("docs/%s does not lead to %s", chinese, target)
			}
		}
		if name := strings.TrimPrefix(chinese, "zh/"); !strings.Contains(contents, "]("+name+")") {
			t.Errorf("docs/zh/README.md does not name %s", name)
		}
	}
	for _, path := range files(t, "docs/zh") {
		name, _ := filepath.Rel("../../docs", path)
		if _, known := of[filepath.ToSlash(name)]; !known && name != "zh/README.md" {
			t.Errorf("docs/%s comes from no page in English", name)
		}
	}
	for page, target := range map[string]string{
		"README.md": "docs/zh/README.md", "docs/README.md": "zh/README.md", "docs/zh/README.md": "../README.md",
	} {
		if !strings.Contains(read(t, filepath.Join("../..", page)), "]("+target+")") {
			t.Errorf("%s does not lead to %s", page, target)
		}
	}
}

// A page in Chinese begins with a whole object of its kind.
func TestChinesePagesBeginWithAnExample(t *testing.T) {
	kinds := schemas(t)
	for english, chinese := range translated(t) {
		found := snippets(t, filepath.Join("../../docs", chinese))
		if len(found) == 0 {
			t.Errorf("docs/%s has no example", chinese)
			continue
		}
		var page []kind
		if wrong := judgeSnippet(found[0], kinds, &page); len(wrong) > 0 || len(page) == 0 {
			t.Errorf("docs/%s does not begin with a whole object: %v", chinese, wrong)
			continue
		}
		name := strings.TrimSuffix(filepath.Base(english), ".md")
		if general := name == "concepts" || name == "instance"; !general && strings.ToLower(page[0].name) != name {
			t.Errorf("docs/%s begins with an object of kind %s", chinese, page[0].name)
		}
	}
}

// The tables of a page in Chinese begin their rows with words of the page in English or with kinds, and have all of its
// fields.
func TestChinesePagesHaveTheSameFields(t *testing.T) {
	ofKinds := map[string]bool{}
	for k := range schemas(t) {
		ofKinds[k.name] = true
	}
	for english, chinese := range translated(t) {
		original, page := read(t, filepath.Join("../../docs", english)), read(t, filepath.Join("../../docs", chinese))
		said := words(page)
		for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
			for w := range words(row[1]) {
				if !ofKinds[w] && !strings.Contains(original, w) {
					t.Errorf("docs/%s has a row of %q, which docs/%s does not know", chinese, w, english)
				}
			}
		}
		for _, field := range fieldsOf(original) {
			if !said[field] {
				t.Errorf("docs/%s does not name %q, which docs/%s has in a table of fields", chinese, field, english)
			}
		}
	}
}

// words are those of a text that are written as code.
func words(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range word.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		all[found[1]] = true
	}
	return all
}

// fieldsOf are those that the tables of fields of a page name.
func fieldsOf(page string) []string {
	var all []string
	within := false
	for line := range strings.Lines(code.ReplaceAllString(page, "")) {
		row := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case row == nil:
			within = false
		case strings.HasPrefix(row[1], "field"):
			within = true
		case within:
			for _, found := range word.FindAllStringSubmatch(row[1], -1) {
				all = append(all, found[1])
			}
		}
	}
	return all
}

// The tables of operations of a page in Chinese say what those of the page in English say.
func TestLifecycleOfChinesePages(t *testing.T) {
	for page := range lifecyclePages {
		english, isKind := strings.CutPrefix(page, "docs/")
		if !isKind {
			continue
		}
		chinese := filepath.Join("../../docs", translated(t)[english])
		want := lifecycleTable.FindAllStringSubmatch(read(t, filepath.Join("../..", page)), -1)
		got := chineseLifecycleTable.FindAllStringSubmatch(read(t, chinese), -1)
		if len(got) != len(want) {
			t.Errorf("%s has %d tables of operations, and %s has %d", chinese, len(got), page, len(want))
			continue
		}
		for i := range want {
			if !slices.Equal(cells(got[i][1]), cells(want[i][1])) {
				t.Errorf("%s: the topologies are %v, want %v", chinese, cells(got[i][1]), cells(want[i][1]))
				continue
			}
			checkChineseLifecycle(t, chinese, rowsOf(got[i][2]), rowsOf(want[i][2]))
		}
	}
}

func checkChineseLifecycle(t *testing.T, where string, got, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: there are %d operations, want %d", where, len(got), len(want))
		return
	}
	for i, row := range want {
		if got[i][0] != row[0] || len(got[i]) != len(row) {
			t.Errorf("%s: the row %v, want one of %s with as many cells as %v", where, got[i], row[0], row)
			continue
		}
		for j := 1; j < len(row); j++ {
			is, why, _ := strings.Cut(got[i][j], "：")
			has := "支持"
			if strings.HasPrefix(row[j], "no:") {
				has = "不支持"
			}
			if is != has || is == "不支持" && utf8.RuneCountInString(why) < 5 {
				t.Errorf("%s: of %s it says %q, and the page in English %q; a reason follows a colon", where, row[0],
					got[i][j], row[j])
			}
		}
	}
}

// rowsOf are the cells of the rows of a table.
func rowsOf(body string) [][]string {
	var all [][]string
	for line := range strings.Lines(body) {
		all = append(all, cells(strings.Trim(strings.TrimSpace(line), "|")))
	}
	return all
}
