#!/usr/bin/env bash
# Deploys template.yaml with the built functions to MiniStack and runs the tests
# of internal/testkit/e2e/deployed against it, without Docker: once with FIFO
# queues, the default, and once with standard queues.
# usage: test-deployed.sh [go test flags]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

port=${MINISTACK_PORT:-4567}
make -s build GOARCH="$(go env GOHOSTARCH)"
# deploy.sh needs the AWS command line, which this one brings.
command -v aws >/dev/null || "$here/localstack-host.sh" install
"$here/ministack.sh" stop
trap '"$here/ministack.sh" stop' EXIT
"$here/ministack.sh" start
for type in fifo standard; do
	outputs=$(OUTBOUND_ALLOW=127.0.0.0/8 OUTBOUND_PLAIN_HTTP=true "$here/deploy.sh" "http://127.0.0.1:$port" "fedpost-$type" "QueueType=$type")
	echo "a stack with $type queues:"
	api=$(sed -n 's/^LocalApiUrl=//p' <<<"$outputs")
	methods=$(sed -n 's/^LocalMethods=//p' <<<"$outputs")
	FEDPOST_DEPLOYED_API=$api FEDPOST_DEPLOYED_METHODS=$methods go test -count=1 -v "$@" ./internal/testkit/e2e/deployed
done
