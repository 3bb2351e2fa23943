// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy has the API server write down which account asked for what, and nothing of the content. What tests do
// themselves is left out: it would be most of the log.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// Access is one kind of request that somebody made.
type Access struct {
	// Verb as RBAC has it, for example list.
	Verb string
	// Group and Resource of the API; the resource has its subresource after a slash.
	Group, Resource string
	// Namespace of the object; empty for requests over all namespaces and for objects in none.
	Namespace string
	// Refused is true when the API server denied the right to it.
	Refused bool
}

// audit has the API server of an environment write an audit log into a folder.
func audit(environment *envtest.Environment, folder string) error {
	policy := filepath.Join(folder, auditPolicyFile)
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", filepath.Join(folder, auditFile)).
		// In MiB. By itself the server begins another file after 100, and what is in the former would not be read.
		Set("audit-log-maxsize", "100000")
	return nil
}

// response is how the server answered a request.
type response struct {
	Code    int
	Message string
}

// isDenial says whether the answer was no for want of a right, unlike that of an admission. decision is about the
// request itself; an apply that would make the object is let in for the right to patch, and then denied for want of
// that to create, for which older servers give no reason.
func (r response) isDenial(decision string) bool {
	if r.Code != http.StatusForbidden {
		return false
	}
	return decision == "forbid" || strings.Contains(r.Message, " cannot create resource ") ||
		strings.HasSuffix(r.Message, "is forbidden: ")
}

// Denied returns an error that names what a user was denied since the API server started; nil when that is nothing.
func (e *Env) Denied(user string) error {
	found, err := e.Accesses(user)
	if err != nil {
		return err
	}
	var denied []error
	for access := range found {
		if access.Refused {
			denied = append(denied, fmt.Errorf("%s was denied to %s %s in group %q of namespace %q", user, access.Verb,
				access.Resource, access.Group, access.Namespace))
		}
	}
	return errors.Join(denied...)
}

// Accesses returns what a user has asked the API server for since it started, each kind of request
// once. A request that was made with bad credentials is nobody's.
func (e *Env) Accesses(user string) (map[Access]int, error) {
	found := map[Access]int{}
	err := readAudit(filepath.Join(e.server.folder, auditFile), user, func(who string, access Access) {
		if who == user {
			found[access]++
		}
	})
	return found, err
}

// readAudit calls found for each request to a resource in an audit log whose line contains a text.
func readAudit(path, text string, found func(user string, access Access)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the audit log: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(text)) {
			continue // Most lines are of others: decoding them takes long.
		}
		var entry struct {
			Verb string
			User struct{ Username string }
			// Impersonated is whom the user acted as, with the rights of that one.
			Impersonated *struct{ Username string }                                  `json:"impersonatedUser"`
			Ref          struct{ Resource, Subresource, APIGroup, Namespace string } `json:"objectRef"`
			Status       response                                                    `json:"responseStatus"`
			// Annotations say how the server decided.
			Annotations map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			continue // The server may be in the middle of the last line.
		}
		who := entry.User.Username
		if entry.Impersonated != nil {
			who = entry.Impersonated.Username
		}
		if entry.Ref.Resource == "" {
			continue
		}
		resource := entry.Ref.Resource
		if entry.Ref.Subresource != "" {
			resource += "/" + entry.Ref.Subresource
		}
		refused := entry.Status.isDenial(entry.Annotations["authorization.k8s.io/decision"])
		found(who, Access{entry.Verb, entry.Ref.APIGroup, resource, entry.Ref.Namespace, refused})
	}
	return lines.Err()
}
