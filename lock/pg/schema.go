package pg

import (
	"context"
	"fmt"
	"strings"
)

// Schema is what Open makes in the database where it is missing; for those who do
// not let it.
const Schema = `
CREATE TABLE IF NOT EXISTS holdfast_names (key bigint PRIMARY KEY, space text NOT NULL, name text NOT NULL);
CREATE TABLE IF NOT EXISTS holdfast_spaces (id integer PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE SEQUENCE IF NOT EXISTS holdfast_fence;
`

// makeSchema needs no right to create anything where all is there. Several who come
// first at once would be in each other's way, IF NOT EXISTS or not.
func (l *Locker) makeSchema(ctx context.Context) error {
	var there bool
	err := l.pool.QueryRow(ctx, `SELECT to_regclass('holdfast_names') IS NOT NULL
		AND to_regclass('holdfast_spaces') IS NOT NULL AND to_regclass('holdfast_fence') IS NOT NULL`).Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = l.pool.Exec(ctx, "BEGIN; SELECT pg_advisory_xact_lock("+schemaLock+");"+Schema+"COMMIT")
	if err != nil {
		return fmt.Errorf("make the tables that are missing (see Schema): %w", err)
	}
	return nil
}

// schemaLock is any number.
const schemaLock = "4774451407313060418"

// setsPoolSize reports whether a connection string says how large the pool is to be.
func setsPoolSize(conn string) bool { return strings.Contains(conn, "pool_max_conns") }
