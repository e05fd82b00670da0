#!/usr/bin/env bash
# Builds the package, tests it against a real fedpost on Node.js, Deno and Bun, and installs what
# npm would publish in an empty project. FEDPOST names the program; without it, it is built.
# TOOLS names a folder where Deno and Bun stay installed from one run to the next.
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
runtimes=${TOOLS:-$work}/runtimes
npm install --prefix "$runtimes" --no-audit --no-fund --no-save --silent deno@2.9.6 bun@1.4.5
deno=$runtimes/node_modules/.bin/deno bun=$runtimes/node_modules/.bin/bun
# tsc has checked the types; the tests are plain JavaScript.
"$deno" test --quiet --allow-all --no-check test/*.test.js
"$bun" test --timeout 120000 test/*.test.js
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
ran() { [[ $("$@" "$work/empty/project.js") == "no answer: true" ]]; }
ran node
ran "$deno" run --quiet --allow-net
ran "$bun"
echo "installed in an empty project: ok"
