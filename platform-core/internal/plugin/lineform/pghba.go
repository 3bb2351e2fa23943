// SPDX-License-Identifier: Apache-2.0

package lineform

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// every stands for all databases, roles or addresses.
const every = "all"

// maxName is how many bytes of a name PostgreSQL keeps.
const maxName = 63

var (
	connections = []string{"host", "hostssl", "hostnossl"}
	methods     = []string{"scram-sha-256", "reject", "cert"}
	// keywords mean something else than a database or role of the name, as long as they are in no quotes. Whoever writes
	// one means that.
	keywords = []string{every, "sameuser", "samerole", "samegroup", "replication"}
)

// pgHBA reads the words of a rule and writes them with each name in quotes, in which nothing of it means anything else
// than itself.
func pgHBA(text string) (string, error) {
	words := strings.Split(text, " ")
	if len(words) != 5 {
		return "", errors.New(`has no rule of five words with a blank between them: the type, databases, roles, an address ` +
			`and the method, as in "host shop app 10.0.0.0/8 scram-sha-256"`)
	}
	connection, databases, roles, address, method := words[0], words[1], words[2], words[3], words[4]
	if !slices.Contains(connections, connection) {
		return "", fmt.Errorf("has a rule of type %q: it must be host, hostssl or hostnossl", connection)
	}
	var err error
	if words[1], err = names(databases, ""); err != nil {
		return "", fmt.Errorf("has a rule for the databases %q: %w", databases, err)
	}
	if words[2], err = names(roles, "+"); err != nil {
		return "", fmt.Errorf("has a rule for the roles %q: %w", roles, err)
	}
	if words[3], err = network(address); err != nil {
		return "", err
	}
	switch {
	case method == "trust":
		return "", errors.New("has a rule of method trust, which lets in whoever comes: it must be scram-sha-256, reject, " +
			"or cert with type hostssl")
	case !slices.Contains(methods, method):
		return "", fmt.Errorf("has a rule of method %q: it must be scram-sha-256, reject, or cert with type hostssl", method)
	case method == "cert" && connection != "hostssl":
		return "", errors.New("has a rule of method cert, which needs type hostssl: " +
			"only with TLS does a client show a certificate")
	}
	return strings.Join(words, " "), nil
}

// names writes a list of names, of which each may have a prefix that stays outside of its quotes.
func names(list, prefix string) (string, error) {
	if list == every {
		return every, nil
	}
	var quoted []string
	for _, name := range strings.Split(list, ",") {
		mark := ""
		if prefix != "" && strings.HasPrefix(name, prefix) {
			mark, name = prefix, strings.TrimPrefix(name, prefix)
		}
		switch {
		case slices.Contains(keywords, name):
			return "", fmt.Errorf("%s is a keyword of pg_hba.conf: name those that are meant, or write all alone for every one",
				name)
		case name == "" || len(name) > maxName:
			return "", fmt.Errorf("a name has 1 to %d bytes, and between two there is a comma without a blank", maxName)
		case strings.ContainsFunc(name, unicode.IsControl):
			return "", errors.New("a name cannot have a control character")
		case strings.HasPrefix(name, "/"):
			return "", errors.New("a name cannot begin with a slash, which makes a pattern of it also in quotes")
		}
		quoted = append(quoted, mark+`"`+strings.ReplaceAll(name, `"`, `""`)+`"`)
	}
	return strings.Join(quoted, ","), nil
}

// network writes an address as the server reads it.
func network(address string) (string, error) {
	if address == every {
		return every, nil
	}
	prefix, err := netip.ParsePrefix(address)
	switch {
	case err != nil:
		return "", fmt.Errorf("has a rule for the address %q: it must be all, or an address and the length of its network "+
			"such as 10.0.0.0/8 or fd00::/8", address)
	case prefix != prefix.Masked():
		return "", fmt.Errorf("has a rule for the address %q, which has bits beyond the length of its network: write %s, "+
			"or /%d for this address alone", address, prefix.Masked(), prefix.Addr().BitLen())
	}
	return prefix.String(), nil
}
