#!/usr/bin/env bash
# PostgreSQL, Debian's package or the one that is installed, on loopback, for tests only: with
# a database of its own and without a password. It does not run as root. FEDPOST_POSTGRES_BIN
# names the folder of another server's programs.
# usage: postgres.sh install|start|stop|status
set -euo pipefail
# shellcheck source=localstack/daemon.sh
source "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"

PORT=${POSTGRES_PORT:-5499}
URL=postgres://fedpost@127.0.0.1:$PORT/postgres
# Not below TOOLS: the server's user may not reach the folder of a checkout.
DIR=${FEDPOST_POSTGRES:-${TMPDIR:-/tmp}/fedpost-postgres-$(id -u)-$PORT}
# The process that was started from here: another checkout may have started the server.
STARTED=$RUN/postgres-$PORT.started

# bin: the folder of the server, the newest on this machine.
bin() {
	local newest
	[[ -z ${FEDPOST_POSTGRES_BIN:-} ]] || { echo "$FEDPOST_POSTGRES_BIN"; return; }
	newest=$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)
	if [[ -x $newest ]]; then dirname "$newest"; else dirname "$(command -v initdb 2>/dev/null)" 2>/dev/null; fi
}

# as COMMAND...: runs it as a user who may run the server.
as() {
	if [[ $(id -u) == 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi
}

runs() { [[ -d $DIR/data ]] && as "$(bin)/pg_ctl" -D "$DIR/data" status >/dev/null 2>&1; }

install_it() { bin >/dev/null && [[ -n $(bin) ]] || apt_install postgresql; }

start_it() {
	install_it
	if ! runs; then
		rm -rf "$DIR"
		mkdir -m 700 "$DIR"
		[[ $(id -u) != 0 ]] || chown postgres "$DIR"
		as "$(bin)/initdb" -D "$DIR/data" -U fedpost -A trust -E UTF8 --locale=C >"$RUN/postgres.log" 2>&1 ||
			{ cat "$RUN/postgres.log" >&2; die "initdb failed"; }
		# Each test has an engine with connections of its own.
		as "$(bin)/pg_ctl" -D "$DIR/data" -l "$DIR/log" -w -t 60 \
			-o "-p $PORT -c listen_addresses=127.0.0.1 -c unix_socket_directories=$DIR -c max_connections=400" start >/dev/null ||
			{ tail -n 20 "$DIR/log" >&2; die "PostgreSQL did not start"; }
		head -n 3 "$DIR/data/postmaster.pid" >"$STARTED" # its id, folder and start time
	fi
	say "postgres is ready on $URL (log: $DIR/log)"
}

stop_it() {
	runs || return 0
	cmp -s <(head -n 3 "$DIR/data/postmaster.pid") "$STARTED" || { say "postgres stays: it was started elsewhere"; return 0; }
	as "$(bin)/pg_ctl" -D "$DIR/data" -m fast -w stop >/dev/null
	rm -rf "$DIR"
	say "postgres stopped"
}

status_it() {
	runs || { say "postgres does not run"; return 1; }
	say "postgres runs on $URL"
}

dispatch "$@"
