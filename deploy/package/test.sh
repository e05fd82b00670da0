#!/usr/bin/env bash
# Installs the .deb of this machine with dpkg, looks at what it has put where, runs the
# unit's command by hand as systemd would, and removes it again. Needs root.
#
# usage: deploy/package/test.sh DIRECTORY-OF-PACKAGES
set -euo pipefail

[[ $(id -u) == 0 ]] || exec sudo "$0" "$@"
dist=$1
version=$(<"$(dirname "$0")/../../cmd/fedpost/VERSION")
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
up=

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

finish() {
	[[ -z $up ]] || kill "$up" 2>/dev/null || true
	dpkg --purge fedpost >/dev/null 2>&1 || true
	rm -rf "$work"
}
! dpkg -s fedpost >/dev/null 2>&1 || fail "fedpost is installed here; this test would purge it"
trap finish EXIT

# Programs for both architectures, and no other: one that loads OpenSSL, and a static one.
for a in amd64:3e arm64:b7; do
	for file in "$dist/${a%:*}/fedpost" "$dist/${a%:*}/static/fedpost"; do
		[[ $(od -An -tx1 -j18 -N1 "$file" | tr -d ' ') == "${a#*:}" ]] || fail "$file is for another machine"
	done
	grep -aq '/ld-linux' "$dist/${a%:*}/fedpost" || fail "$dist/${a%:*}/fedpost does not load libraries by glibc"
	! grep -aq '/ld-linux' "$file" || fail "$file needs a loader"
	[[ $(find "$dist" -name "fedpost_*_${a%:*}.deb" | wc -l) == 1 ]] || fail "there is no .deb for ${a%:*}"
done

deb=$(find "$dist" -name "fedpost_*_$arch.deb")
[[ $(dpkg-deb -f "$deb" Version) == "${version/-/\~}" ]] || fail "the .deb has version $(dpkg-deb -f "$deb" Version), not $version"
dpkg -i "$deb"
[[ $(fedpost version) == "fedpost $version ("* ]] || fail "fedpost version says $(fedpost version)"
[[ $(stat -c %a:%s /etc/fedpost/api-token) == 600:64 ]] || fail "the token is $(stat -c 'mode %a, %s bytes' /etc/fedpost/api-token)"
[[ ! -e /var/lib/fedpost ]] || fail "the package itself made the data folder"

# The manual page and the completions are where programs look.
zcat /usr/share/man/man1/fedpost.1.gz | groff -man -ww -Tutf8 -P-cbou >"$work/page" 2>"$work/complaints"
[[ ! -s $work/complaints ]] || fail "groff: $(<"$work/complaints")"
grep -q 'servers block' "$work/page" || fail "the manual page lacks a command"

for file in bash-completion/completions/fedpost zsh/vendor-completions/_fedpost fish/vendor_completions.d/fedpost.fish; do
	grep -q __complete "/usr/share/$file" || fail "/usr/share/$file does not complete"
done

# Each page's links lead somewhere.
doc=/usr/share/doc/fedpost
for file in README.md docs/README.md docs/openapi.yaml deploy/grafana/alerts.yaml; do
	[[ -s $doc/$file ]] || fail "$doc lacks $file"
done
while IFS=: read -r page target; do
	[[ -e $(dirname "$page")/$target ]] || fail "$page points to $target, which the package lacks"
done < <(grep -roP --include='*.md' '(?:\]\(|srcset="|src=")(?![a-z]+:)\K[^)"#\s]+' "$doc")

unit=/usr/lib/systemd/system/fedpost.service
# It also looks at units of others that ours is ordered after.
systemd-analyze verify --man=no "$unit" 2>"$work/verify" || true
! grep fedpost "$work/verify" || fail "systemd-analyze verify complains"
systemd-analyze security --offline=yes --threshold=25 "$unit" >"$work/security" || fail "$(tail -1 "$work/security")"
tail -1 "$work/security"

# The unit's command with what systemd would give it: a state directory, credentials, and a
# socket on which it reports that it is ready.
mkdir -m 700 "$work/state" "$work/credentials"
install -m 400 /etc/fedpost/api-token "$work/credentials/FEDPOST_API_TOKEN"
python3 - "$work/notify" >"$work/told" <<'LISTEN' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(600)
for _ in range(2):
    print(s.recv(1024).decode(), flush=True)
LISTEN
told() {
	for _ in $(seq 6000); do
		! grep -q "^$1" "$work/told" || return 0
		sleep 0.1
	done
	fail "systemd would not have been told $1: $(<"$work/told") $(<"$work/up")"
}
while [[ ! -S $work/notify ]]; do sleep 0.1; done
command=$(sed -n 's/^ExecStart=//p' "$unit")
# shellcheck disable=SC2016 # systemd's variable
command=${command//'${STATE_DIRECTORY}'/$work/state}
# shellcheck disable=SC2086 # the words of the unit's command
env -i NOTIFY_SOCKET="$work/notify" CREDENTIALS_DIRECTORY="$work/credentials" FEDPOST_LISTEN="unix:$work/socket" $command >"$work/up" 2>&1 &
up=$!
told READY=1
export FEDPOST_URL=unix:$work/socket
[[ $(fedpost health) == ok ]] || fail "it is not healthy"
grep -q '^RSA signatures: OpenSSL 3' "$work/up" || fail "it does not sign by OpenSSL: $(<"$work/up")"
! fedpost stats >/dev/null 2>&1 || fail "the API answers without the token"
FEDPOST_API_TOKEN=$(</etc/fedpost/api-token) fedpost stats >/dev/null || fail "the API refuses the token of the package"
kill "$up"
told STOPPING=1
wait "$up" || fail "it ends with $?: $(<"$work/up")"
up=

# Another installation keeps the token; only a purge removes it.
token=$(</etc/fedpost/api-token)
dpkg -i "$deb" >/dev/null
[[ $(</etc/fedpost/api-token) == "$token" ]] || fail "an upgrade changed the token"
dpkg -r fedpost >/dev/null
[[ ! -e /usr/bin/fedpost && -e /etc/fedpost/api-token ]] || fail "after the removal: $(ls -d /usr/bin/fedpost /etc/fedpost/* 2>&1)"
dpkg --purge fedpost >/dev/null
[[ ! -e /etc/fedpost && ! -e /etc/default/fedpost ]] || fail "after the purge: $(ls -d /etc/fedpost /etc/default/fedpost 2>&1)"
echo "$deb: installed, run and removed"
