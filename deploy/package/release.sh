#!/usr/bin/env bash
# Makes what a release consists of in dist/release: archives and packages for linux amd64 and
# arm64, and archives of the static program, which starts without a C library too; the clients as
# two tarballs for npm, a wheel for Python and the Go module without its tests; an SBOM
# (CycloneDX), SHA256SUMS over all, and NOTES.md from CHANGELOG.md. It needs Go, npm, and Python
# with venv.
#
# usage: deploy/package/release.sh TAG
# The tag is v and the version that `fedpost version` prints. A version that ends in -dev takes
# its notes from Unreleased; any other needs a section of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
version=$(<cmd/fedpost/VERSION)
out=$PWD/dist/release
[[ ${1:?a tag, such as v$version} == "v$version" ]] || { echo "the tag is $1, and cmd/fedpost/VERSION says $version" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out"
section=$version
[[ $version != *-dev ]] || section=Unreleased
awk -v head="## [$section]" 'index($0, "## [") == 1 { on = index($0, head) == 1; next } on' CHANGELOG.md >"$out/NOTES.md"
grep -q '[^[:space:]]' "$out/NOTES.md" || { echo "CHANGELOG.md says nothing below ## [$section]" >&2; exit 1; }

make -s package
cp dist/package/*.deb "$out/"
for arch in amd64 arm64; do
	tar -czf "$out/fedpost_${version}_linux_$arch.tar.gz" --owner 0 --group 0 -C "dist/package/$arch" fedpost -C "$PWD" LICENSE README.md CHANGELOG.md
	tar -czf "$out/fedpost_${version}_linux-static_$arch.tar.gz" --owner 0 --group 0 -C "dist/package/$arch/static" fedpost -C "$PWD" LICENSE README.md CHANGELOG.md
done

# In a folder of their own, as other sections of CI install in clients.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -cf - --exclude=node_modules --exclude=dist clients docs/openapi.yaml | tar -xf - -C "$work"
(cd "$work/clients" && npm ci --no-audit --no-fund --silent && npm pack --silent --workspaces --pack-destination "$out")
python3 -m venv "$work/venv"
"$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" "$work/clients/python"
tar -czf "$out/fedpost_${version}_go-module.tar.gz" --owner 0 --group 0 --transform "s|^|fedpost-$version/|" --exclude='*_test.go' go.mod go.sum LICENSE client

go run "$CYCLONEDX" bin -json -licenses -version "v$version" -output "$out/fedpost_$version.sbom.cdx.json" dist/package/amd64/fedpost
(cd "$out" && sha256sum -- fedpost* >SHA256SUMS)
