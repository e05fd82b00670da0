#!/usr/bin/env bash
# moto's server, from PyPI, on loopback: a further judge of the AWS adapters.
# usage: moto.sh install|start|stop|status
set -euo pipefail
# shellcheck source=localstack/daemon.sh
source "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"

VERSION=5.2.1
PORT=${MOTO_PORT:-5566}
URL=http://127.0.0.1:$PORT
DIR=$TOOLS/moto

install_it() {
	need curl curl
	venv_install moto 10 "moto[server]==$VERSION"
}

start_it() {
	install_it
	daemon_start moto "$URL/moto-api/" 60 \
		env AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \
		"$DIR/venv/bin/moto_server" --host 127.0.0.1 --port "$PORT"
}

stop_it() { daemon_stop moto; }
status_it() { daemon_status moto "$URL"; }

dispatch "$@"
