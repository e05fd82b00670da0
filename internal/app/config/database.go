package config

import (
	"strings"
	"time"
	"unicode"
)

// DatabaseURL is the variable that asks for PostgreSQL.
const DatabaseURL = "DATABASE_URL"

// Database is the PostgreSQL database that `fedpost up` runs on, if one is named.
type Database struct {
	URL    string `env:"DATABASE_URL" secret:"true" help:"the PostgreSQL database of fedpost up, as postgres://USER:PASSWORD@HOST/DATABASE or psql's keywords; without it, and without the settings of AWS, it uses a file"`
	Schema string `env:"DATABASE_SCHEMA" envDefault:"fedpost" help:"the schema of fedpost's tables in DATABASE_URL: up to 40 lower-case letters, digits and _, beginning with a letter"`
	// OutboxRetention is how long rows of the outbox stay once they are accepted.
	OutboxRetention time.Duration `env:"OUTBOX_RETENTION" envDefault:"24h" help:"how long accepted rows of the outbox on PostgreSQL are kept; refused ones stay until they are retried or dropped"`
}

func (d *Database) check(r *report) {
	outside := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' }
	const fix = "set it to up to 40 lower-case letters, digits and _, a letter first"
	switch name := d.Schema; {
	case name == "" || len(name) > 40 || strings.ContainsFunc(name, outside) || !unicode.IsLetter(rune(name[0])), strings.HasPrefix(name, "pg_"):
		r.add("DATABASE_SCHEMA", r.shown(r.fields[1]), fix)
	case r.env["DATABASE_SCHEMA"] != "" && d.URL == "":
		r.add("DATABASE_SCHEMA", "is set without DATABASE_URL, so fedpost would run on a file", "set DATABASE_URL, too, or neither")
	}
}
