// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/config/rbac"
)

// CheckDenied reads the audit log of a shared server, see Share, and returns an error that names what operators were
// denied.
func CheckDenied(folder string) error {
	denied := map[string]bool{}
	err := readAudit(filepath.Join(folder, auditFile), ":"+managerAccount, func(user string, access Access) {
		if access.Refused && isOperator(user) {
			denied[fmt.Sprintf("%s was denied to %s %s/%s in namespace %q", user, access.Verb, access.Group, access.Resource,
				access.Namespace)] = true
		}
	})
	return errors.Join(err, asError(denied))
}

// CheckRights reads the audit logs in the folder of a shared server and returns an error that names each right of
// platform-core/config/rbac that no operator has used, and each in exempt that an operator does not have or does use.
// The keys of exempt are rights that tests of other levels use, as "verb group/resource".
func CheckRights(folder string, exempt map[string]string) error {
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, log := range logs {
		err := readAudit(log, ":"+managerAccount, func(user string, access Access) {
			if isOperator(user) && !access.Refused {
				used[access.Verb+" "+access.Group+"/"+access.Resource] = true
			}
		})
		if err != nil {
			return err
		}
	}
	rights, err := grantedRights()
	if err != nil {
		return err
	}
	problems := map[string]bool{}
	for _, right := range rights {
		if exempt[right] == "" && !isUsed(right, used) {
			problems["no test uses the right to "+right+
				": remove it from config/rbac, or name what uses it in testserver"] = true
		}
	}
	for right := range exempt {
		if !slices.Contains(rights, right) {
			problems["testserver exempts the right to "+right+", which config/rbac does not grant"] = true
		}
		if used[right] {
			problems["testserver exempts the right to "+right+", which a test uses: remove the exemption"] = true
		}
	}
	return asError(problems)
}

// isOperator says whether a user is the account of an operator in any namespace.
func isOperator(user string) bool {
	return strings.HasPrefix(user, "system:serviceaccount:") && strings.HasSuffix(user, ":"+managerAccount)
}

// isUsed says whether a right was used, as far as requests can show.
func isUsed(right string, used map[string]bool) bool {
	verb, what, _ := strings.Cut(right, " ")
	switch {
	case used[right]:
		return true
	case verb == "list":
		// Newer servers send the first list through the watch; older ones do not.
		return used["watch "+what]
	case verb == "create":
		// An apply of what is absent is logged as a patch.
		return used["patch "+what]
	case verb == "get":
		// An Applier reads what it runs into although its cache does not show it, which happens in conflicts only.
		return used["patch "+what] || used["create "+what]
	}
	// Admission checks it when an owner reference is written.
	return verb == "update" && strings.HasSuffix(what, "/finalizers")
}

// grantedRights returns "verb group/resource" for every right that config/rbac grants in all namespaces.
func grantedRights() ([]string, error) {
	objects, err := readObjects(rbac.FS)
	if err != nil {
		return nil, err
	}
	var rights []string
	for _, obj := range objects {
		if obj.GetKind() != "ClusterRole" {
			continue
		}
		role := rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
			return nil, fmt.Errorf("cannot read role %q: %w", obj.GetName(), err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, verb+" "+rule.APIGroups[0]+"/"+resource)
				}
			}
		}
	}
	return rights, nil
}

// asError returns an error of these sentences in alphabetical order; nil for none.
func asError(sentences map[string]bool) error {
	var all []error
	for sentence := range sentences {
		all = append(all, errors.New(sentence))
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}
