#!/usr/bin/env bash
# Brings defects back that were mended, one at a time, and counts the seeds that the
# simulation needs to find each: the first that fails with the defect and not
# without. mutants.patch has them all; the variable MUTANT says which is there.
#
#   mutants.sh [B1 …]     SEEDS: how many each may need; FROM: the first
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
here=$PWD/internal/testkit/simulation/testdata
seeds=${SEEDS:-400} from=${FROM:-700000}
copy=$(mktemp -d)
trap 'git worktree remove --force "$copy"' EXIT
git worktree add --quiet --detach "$copy" HEAD
git -C "$copy" apply "$here/mutants.patch"
(cd "$copy" && go test -c -o sim.test ./internal/testkit/simulation)
cd "$copy/internal/testkit/simulation"

# simulate DEFECT FIRST SEEDS SHRINK ROW: one line if a promise is broken. Rows about bystanders have
# their stories only.
simulate() {
	local only=
	[[ " kept share line pace every " == *" $5 "* ]] && only=-simulate.bystanders
	MUTANT=$1 "$copy/sim.test" $only -test.timeout 0 -test.run 'TestSimulate$' -simulate.from "$2" -simulate.seeds "$3" \
		-simulate.shrink "$4" -simulate.failing 1 2>&1 | grep 'of processor time' || true
}

missed=0
for defect in "${@:-B1 B2 B3 B4 B5 B6 B7 B8 B10 B11 B12 B13 B14 B18.409 B18.close B18.ack B18.stranger B18.502 B18.limit B18.again B26 stale half retry throttle budget kept share line pace every}"; do
	for one in $defect; do
		at=$from
		while ((at < from + seeds)); do
			line=$(simulate "$one" "$at" $((from + seeds - at)) 0s "$one")
			[[ $line ]] || break
			seed=$(sed -E 's/.* in seed ([0-9]+),.*/\1/' <<<"$line")
			[[ $(simulate "" "$seed" 1 0s "$one") ]] || break
			at=$((seed + 1)) line=
		done
		if [[ $line ]]; then
			echo "$one: found after $((seed - from + 1)) seeds, $(simulate "$one" "$seed" 1 25s "$one" | sed 's/^ *[^ ]* //')"
		else
			echo "$one: not found in $seeds seeds"
			missed=1
		fi
	done
done
exit "$missed"
