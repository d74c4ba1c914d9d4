package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const defaultSchema = "holdfast"

// Schema returns the statements for a schema of that name, which Open makes where it is
// missing: for databases in which Open may not do that.
func Schema(name string) string {
	s := quote(name)
	return strings.ReplaceAll(`CREATE SCHEMA IF NOT EXISTS $;
CREATE TABLE IF NOT EXISTS $.names (key bigint PRIMARY KEY, space text NOT NULL, name text NOT NULL, used timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS $.spaces (name text PRIMARY KEY, id integer UNIQUE);
CREATE TABLE IF NOT EXISTS $.fences (key text PRIMARY KEY, fence bigint NOT NULL);
`, "$", s)
}

// rights are what a role needs of them.
func rights(schema, role string) string {
	return strings.ReplaceAll(fmt.Sprintf(`GRANT USAGE ON SCHEMA $ TO %[1]s; `+
		`GRANT SELECT, INSERT, UPDATE, DELETE ON $.names, $.fences TO %[1]s; `+
		`GRANT SELECT, INSERT ON $.spaces TO %[1]s`, quote(role)), "$", quote(schema))
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// schemaLock is any number.
const schemaLock = "4774451407313060418"

// makeSchema needs no right to create anything where all is there. It takes a lock: several
// first callers at once would be in each other's way, IF NOT EXISTS or not.
func makeSchema(ctx context.Context, conn *pgx.Conn, schema, role string) error {
	// By the catalogue: without the right to use a schema, a role can't ask for what is in
	// it by name.
	var there int
	err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
		WHERE nspname = $1 AND (relname, relkind) IN (('names', 'r'), ('spaces', 'r'), ('fences', 'r'))`, schema).Scan(&there)
	if err != nil {
		return err
	}
	if there < 3 {
		_, err = conn.Exec(ctx, "BEGIN; SELECT pg_catalog.pg_advisory_xact_lock("+schemaLock+"); "+Schema(schema)+"COMMIT")
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == "42501" {
			return fmt.Errorf("%w: role %s may not make schema %s; let somebody who may run the statements of pg.Schema(%q), and then: %s (%w)",
				ErrServer, role, quote(schema), schema, rights(schema, role), err)
		} else if err != nil {
			return fmt.Errorf("make schema %s: %w", quote(schema), err)
		}
	}
	s := quote(schema)
	var may bool
	// Of several rights in one text, one would do.
	err = conn.QueryRow(ctx, `SELECT CASE WHEN has_schema_privilege($1, 'USAGE') THEN (SELECT bool_and(has_table_privilege(name, may))
		FROM (VALUES ($2, 'SELECT'), ($2, 'INSERT'), ($2, 'UPDATE'), ($2, 'DELETE'), ($3, 'SELECT'), ($3, 'INSERT'),
		($4, 'SELECT'), ($4, 'INSERT'), ($4, 'UPDATE'), ($4, 'DELETE')) needs (name, may)) ELSE false END`,
		schema, s+".names", s+".spaces", s+".fences").Scan(&may)
	if err == nil && !may {
		err = fmt.Errorf("%w: role %s may not use schema %s; let its owner run: %s", ErrServer, role, s, rights(schema, role))
	}
	return err
}
