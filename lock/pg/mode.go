package pg

// mode is exclusive, or shared.
type mode struct {
	name          string // evidence.Claim.Mode
	hash, numbers calls  // of one number, and of two
}

// calls are what the server is asked for one lock.
type calls struct {
	try     string
	wait    string
	tryWait string // tries first, and says false if it has waited: by then it has the lock
	free    string
	// In a transaction, expressions.
	tryXact, waitXact string
}

var exclusive, shared = newMode("", ""), newMode("shared", "_shared")

func newMode(name, suffix string) *mode {
	of := func(params string) calls {
		try, wait := "pg_try_advisory_lock"+suffix+params, "pg_advisory_lock"+suffix+params
		return calls{
			try:      "SELECT " + try,
			wait:     "SELECT " + wait + " IS NOT NULL",
			tryWait:  "SELECT CASE WHEN " + try + " THEN true ELSE " + wait + " IS NULL END",
			free:     "SELECT pg_advisory_unlock" + suffix + params,
			tryXact:  "pg_catalog.pg_try_advisory_xact_lock" + suffix + params,
			waitXact: "pg_catalog.pg_advisory_xact_lock" + suffix + params + " IS NOT NULL",
		}
	}
	return &mode{name, of("($1::bigint)"), of("($1::integer, $2::integer)")}
}

// calls are those for a lock.
func (m *mode) calls(n number) *calls {
	if n.numeric {
		return &m.numbers
	}
	return &m.hash
}
