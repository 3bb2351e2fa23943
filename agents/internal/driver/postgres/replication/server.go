// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// Role that followers log in as at the primary.
const Role = "zeroinfra_replication"

// Files in the folder of the volume, and those in the data that go where the data goes.
const (
	dataFolder = "pgdata"
	// initialized outlives the data: where it was, there is never an empty database in its place.
	initialized = ".zeroinfra.initialized"
	// repair says how data that went elsewhere follows the primary again.
	repairFile = ".zeroinfra.rejoin"
	// settingsFile is included by the server's configuration.
	settingsFile = "zeroinfra.conf"
	termsFile    = "zeroinfra.timelines"

	standbySignal  = "standby.signal"
	recoverySignal = "recovery.signal"
)

const (
	// comingUp is how long a primary that was named may take until it takes writes.
	comingUp = 5 * time.Second
	// dialTimeout of a connection.
	dialTimeout = 3 * time.Second
)

// Server is the PostgreSQL of one pod.
type Server struct {
	// Programs is the folder of the server's programs, and Config its configuration.
	Programs, Config string
	// Dir is the folder of the volume: the data is in pgdata, and beside it what the agent keeps.
	Dir string
	// Run is the folder of the unix socket, in which passwords for the server's programs are, too.
	Run string
	// Port of all servers of the set.
	Port int
	// Pod is the own name, and Replicas how many pods there are to be.
	Pod      string
	Replicas int
	// Secrets has a folder for each credential.
	Secrets string
	// CAFile is what the certificate of the primary must lead to; empty where the servers do not speak TLS.
	CAFile string
	// Method by which a primary waits.
	Method Method
	// Launch is the program that becomes the server, given Programs and Config. It makes the data where there is none.
	Launch string
	// Log tells what is done.
	Log *slog.Logger
}

func (s *Server) data(elements ...string) string {
	return filepath.Join(append([]string{s.Dir, dataFolder}, elements...)...)
}

func (s *Server) kept(name string) string { return filepath.Join(s.Dir, name) }

// slot that the primary keeps for the pod: its log stays there until the pod has it.
func (s *Server) slot() string { return slotOf(s.Pod) }

// slotOf a pod is of its ordinal, which is what a slot's name has room for.
func slotOf(pod string) string { return slotPrefix + pod[strings.LastIndex(pod, "-")+1:] }

const slotPrefix = "member_"

// settings are what the server takes from settingsFile.
type settings struct {
	// waitsFor is synchronous_standby_names.
	waitsFor string
	// standbySlots is synchronized_standby_slots, where the version has it.
	standbySlots string
	// primary that it follows; empty for none.
	primary string
	// recovers says that the server has all the log that there is, and becomes the primary when it has replayed it.
	recovers bool
	// raised are limits that the data needs higher than they are configured.
	raised map[string]string
}

// settingsFor are those that follow from who may write.
func (s *Server) settingsFor(m member) settings {
	return settings{waitsFor: m.waitsFor(s.Pod, s.Method), standbySlots: m.standbySlots(s.Pod)}
}

