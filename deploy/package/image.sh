#!/usr/bin/env bash
# Builds the container image's last stage with buildah, around the program of `make
# package`: the first stage needs an image of Go from a registry, the last one nothing. Then
# runs the image's program as its user, and asks for its health. Needs root.
#
# usage: deploy/package/image.sh DIRECTORY-OF-PACKAGES
# It ends with 3 if no container runs on this machine at all.
set -euo pipefail

[[ $(id -u) == 0 ]] || exec sudo "$0" "$@"
dist=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
up=
store=(--storage-driver vfs --root "$work/root" --runroot "$work/run")
buildah() { command buildah "${store[@]}" "$@"; }

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

finish() {
	[[ -z $up ]] || { kill -- "-$up" && wait "$up"; } 2>/dev/null || true
	buildah rm --all >/dev/null 2>&1 || true
	rm -rf "$work" || echo "left behind: $work" >&2
}
trap finish EXIT

mkdir -p "$work/context/out/data" "$work/data"
cp "$dist/$(dpkg --print-architecture)/fedpost" "$work/context/out/"
deploy/package/libraries.sh "$work/context/out/fedpost" "$work/context/out/libraries"
: >"$work/context/out/ca-certificates.crt"
# Where no container at all runs, nothing is known of the image.
can() {
	local empty
	empty=$(buildah from scratch) && buildah copy -q "$empty" "$dist/$(dpkg --print-architecture)/static/fedpost" / >/dev/null &&
		buildah run --isolation chroot "$empty" -- /fedpost version >/dev/null && buildah rm "$empty" >/dev/null
}
can || exit 3

sed -n '/^FROM scratch/,$p' Dockerfile | sed 's/ --from=build/ /' >"$work/Dockerfile"
buildah bud --isolation chroot --format docker -q -t fedpost -f "$work/Dockerfile" "$work/context" >/dev/null
settings=$(buildah inspect --type image fedpost)
for want in '"User": "65532:65532"' '"/usr/bin/fedpost"' '"health"' '"SQLITE_TMPDIR=/data"'; do
	grep -qF "$want" <<<"$settings" || fail "the image's settings have no $want"
done

container=$(buildah from fedpost)
inside=("$(type -P buildah)" "${store[@]}" run --isolation chroot)
[[ $("${inside[@]}" "$container" -- /usr/bin/fedpost version) == "fedpost "* ]] || fail "the image's program does not run"
if said=$("${inside[@]}" "$container" -- /usr/bin/fedpost up --data /data 2>&1); then
	fail "up listens on all addresses without a token"
fi
grep -q FEDPOST_API_TOKEN <<<"$said" || fail "up without a token says: $said"

touch "$work/log" "$work/health"
set -m # a group of processes of its own, to end it with what it starts
# What is waited for is buildah itself, not a shell around it: it tidies its store after the program.
"${inside[@]}" --env FEDPOST_API_TOKEN=a-token-of-the-test --env FEDPOST_LISTEN=127.0.0.1:0 "$container" -- /usr/bin/fedpost up --data /data >"$work/log" 2>&1 &
up=$!
set +m
for ((i = 0; ; i++)); do
	listen=$(sed -n 's|^fedpost listening on http://||p' "$work/log")
	[[ $listen ]] && "${inside[@]}" --env "FEDPOST_LISTEN=$listen" "$container" -- /usr/bin/fedpost health >"$work/health" 2>&1 && break
	{ ((i < 60)) && kill -0 "$up"; } || fail "no health: $(cat "$work/health" "$work/log")"
	sleep 0.5
done
grep -q '^RSA signatures: OpenSSL 3' "$work/log" || fail "the image does not sign by OpenSSL: $(cat "$work/log")"
echo "the image's program runs as $(grep -o '65532:65532' <<<"$settings" | head -1) and says: $(cat "$work/health")"
