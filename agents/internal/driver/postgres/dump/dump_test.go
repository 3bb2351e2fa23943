// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// globals as pg_dumpall writes them, with names and comments that look like something else.
const globals = `--
-- PostgreSQL database cluster dump
--

\restrict 3kP9

SET default_transaction_read_only = off;

SET standard_conforming_strings = on;

--
-- Roles
--

CREATE ROLE "a;b""--c";
ALTER ROLE "a;b""--c" WITH NOSUPERUSER LOGIN PASSWORD 'SCRAM-SHA-256$4096:it''s;';
COMMENT ON ROLE "a;b""--c" IS E'it''s \\'';
CREATE ROLE postgres;
\\restrict';


GRANT "a;b""--c" TO dba GRANTED BY postgres;
\unrestrict 3kP9

--
-- PostgreSQL database cluster dump complete
--
`

func TestStatementsOf(t *testing.T) {
	got, err := statementsOf(globals)
	want := []string{
		"SET default_transaction_read_only = off", "SET standard_conforming_strings = on", `CREATE ROLE "a;b""--c"`,
		`ALTER ROLE "a;b""--c" WITH NOSUPERUSER LOGIN PASSWORD 'SCRAM-SHA-256$4096:it''s;'`,
		"COMMENT ON ROLE \"a;b\"\"--c\" IS E'it''s \\\\'';\nCREATE ROLE postgres;\n\\\\restrict'",
		`GRANT "a;b""--c" TO dba GRANTED BY postgres`,
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("there are %q, %v", got, err)
	}
	for _, text := range []string{"CREATE ROLE x", "COMMENT ON ROLE x IS 'y;", `CREATE ROLE "x;`, `SELECT E'\';`} {
		if got, err := statementsOf(text); err == nil {
			t.Errorf("of %s there are %q", text, got)
		}
	}
}

func FuzzStatementsOf(f *testing.F) {
	f.Add(globals)
	f.Fuzz(func(t *testing.T, text string) {
		statements, err := statementsOf(text)
		if err != nil {
			return
		}
		// What is cut once is cut in the same way again.
		again, err := statementsOf(strings.Join(statements, ";\n") + ";")
		if len(statements) > 0 && (err != nil || !slices.Equal(again, statements)) {
			t.Errorf("%q is cut into %q, and that into %q, %v", text, statements, again, err)
		}
	})
}

// Only between versions before which, and from which on, it matters is it left out by whom a role was given.
func TestFitting(t *testing.T) {
	for _, tc := range []struct {
		statement, want string
		from, to        int
	}{
		{"GRANT a TO b GRANTED BY c", "GRANT a TO b", 15, 17},
		{`GRANT a TO b WITH ADMIN OPTION GRANTED BY "c "" GRANTED BY d"`, "GRANT a TO b WITH ADMIN OPTION", 15, 18},
		{`GRANT a TO "b GRANTED BY c"`, `GRANT a TO "b GRANTED BY c"`, 15, 17},
		{"GRANT a TO b GRANTED BY c", "GRANT a TO b GRANTED BY c", 15, 15},
		{"GRANT a TO b GRANTED BY c", "GRANT a TO b GRANTED BY c", 17, 18},
		{"COMMENT ON ROLE a IS 'GRANT x TO y GRANTED BY z'", "COMMENT ON ROLE a IS 'GRANT x TO y GRANTED BY z'", 15, 17},
	} {
		if got := fitting(tc.statement, tc.from, tc.to); got != tc.want {
			t.Errorf("%s of %d is %s in %d", tc.statement, tc.from, got, tc.to)
		}
	}
}

// The word that psql is kept in with is another one each time.
func TestSumOf(t *testing.T) {
	if sumOf([]byte(globals)) != sumOf([]byte(strings.ReplaceAll(globals, "3kP9", "7xQ2"))) {
		t.Error("the same globals are taken for others")
	}
	if sumOf([]byte(globals)) == sumOf([]byte(strings.Replace(globals, "LOGIN", "NOLOGIN", 1))) {
		t.Error("other globals are taken for the same")
	}
}

