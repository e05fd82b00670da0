#!/usr/bin/env bash
# Builds the package, tests it against a real fedpost, and installs what npm would publish in an
# empty project. FEDPOST names the program; without it, it is built.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z ${FEDPOST:-} ]]; then
	CGO_ENABLED=0 go build -C ../.. -o "$work/fedpost" ./cmd/fedpost
	FEDPOST=$work/fedpost
fi
export FEDPOST
npm ci --no-audit --no-fund --silent
rm -rf dist
npm run --silent build
npm test
npm pack --silent --pack-destination "$work" >/dev/null
packed=$(echo "$work"/*.tgz)
npx publint --strict "$packed"
npx attw --profile esm-only "$packed"
mkdir "$work/empty"
cp test/project.ts "$work/empty/"
echo '{"type": "module", "private": true}' >"$work/empty/package.json"
npm install --prefix "$work/empty" --no-audit --no-fund --silent "$packed"
tsc=$PWD/node_modules/.bin/tsc
(cd "$work/empty" && "$tsc" --strict --noEmitOnError --target es2022 --module nodenext --lib es2022,dom,dom.asynciterable project.ts)
[[ $(node "$work/empty/project.js" 2>/dev/null | head -n 1) == true ]]
echo "installed in an empty project: ok"
