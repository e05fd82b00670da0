#!/usr/bin/env bash
# Records what README.md shows of fedpost at work: the demo in a terminal and the operator's
# page, and draws the pictures. It needs script (util-linux) and Chromium.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/fedpost" ./cmd/fedpost
script --quiet --return --command "stty cols 100; '$work/fedpost' demo" --log-out "$work/out" >/dev/null
grep -v '^Script ' "$work/out" >docs/pictures/demo.out
go run ./docs/pictures
"$work/fedpost" demo --keep >"$work/kept" &
demo=$!
trap 'kill "$demo"; wait "$demo" || true; rm -rf "$work"' EXIT
until grep -q "The operator's page" "$work/kept"; do sleep 0.2; done
page=$(sed -n "s/^The operator's page: //p" "$work/kept")
for scheme in light dark; do
	dark=()
	[[ $scheme == light ]] || dark=(--blink-settings=preferredColorScheme=0)
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/browser" "${dark[@]}" \
		--window-size=1200,720 --virtual-time-budget=3000 --screenshot="docs/pictures/page-$scheme.png" "$page" 2>/dev/null
done