// TestStream: what is written is read, in pieces of a size that does not depend on how it came.
func TestStream(t *testing.T) {
	var stream bytes.Buffer
	w := &writer{tar: tar.NewWriter(&stream)}
	header := Header{Format: Format, Version: "17.6", Replica: true, Databases: []string{"template1", "a b"}}
	data := bytes.Repeat([]byte("0123456789"), pieceSize/4)
	errs := []error{w.json(headerName, header), w.since(1, []byte("x;")), w.since(2, []byte("x;")),
		w.since(2, []byte("y;"))}
	pieces := w.database(2)
	if pieces.begun() {
		t.Error("nothing is taken for something")
	}
	for part := range slices.Chunk(data, 777777) {
		n, err := pieces.Write(part)
		if errs = append(errs, err); n != len(part) {
			t.Errorf("of %d bytes %d are taken", len(part), n)
		}
	}
	errs = append(errs, pieces.flush(), w.json(trailerName, Trailer{Databases: []string{"a b"}}), w.tar.Close())
	if err := errors.Join(errs...); err != nil || !pieces.begun() {
		t.Fatal(err)
	}
	files, said, content := &reader{tar: tar.NewReader(&stream)}, "", []byte{}
	for {
		f, err := files.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		said += fmt.Sprintf("%s %d %d\n", f.name, f.number, f.piece)
		switch f.name {
		case headerName:
			var got Header
			if err := f.json(&got); err != nil || !reflect.DeepEqual(got, header) {
				t.Errorf("it begins with %+v, %v", got, err)
			}
		case databaseName:
			piece, err := f.text()
			if content = append(content, piece...); err != nil || len(piece) > pieceSize {
				t.Errorf("a piece has %d bytes, %v", len(piece), err)
			}
		}
	}
	if want := "dump.json 0 0\nglobals.sql 1 0\nglobals.sql 2 0\ndatabase 2 1\ndatabase 2 2\ndatabase 2 3\nwhole.json 0 " +
		"0\n"; said != want || !bytes.Equal(content, data) {
		t.Errorf("there are %d bytes in\n%s", len(content), said)
	}
}

func TestFilesOfOthers(t *testing.T) {
	for _, h := range []tar.Header{{Name: "../globals.sql"},
		{Name: "0001/database/000001", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "0001/database/1"},
		{Name: "base/1/2"}} {
		var stream bytes.Buffer
		w := tar.NewWriter(&stream)
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := errors.Join(w.WriteHeader(&h), w.Close()); err != nil {
			t.Fatal(err)
		}
		if f, err := (&reader{tar: tar.NewReader(&stream)}).next(); err == nil ||
			!strings.Contains(err.Error(), "none of its own") {
			t.Errorf("%s is taken for %+v, %v", h.Name, f, err)
		}
	}
}

// What is told of a dump is in lines that a mover reads, of a length that it takes.
func TestLines(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprint("database-", i)
	}
	for want, taken := range map[string][]string{
		"names=template1,shop\n":            {"template1", "shop"},
		"names=\"a,b\",\"c\\nd\",\"é x\"\n": {"a,b", "c\nd", "é x"},
		",database-9,…\n":                   many,
	} {
		got := Facts{Header: Header{Version: "15.14"}, Taken: taken}.Lines()
		if !strings.HasPrefix(got, fmt.Sprintf("serverVersion=15.14\nsource=primary\ndatabases=%d\n", len(taken))) ||
			!strings.HasSuffix(got, want) {
			t.Errorf("of %q it says %s", taken, got)
		}
	}
}

func TestMajor(t *testing.T) {
	for text, want := range map[string]int{"15.14": 15, "18": 18, "19beta1": 19} {
		if got, err := major(text); got != want || err != nil {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	if got, err := major("new"); err == nil {
		t.Errorf("new is %d", got)
	}
}

// New data is as that of a server which begins empty.
func TestDataIsAsTheImageMakesIt(t *testing.T) {
	script, err := os.ReadFile("../../../../../hack/images/postgresql/start.sh")
	if err != nil {
		t.Fatal(err)
	}
	options := strings.Join(initOptions, " ")
	if !strings.Contains(string(script), `-U postgres --pwfile="$secret/password" `+options+"\n") {
		t.Errorf("the image makes data with other options than %s", options)
	}
}
