#!/usr/bin/env bash
# Builds and packs both packages for npm, tests them as they are packed against a real fedpost, the client on Node.js, Deno
# and Bun, and installs the client in an empty project. FEDPOST names the program; without it, it is built. TOOLS names a
# folder where Deno and Bun stay installed from one run to the next.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z ${FEDPOST:-} ]]; then
	CGO_ENABLED=0 go build -C .. -o "$work/fedpost" ./cmd/fedpost
	FEDPOST=$work/fedpost
fi
export FEDPOST
npm ci --no-audit --no-fund --silent
bin=$PWD/node_modules/.bin
rm -rf typescript/dist fedify/dist
npm pack --silent --workspaces --pack-destination "$work" >/dev/null # which builds

# The tests find the packages as they are packed, not these folders, and what is installed here.
tests=$work/packed
mkdir -p "$tests/node_modules/@fedpost" "$tests/typescript" "$tests/fedify"
for name in client fedify; do
	mkdir "$tests/node_modules/@fedpost/$name"
	tar xzf "$work"/fedpost-$name-*.tgz --strip-components=1 -C "$tests/node_modules/@fedpost/$name"
done
ln -s "$PWD"/node_modules/@{fedify,js-temporal} "$tests/node_modules/"
cp -r typescript/test "$tests/typescript/"
cp -r fedify/{test,README.md} "$tests/fedify/"
echo '{"type": "module", "private": true}' | tee "$tests/typescript/package.json" >"$tests/fedify/package.json"

runtimes=${TOOLS:-$work}/runtimes
npm install --prefix "$runtimes" --no-audit --no-fund --no-save --silent deno@2.9.6 bun@1.4.5
deno=$runtimes/node_modules/.bin/deno bun=$runtimes/node_modules/.bin/bun
# tsc has checked the types; the tests are plain JavaScript. Fedify needs Node.js 22, which is installed here.
(
	cd "$tests/typescript"
	node --test test/*.test.js
	"$deno" test --quiet --allow-all --no-check --node-modules-dir=manual test/*.test.js
	"$bun" test --timeout 120000 test/*.test.js
	cd ../fedify
	"$bin/node" --test test/*.test.js
)

for packed in "$work"/*.tgz; do
	"$bin/publint" --strict "$packed"
	"$bin/attw" --profile esm-only "$packed"
done
mkdir "$work/empty"
cp typescript/test/project.ts "$work/empty/"
echo '{"type": "module", "private": true}' >"$work/empty/package.json"
npm install --prefix "$work/empty" --no-audit --no-fund --silent "$work"/fedpost-client-*.tgz
(cd "$work/empty" && "$bin/tsc" --strict --noEmitOnError --target es2022 --module nodenext --lib es2022,dom,dom.asynciterable project.ts)
ran() { [[ $("$@" "$work/empty/project.js") == "no answer: true" ]]; }
ran node
ran "$deno" run --quiet --allow-net
ran "$bun"
echo "installed in an empty project: ok"
