#!/usr/bin/env bash
# MiniStack, from PyPI, on loopback: the one emulator that runs Lambda binaries,
# event sources, an HTTP API and a scheduler without Docker.
# usage: ministack.sh install|start|stop|status
set -euo pipefail
# shellcheck source=localstack/daemon.sh
source "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"

VERSION=1.4.21
PORT=${MINISTACK_PORT:-4567}
URL=http://127.0.0.1:$PORT
DIR=$TOOLS/ministack

install_it() {
	need curl curl
	# The translator turns SAM resources into CloudFormation's own.
	venv_install ministack 10 "ministack==$VERSION" aws-sam-translator cryptography
}

start_it() {
	install_it
	# A run starts empty: state left by an earlier one would answer its tests.
	rm -rf "$DIR/state"
	mkdir -p "$DIR/state/tmp"
	# AWS_ENDPOINT_URL is for the functions that it runs.
	daemon_start ministack "$URL/_localstack/health" 60 \
		env BIND_HOST=127.0.0.1 GATEWAY_PORT="$PORT" MINISTACK_HOST=127.0.0.1 PERSIST_STATE=0 \
		STATE_DIR="$DIR/state" S3_DATA_DIR="$DIR/state/s3" TMPDIR="$DIR/state/tmp" LAMBDA_EXECUTOR=local AWS_ENDPOINT_URL="$URL" \
		LOG_LEVEL="${MINISTACK_LOG:-WARNING}" IOT_MTLS_ENABLED=0 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \
		"$DIR/venv/bin/ministack"
}

stop_it() { daemon_stop ministack; }
status_it() { daemon_status ministack "$URL"; }

dispatch "$@"
