# shellcheck shell=bash
# Starts and stops one background server per name, for the scripts beside this
# file (sourced, not run). It stops only servers that it has started: it knows a process
# by its id and its start time, so it never stops another process with a recycled id.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TOOLS=${FEDPOST_TOOLS:-$ROOT/.tools}
PINS=$ROOT/localstack/pins
RUN=$TOOLS/run
mkdir -p "$RUN"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# started_at PID: the process's start time, empty if it does not run.
started_at() { ps -o lstart= -p "$1" 2>/dev/null || true; }

# daemon_pid NAME: the id of the running server, or failure.
daemon_pid() {
	local file=$RUN/$1.pid pid since
	[[ -f $file ]] || return 1
	{ read -r pid; read -r since; } <"$file" || return 1
	[[ -n $pid && $(started_at "$pid") == "$since" ]] || return 1
	printf '%s\n' "$pid"
}

# answers URL: succeeds if a server at URL answers HTTP, with any status.
answers() { curl -s -o /dev/null --max-time 5 "$1"; }

# daemon_start NAME URL SECONDS COMMAND...: runs the command in a process group
# of its own and waits until URL answers.
daemon_start() {
	local name=$1 url=$2 patience=$3 pid deadline
	shift 3
	if daemon_pid "$name" >/dev/null; then
		say "$name already runs on $url"
		return 0
	fi
	! answers "$url" || die "$name cannot start: something else answers on $url; stop it or set another port"
	set -m # a job of its own process group, so that stop reaches its children
	"$@" >"$RUN/$name.log" 2>&1 </dev/null &
	pid=$!
	set +m
	printf '%s\n%s\n' "$pid" "$(started_at "$pid")" >"$RUN/$name.pid"
	deadline=$((SECONDS + patience))
	until answers "$url"; do
		if ! daemon_pid "$name" >/dev/null; then
			tail -n 20 "$RUN/$name.log" >&2
			die "$name ended before it was ready; its log is $RUN/$name.log"
		fi
		if ((SECONDS >= deadline)); then
			tail -n 20 "$RUN/$name.log" >&2
			daemon_stop "$name"
			die "$name was not ready within $patience s; its log is $RUN/$name.log"
		fi
		sleep 0.2
	done
	say "$name is ready on $url (log: $RUN/$name.log)"
}

# daemon_stop NAME: ends the server and its children; no error if none runs.
daemon_stop() {
	local name=$1 pid deadline
	if ! pid=$(daemon_pid "$name"); then
		rm -f "$RUN/$name.pid"
		return 0
	fi
	kill -TERM -- "-$pid" 2>/dev/null || true
	deadline=$((SECONDS + 10))
	while kill -0 -- "-$pid" 2>/dev/null; do
		if ((SECONDS >= deadline)); then
			kill -KILL -- "-$pid" 2>/dev/null || true
			break
		fi
		sleep 0.1
	done
	rm -f "$RUN/$name.pid"
	say "$name stopped"
}

# daemon_status NAME URL: says whether it runs; fails if it does not.
daemon_status() {
	local pid
	if pid=$(daemon_pid "$1"); then
		say "$1 runs on $2 (process $pid)"
	else
		say "$1 does not run"
		return 1
	fi
}

# apt_install PACKAGE...: for fresh Debian machines; asks for sudo unless root.
apt_install() {
	command -v apt-get >/dev/null || die "please install $* with this system's package manager"
	local sudo=()
	[[ $(id -u) == 0 ]] || sudo=(sudo)
	"${sudo[@]}" apt-get update -qq
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# need COMMAND PACKAGE: installs the Debian package if the command is missing.
need() { command -v "$1" >/dev/null || apt_install "$2"; }

# python_from MINOR: a Python 3 of at least that minor version, from
# $FEDPOST_PYTHON, the path, or pyenv.
python_from() {
	local p
	for p in ${FEDPOST_PYTHON:-} python3 python3.{14,13,12,11,10} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
		if command -v "$p" >/dev/null && "$p" -c "import sys; sys.exit(sys.version_info < (3, $1))" 2>/dev/null; then
			printf '%s\n' "$p"
			return 0
		fi
	done
	return 1
}

# venv_install NAME MINOR REQUIREMENT...: a virtual environment of Python 3.MINOR
# or newer at $TOOLS/NAME, with the requirements at the versions that
# pins/NAME.txt holds. The stamp makes a second run free and a changed pin a
# fresh install.
venv_install() {
	local name=$1 minor=$2 dir=$TOOLS/$1/venv pins=$PINS/$1.txt stamp python
	shift 2
	stamp=$(printf '%s\n' "$minor" "$@" | cat - "$pins" | cksum)
	if [[ -f $dir/.stamp && $(<"$dir/.stamp") == "$stamp" ]]; then
		return 0
	fi
	need python3 python3
	python=$(python_from "$minor") ||
		die "$name needs Python 3.$minor or newer (Debian 13 has 3.13); install it and name it in FEDPOST_PYTHON"
	# Debian splits ensurepip off into python3-venv.
	"$python" -c 'import ensurepip' 2>/dev/null || apt_install "${python##*/}-venv"
	rm -rf "$dir"
	"$python" -m venv "$dir"
	"$dir/bin/pip" install --quiet --disable-pip-version-check --constraint "$pins" "$@" >&2
	printf '%s' "$stamp" >"$dir/.stamp"
}

# dispatch VERB: calls the script's install_it, start_it, stop_it or status_it.
dispatch() {
	case ${1:-} in
	install | start | stop | status) "$1_it" ;;
	*) die "usage: ${0##*/} install|start|stop|status" ;;
	esac
}