// write has them where the server reads them next.
func (s *Server) write(set settings) error {
	var text strings.Builder
	put := func(name, value string) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(strings.ReplaceAll(value, `\`, `\\`), "'", "''"))
	}
	put("synchronous_standby_names", set.waitsFor)
	if set.standbySlots != "" {
		has, err := s.hasFailoverSlots()
		if err != nil {
			return err
		}
		if has {
			put("synchronized_standby_slots", set.standbySlots)
		}
	}
	put("primary_conninfo", s.conninfo(set.primary))
	if set.primary != "" {
		put("primary_slot_name", s.slot())
	}
	for _, name := range slices.Sorted(maps.Keys(set.raised)) {
		put(name, set.raised[name])
	}
	if set.recovers {
		// There is no archive: what the volume has is all.
		put("restore_command", "false")
	}
	return atomicfile.Write(s.data(settingsFile), []byte(text.String()), 0o600)
}

// conninfo leads to the primary in another pod, which waits for the server by the name of its pod.
func (s *Server) conninfo(primary string) string {
	if primary == "" {
		return ""
	}
	return s.connectionAs(s.Pod, primary)
}

// programInfo is conninfo for programs that copy: nobody waits for what they have.
func (s *Server) programInfo(primary string) string {
	return s.connectionAs("zeroinfra", primary)
}

// connectionAs leads to the primary under a name. A primary that vanishes without a word is noticed within seconds.
func (s *Server) connectionAs(name, primary string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=postgres application_name=%s passfile=%s connect_timeout=3 "+
		"keepalives_idle=5 keepalives_interval=2 keepalives_count=3 tcp_user_timeout=10000 %s",
		primary, s.Port, Role, name, s.passfile(), s.encryption())
}

func (s *Server) encryption() string {
	if s.CAFile == "" {
		return "sslmode=disable"
	}
	return "sslmode=verify-ca sslrootcert=" + s.CAFile
}

func (s *Server) passfile() string { return filepath.Join(s.Run, "replication.pass") }

// login logs in at the primary in another pod, and keeps the password for the server's programs. One that the primary
// has not taken over yet is none: the one before counts.
func (s *Server) login(ctx context.Context, primary string) (*pgconn.PgConn, error) {
	current, _, err := link.Password(s.Secrets, "replication")
	if err != nil {
		return nil, err
	}
	passwords := []string{current}
	if before, found := s.passwordBefore(); found && before != current {
		passwords = append(passwords, before)
	}
	for _, password := range passwords {
		var connection *pgconn.PgConn
		if connection, err = s.connect(ctx, fmt.Sprintf("host=%s port=%d user=%s %s", primary, s.Port, Role, s.encryption()),
			password); err == nil {
			if err := s.keepPassword(password); err != nil {
				link.HangUp(connection)
				return nil, err
			}
			return connection, nil
		}
		if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != invalidPassword {
			break
		}
	}
	return nil, fmt.Errorf("cannot log in at the primary: %w", err)
}

// invalidPassword is the SQLSTATE.
const invalidPassword = "28P01"

var passEscapes = strings.NewReplacer(`\`, `\\`, ":", `\:`)

func (s *Server) keepPassword(password string) error {
	return atomicfile.Write(s.passfile(), []byte("*:*:*:"+Role+":"+passEscapes.Replace(password)+"\n"), 0o600)
}

func (s *Server) passwordBefore() (string, bool) {
	data, err := os.ReadFile(s.passfile())
	line, found := strings.CutPrefix(strings.TrimSuffix(string(data), "\n"), "*:*:*:"+Role+":")
	return strings.NewReplacer(`\\`, `\`, `\:`, ":").Replace(line), err == nil && found
}

// local logs in at the own server, as its superuser.
func (s *Server) local(ctx context.Context) (*pgconn.PgConn, error) {
	return s.connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres sslmode=disable", s.Run, s.Port), "")
}

// simpleProtocol marks a session that takes statements without arguments alone, as those for replication do.
const simpleProtocol = "simple protocol"

// connect logs in. Where clients have all connections, which those that are superusers can, it takes a session for
// replication: the server counts these apart, and one with a database takes SQL.
func (s *Server) connect(ctx context.Context, where, password string) (*pgconn.PgConn, error) {
	connection, err := s.session(ctx, where, password)
	if link.TurnedAway(err) == nil {
		return connection, err
	}
	reserved, failed := s.session(ctx, where+" replication=database", password)
	if failed != nil {
		return nil, err
	}
	reserved.CustomData()[simpleProtocol] = true
	return reserved, nil
}

func (s *Server) session(ctx context.Context, where, password string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(where + " dbname=postgres passfile=/dev/null")
	if err != nil {
		return nil, err
	}
	config.Password, config.Fallbacks, config.ConnectTimeout = password, nil, dialTimeout
	replication := config.RuntimeParams["replication"]
	config.RuntimeParams = map[string]string{"application_name": "zeroinfra", "search_path": "pg_catalog, pg_temp",
		"statement_timeout": "30000",
		// What the engine does waits for nobody.
		"synchronous_commit": "local"}
	if replication != "" {
		config.RuntimeParams["replication"], config.RuntimeParams["client_encoding"] = replication, "UTF8"
	}
	return pgconn.ConnectConfig(ctx, config)
}

// row runs a query that gives one row. What is not there is empty.
func row(ctx context.Context, connection *pgconn.PgConn, query string, arguments ...string) ([]string, error) {
	result := execute(ctx, connection, query, arguments)
	if result.Err != nil {
		return nil, result.Err
	}
	if len(result.Rows) != 1 {
		return nil, fmt.Errorf("%d rows came in place of one", len(result.Rows))
	}
	texts := make([]string, len(result.Rows[0]))
	for i, value := range result.Rows[0] {
		texts[i] = string(value)
	}
	return texts, nil
}

// run carries out a statement.
func run(ctx context.Context, connection *pgconn.PgConn, statement string, arguments ...string) error {
	return execute(ctx, connection, statement, arguments).Err
}

func execute(ctx context.Context, connection *pgconn.PgConn, statement string, arguments []string) *pgconn.Result {
	if connection.CustomData()[simpleProtocol] != nil {
		return executeSimple(ctx, connection, statement, arguments)
	}
	values := make([][]byte, len(arguments))
	for i, argument := range arguments {
		values[i] = []byte(argument)
	}
	return connection.ExecParams(ctx, statement, values, nil, nil, nil).Read()
}

var placeholder = regexp.MustCompile(`\$[0-9]+`)

// executeSimple is execute with the arguments as literals, which have no type of their own either.
func executeSimple(ctx context.Context, connection *pgconn.PgConn, statement string, arguments []string,
) *pgconn.Result {
	literals := make([]string, len(arguments))
	for i, argument := range arguments {
		escaped, err := connection.EscapeString(argument)
		if err != nil {
			return &pgconn.Result{Err: err}
		}
		literals[i] = "'" + escaped + "'"
	}
	text := placeholder.ReplaceAllStringFunc(statement, func(name string) string {
		number, err := strconv.Atoi(name[1:])
		if err != nil || number < 1 || number > len(literals) {
			return name
		}
		return literals[number-1]
	})
	results, err := connection.Exec(ctx, text).ReadAll()
	if err != nil || len(results) != 1 {
		return &pgconn.Result{Err: cmp.Or(err, fmt.Errorf("%d results came in place of one", len(results)))}
	}
	return results[0]
}

// terms that the data knows of.
func (s *Server) terms() (Terms, error) {
	data, err := os.ReadFile(s.data(termsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return ParseTerms(string(data)), nil
}

// nextTimeline is the number that the server gives its next one: the one after the highest that it has heard of.
func (s *Server) nextTimeline() (int64, error) {
	entries, err := os.ReadDir(s.data("pg_wal"))
	if err != nil {
		return 0, err
	}
	highest := int64(1)
	for _, entry := range entries {
		// 00000002.history, 000000020000000000000003
		name := entry.Name()
		if rest, ok := strings.CutSuffix(name, ".history"); !ok && len(name) != 24 || ok && len(rest) != 8 {
			continue
		}
		if timeline, err := strconv.ParseInt(name[:8], 16, 64); err == nil {
			highest = max(highest, timeline)
		}
	}
	return highest + 1, nil
}

// noteTerm notes in which term the next timeline begins.
func (s *Server) noteTerm(term int64) error {
	next, err := s.nextTimeline()
	if err != nil {
		return err
	}
	terms, err := s.terms()
	if err != nil {
		return err
	}
	terms[next] = term
	return atomicfile.Write(s.data(termsFile), []byte(terms.String()), 0o600)
}
