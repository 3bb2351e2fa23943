// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// Promote has a server that follows become the primary. It waits for the members of the list from its first write on.
func (s *Server) Promote(ctx context.Context) error {
	m, connection, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(connection)
	if err := s.adopt(ctx, s.settingsFor(m)); err != nil {
		return err
	}
	if connection.ParameterStatus("in_hot_standby") == "on" {
		if err := s.noteTerm(m.Term); err != nil {
			return err
		}
		said, err := row(ctx, connection, "SELECT pg_promote(true, 25)")
		if err != nil {
			return err
		}
		if said[0] != "t" {
			return errors.New("the server is not promoted yet")
		}
	}
	return s.setPasswords(ctx, connection)
}

// UpdateMembers has the primary wait for the members of the list as it is now, and drops what it keeps for pods that
// are gone for good.
func (s *Server) UpdateMembers(ctx context.Context) error {
	m, connection, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(connection)
	if connection.ParameterStatus("in_hot_standby") == "on" {
		return errors.New("the server follows another one")
	}
	if err := s.adopt(ctx, s.settingsFor(m)); err != nil {
		return err
	}
	if err := nudge(ctx, connection); err != nil {
		return err
	}
	// The number of pods may be that of a moment ago: whoever is on the list is there.
	return run(ctx, connection, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
		WHERE slot_type = 'physical' AND NOT active AND slot_name ~ $1
		AND substr(slot_name, $2::int)::bigint >= $3::int AND slot_name <> ALL ($4::text[])`,
		"^"+slotPrefix+"[0-9]{1,6}$", strconv.Itoa(len(slotPrefix)+1), strconv.Itoa(s.Replicas), m.slots())
}

// open gives what is known of who may write, and a session of the own server.
func (s *Server) open(ctx context.Context) (member, *pgconn.PgConn, error) {
	m, err := readMember(s.Dir)
	if err != nil {
		return m, nil, err
	}
	connection, err := s.awaitLocal(ctx)
	return m, connection, err
}

// nudge has followers answer, who say what they have with the next log: whoever waits for others than before is told
// only then.
func nudge(ctx context.Context, connection *pgconn.PgConn) error {
	return run(ctx, connection, "SELECT pg_logical_emit_message(false, 'zeroinfra', 'list')")
}

// adopt has the running server go by settings, and returns when it does.
func (s *Server) adopt(ctx context.Context, set settings) error {
	if err := s.write(set); err != nil {
		return err
	}
	return s.reload(ctx, func(now []string) bool { return now[0] == set.waitsFor && now[1] == s.conninfo(set.primary) })
}

// reload has the server read its files. A session that begins has what the server has read.
func (s *Server) reload(ctx context.Context, done func(now []string) bool) error {
	asking, err := s.awaitLocal(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(asking)
	if err := run(ctx, asking, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return link.Until(ctx, "the server does not take its settings", func() (bool, error) {
		connection, err := s.local(ctx)
		if err != nil {
			return false, err
		}
		defer link.HangUp(connection)
		now, err := row(ctx, connection, "SELECT current_setting('synchronous_standby_names'), "+
			"current_setting('primary_conninfo')")
		return err == nil && done(now), err
	})
}

// unread are settings, and rules of who may come, that the server would go on without, and tell its log alone. What
// waits for a restart is no matter of a reload.
const unread = `SELECT coalesce(string_agg(u.what || ' (' || u.error || ')', ', '), '')
	FROM (SELECT coalesce(f.name, '?') AS what, f.error FROM pg_file_settings f
	WHERE f.error IS NOT NULL AND NOT EXISTS
		(SELECT FROM pg_settings s WHERE lower(s.name) = lower(f.name) AND s.context = 'postmaster')
	UNION ALL SELECT 'line ' || h.line_number || ' of pg_hba.conf', h.error
		FROM pg_hba_file_rules h WHERE h.error IS NOT NULL) u`

// Reload has the server take over its files, and the passwords of the Secrets where it is the one that others have them
// from.
func (s *Server) Reload(ctx context.Context) error {
	connection, err := s.awaitLocal(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(connection)
	wrong, err := row(ctx, connection, unread)
	if err != nil {
		return err
	}
	if wrong[0] != "" {
		return fmt.Errorf("the server does not take %s", wrong[0])
	}
	if connection.ParameterStatus("in_hot_standby") != "on" {
		if err := s.setPasswords(ctx, connection); err != nil {
			return err
		}
	}
	return run(ctx, connection, "SELECT pg_reload_conf()")
}

// awaitLocal logs in at the own server, when that lets anybody in.
func (s *Server) awaitLocal(ctx context.Context) (connection *pgconn.PgConn, err error) {
	err = link.Until(ctx, "the server accepts no connection", func() (bool, error) {
		var err error
		connection, err = s.local(ctx)
		return err == nil, err
	})
	return connection, err
}

// Follow has the server follow the primary in another pod, once it is known that the primary's data goes on from its
// own. Where it does not, the server is stopped, and what StartFollower does then makes it so.
func (s *Server) Follow(ctx context.Context, primary string) error {
	connection, err := s.awaitLocal(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(connection)
	if connection.ParameterStatus("in_hot_standby") != "on" {
		return errors.New("the server is a primary itself: it is restarted as a replica first")
	}
	if err := s.dropFormerSlots(ctx, connection); err != nil {
		return err
	}
	upstream, err := s.awaitPrimary(ctx, primary)
	if err != nil {
		return err
	}
	defer link.HangUp(upstream)
	if following, err := s.follows(ctx, connection, primary); err != nil || following {
		return err
	}
	m, err := readMember(s.Dir)
	if err != nil {
		return err
	}
	set := s.settingsFor(m)
	own, err := s.detached(ctx, connection, set)
	if err != nil {
		return err
	}
	theirs, err := lineageOf(ctx, upstream)
	if err != nil {
		return fmt.Errorf("cannot read the lineage of the primary's data: %w", err)
	}
	switch verdict, why := Decide(own, theirs); verdict {
	case Follows:
	case Refused:
		return errors.New(why)
	default:
		return s.startAnew(verdict, why)
	}
	if err := keepSlot(ctx, upstream, s.slot()); err != nil {
		return err
	}
	if there, err := hasLog(ctx, upstream, own.End); err != nil {
		return err
	} else if !there {
		return s.startAnew(Copies, fmt.Sprintf("the primary no longer has the log from %s on", own.End))
	}
	// What the primary knows of its timelines comes with its log.
	if err := atomicfile.Write(s.data(termsFile), []byte(theirs.Terms.String()), 0o600); err != nil {
		return err
	}
	set.primary = primary
	if err := s.adopt(ctx, set); err != nil {
		return err
	}
	return link.Until(ctx, "the server does not receive the log of the primary",
		func() (bool, error) { return s.follows(ctx, connection, primary) })
}

// awaitPrimary logs in at the primary, which may have been named a moment ago and is on its way.
func (s *Server) awaitPrimary(ctx context.Context, primary string) (connection *pgconn.PgConn, err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, comingUp, fmt.Errorf("it took more than %s", comingUp))
	defer cancel()
	err = link.Until(waiting, "there is no primary to follow", func() (bool, error) {
		found, err := s.login(waiting, primary)
		if err != nil {
			return false, err
		}
		if err := writes(found); err != nil {
			link.HangUp(found)
			return false, err
		}
		connection = found
		return true, nil
	})
	return connection, err
}

// hasLog says whether the primary still has the log from a position on.
func hasLog(ctx context.Context, upstream *pgconn.PgConn, from LSN) (bool, error) {
	// Names of segments without their timelines; the oldest go first.
	said, err := row(ctx, upstream, `SELECT coalesce(min(substr(name, 9)) <= substr(pg_walfile_name($1::pg_lsn + 1), 9), `+
		`false) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'`, from.String())
	return err == nil && said[0] == "t", err
}

// follows says whether the server hears this primary.
func (s *Server) follows(ctx context.Context, connection *pgconn.PgConn, primary string) (bool, error) {
	said, err := row(ctx, connection, "SELECT current_setting('primary_conninfo'), coalesce((SELECT status FROM "+
		"pg_stat_wal_receiver), '')")
	return err == nil && said[0] == s.conninfo(primary) && said[1] == "streaming", err
}

// detached is where the data comes from and how far it goes, once nothing is added to it and all that is there is
// replayed.
func (s *Server) detached(ctx context.Context, connection *pgconn.PgConn, set settings) (Lineage, error) {
	if err := s.adopt(ctx, set); err != nil {
		return Lineage{}, err
	}
	err := link.Until(ctx, "the server still replays what it has", func() (bool, error) {
		said, err := row(ctx, connection, `SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver) AND EXISTS
			(SELECT FROM pg_stat_activity WHERE backend_type = 'startup'
			AND wait_event IN ('RecoveryRetrieveRetryInterval', 'RecoveryWalStream'))`)
		return err == nil && said[0] == "t", err
	})
	if err != nil {
		return Lineage{}, err
	}
	said, err := row(ctx, connection,
		`SELECT (SELECT system_identifier FROM pg_control_system()), pg_last_wal_replay_lsn(),
		(SELECT max(substr(name, 1, 8)) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$')`)
	if err != nil {
		return Lineage{}, err
	}
	own := Lineage{System: said[0]}
	var err1, err2, err3 error
	own.End, err1 = ParseLSN(said[1])
	own.Timeline, err2 = strconv.ParseInt(said[2], 16, 64)
	own.Terms, err3 = s.terms()
	return own, errors.Join(err1, err2, err3)
}

// lineageOf the primary's data.
func lineageOf(ctx context.Context, upstream *pgconn.PgConn) (Lineage, error) {
	said, err := row(ctx, upstream,
		`SELECT (SELECT system_identifier FROM pg_control_system()), pg_current_wal_flush_lsn(),
		substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
		coalesce(pg_read_file($1, 0, 1000000, true), ''), coalesce(pg_read_file($2, 0, 1000000, true), '')`, termsFile,
		upgradeFile)
	if err != nil {
		return Lineage{}, err
	}
	l := Lineage{System: said[0], Terms: ParseTerms(said[3]), Upgrade: ParseUpgrade(said[4])}
	var err1, err2 error
	l.End, err1 = ParseLSN(said[1])
	l.Timeline, err2 = strconv.ParseInt(said[2], 16, 64)
	if err := errors.Join(err1, err2); err != nil || l.Timeline == 1 {
		return l, err
	}
	history, err := row(ctx, upstream, "SELECT pg_read_file($1, 0, 1000000, false)",
		filepath.Join("pg_wal", said[2]+".history"))
	if err != nil {
		return l, err
	}
	l.History, err = ParseHistory(history[0])
	return l, err
}

// keepSlot has the primary keep its log until the owner of the slot has it.
func keepSlot(ctx context.Context, upstream *pgconn.PgConn, slot string) error {
	// One that was lost keeps nothing any more.
	if err := run(ctx, upstream, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = "+
		"$1 AND wal_status = 'lost' AND NOT active", slot); err != nil {
		return err
	}
	return run(ctx, upstream, "SELECT pg_create_physical_replication_slot($1, true) WHERE NOT EXISTS (SELECT FROM "+
		"pg_replication_slots WHERE slot_name = $1)", slot)
}

// startAnew stops the server: the process manager starts it again.
func (s *Server) startAnew(how Verdict, why string) error {
	if err := s.wantRepair(how); err != nil {
		return err
	}
	data, err := os.ReadFile(s.data("postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("the server's process is %q", first)
	}
	s.Log.Info("the server is started anew", "data", string(how), "reason", why)
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		return err
	}
	return errors.New(why)
}
