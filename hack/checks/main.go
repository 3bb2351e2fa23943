// SPDX-License-Identifier: Apache-2.0

// Command checks holds the repository to its own rules: who may import whom, how long lines,
// functions and files are, what is documented, how big generated objects may get, and which
// words are no terms.
//
// It prints one line for each violation, as file:line: sentence, and exits with 1 when
// there is any. The argument is the root of the repository; without it, the one that
// the working directory is in. --only names the checks to run, separated by commas.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/checks/internal/budget"
	"github.com/zeroinfra/hack/checks/internal/law"
	"github.com/zeroinfra/hack/checks/internal/shape"
	"github.com/zeroinfra/hack/checks/internal/tree"
	"github.com/zeroinfra/hack/checks/internal/words"
)

var checks = map[string]func(*tree.Tree) []tree.Violation{
	"imports": law.Check,
	"shape":   shape.Check,
	"budgets": budget.Check,
	"words":   words.Check,
}

func main() {
	only := flag.String("only", "", "checks to run, separated by commas: imports, shape, budgets, words; all when empty")
	flag.Parse()
	violations, err := run(flag.Arg(0), *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checks:", err)
		os.Exit(2)
	}
	for _, v := range violations {
		fmt.Println(v)
	}
	if len(violations) > 0 {
		fmt.Fprintf(os.Stderr, "checks: %d violations\n", len(violations))
		os.Exit(1)
	}
}

func run(root, only string) ([]tree.Violation, error) {
	names := slices.Sorted(maps.Keys(checks))
	if only != "" {
		names = strings.Split(only, ",")
	}
	t, err := load(root)
	if err != nil {
		return nil, err
	}
	var all []tree.Violation
	for _, name := range names {
		check, found := checks[name]
		if !found {
			return nil, fmt.Errorf("there is no check %q: the checks are %v", name, slices.Sorted(maps.Keys(checks)))
		}
		all = append(all, check(t)...)
	}
	slices.SortFunc(all, tree.Compare)
	return all, nil
}

func load(root string) (*tree.Tree, error) {
	if root == "" {
		return tree.Load()
	}
	return tree.LoadAt(root)
}
