#!/usr/bin/env bash
# Runs the suites of the AWS engine against LocalStack in Docker: the contracts
# and end-to-end scenarios on queues and tables of their own, then the deployed
# stack. usage: docker-test.sh [go test flags]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

# Not eval "$(…)": eval succeeds even if the command in it fails. Without the
# variables every test would skip itself, and the run would pass.
environment=$("$here/docker-up.sh")
eval "$environment"
: "${FEDPOST_TEST_ENDPOINT:?docker-up.sh did not say where LocalStack is}"

# All packages with tests on the AWS engine: those that import awstest, and those whose
# tests run on both engines.
# shellcheck disable=SC2016 # a Go template, not the shell's
imports='{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .TestImports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$p}} {{.}}{{"\n"}}{{end}}'
packages=()
# No mapfile: macOS has bash 3.2.
while read -r package; do packages+=("$package"); done < <(go list -f "$imports" ./... |
	awk '$2 == "fedpost/internal/testkit/engines" || $2 == "fedpost/internal/testkit/engines/awstest" { print $1 }' | sort -u)
((${#packages[@]})) || { echo "error: no package uses the AWS engine" >&2; exit 1; }
go test -count=1 -v -timeout 60m "$@" "${packages[@]}"
