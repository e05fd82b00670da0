#!/usr/bin/env bash
# Builds the adapter, tests a Fedify application with it against a real fedpost, and checks what
# npm would publish. It needs Node.js 22. FEDPOST names the program; without it, it is built.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z ${FEDPOST:-} ]]; then
	CGO_ENABLED=0 go build -C ../.. -o "$work/fedpost" ./cmd/fedpost
	FEDPOST=$work/fedpost
fi
export FEDPOST
npm ci --prefix ../typescript --no-audit --no-fund --silent
npm --prefix ../typescript run --silent build
(cd ../typescript && npm pack --silent --pack-destination "$work" >/dev/null)
npm ci --no-audit --no-fund --silent
# The client as it is packed, not as a link: it is not published yet.
mkdir -p node_modules/@fedpost/client node_modules/@fedpost/fedify
tar xzf "$work"/fedpost-client-*.tgz --strip-components=1 -C node_modules/@fedpost/client
rm -rf dist
npm run --silent build
npm pack --silent --pack-destination "$work" >/dev/null
packed=$(echo "$work"/fedpost-fedify-*.tgz)
tar xzf "$packed" --strip-components=1 -C node_modules/@fedpost/fedify
npm test
npx publint --strict "$packed"
npx attw --profile esm-only "$packed"
