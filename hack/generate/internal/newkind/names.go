// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxKind leaves fourteen characters of an Application's name for that of the object.
const maxKind = 23

var (
	camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$`)
	lowerWord = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
)

// reserved are the names, in lower case, of packages that files of a kind import, and those that hack/checks refuses.
var reserved = []string{"kind", "typed", "testkit", "resource", "testing", "reflect", "platformv1", "metav1",
	"util", "utils", "helper", "helpers", "common", "misc", "shared", "base"}

// checkName refuses what cannot be the name of a kind, and of a package in lower case.
func checkName(kind string) error {
	lower := strings.ToLower(kind)
	switch {
	case !camelCase.MatchString(kind):
		return fmt.Errorf("the kind %q is not in UpperCamelCase: write it as in RedisCluster, with letters and digits only",
			kind)
	case len(kind) > maxKind:
		return fmt.Errorf("the kind %q has %d characters: at most %d are allowed, since it begins the name of each "+
			"Application", kind, len(kind), maxKind)
	case strings.HasSuffix(kind, "List"):
		return fmt.Errorf("the kind %q ends in List, which is the name of a list of objects: choose another name", kind)
	case token.IsKeyword(lower) || slices.Contains(reserved, lower):
		return fmt.Errorf("the kind %q cannot be: its package would be called %q, which has another meaning in Go or here. "+
			"Choose another name", kind, lower)
	}
	return nil
}

// checkTaken refuses a name that a kind of any operator has, since the names of their Applications would be the same,
// or that a type of the same package has.
func checkTaken(root, operator, kind string) error {
	files, err := filepath.Glob(filepath.Join(root, "*", "api", "v1", "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(root, file)
		names := `(?i:` + kind + `)`
		if strings.HasPrefix(path, operator+string(filepath.Separator)) {
			names = `(?:(?i:` + kind + `)|` + kind + `(?:Spec|Status|List))`
		}
		if match := regexp.MustCompile(`(?m)^type (` + names + `) `).FindSubmatch(data); match != nil {
			return fmt.Errorf("the name %q is taken: %s declares the type %s. Choose another name", kind, path, match[1])
		}
	}
	if folder := filepath.Join(operator, "internal", "kind", strings.ToLower(kind)); exists(filepath.Join(root, folder)) {
		return fmt.Errorf("the name %q is taken: there is a folder %s. Choose another name", kind, folder)
	}
	return nil
}

// plural of a noun in lower case, by the rules of English that hold for most.
func plural(noun string) string {
	stem, endsInY := strings.CutSuffix(noun, "y")
	ends := func(end string) bool { return strings.HasSuffix(noun, end) }
	switch {
	case endsInY && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou"):
		return stem + "ies"
	case slices.ContainsFunc([]string{"s", "x", "z", "ch", "sh"}, ends):
		return noun + "es"
	}
	return noun + "s"
}
