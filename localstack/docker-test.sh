#!/usr/bin/env bash
# Runs the suites of the AWS engine against LocalStack in Docker: the contracts
# and end-to-end scenarios on queues and tables of their own, then the deployed
# stack. usage: docker-test.sh [go test flags]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

eval "$("$here/docker-up.sh")"
# shellcheck disable=SC2016 # a Go template, not the shell's
uses='{{$p := .ImportPath}}{{range .TestImports}}{{if eq . "fedpost/internal/testkit/engines/awstest"}}{{$p}}{{"\n"}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "fedpost/internal/testkit/engines/awstest"}}{{$p}}{{"\n"}}{{end}}{{end}}'
mapfile -t packages < <(go list -f "$uses" ./... | sort -u)
go test -count=1 -v -timeout 30m "$@" "${packages[@]}"
