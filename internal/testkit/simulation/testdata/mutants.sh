#!/usr/bin/env bash
# Brings defects back that were mended, one at a time, and counts the seeds that the
# simulation needs to find each: the first that fails with the defect and not
# without. mutants.patch has them all; the variable MUTANT says which is there.
#
#   mutants.sh [B1 …]     SEEDS: how many each may need; FROM: the first
#
# B1 sends U+FFFE as it is. B2 lets a holder of a lease act after its end. B3 does not cut texts of
# other servers. B4 ends only the head of an ordered group in a check. B5 looks at a paused server
# only when its pause ends. B6 receives what waits for a limit again and again. B7 clears the due
# time before the second look at a lot. B8 saves lessons while outcomes wait. B10 lets no pause
# grow. B11 writes the host's state at each success. B12 has one due time for all groups of a
# server. B13 makes a 401 final. B14 switches the signature form after one 403. B26 trusts a key
# for five minutes. Of Sipher: B18.409 believes a proxy's 409, B18.close asks no proxy after a
# connection that was closed, B18.ack believes any acknowledgement of a post that names its
# method, B18.stranger prefers an unknown server as proxy, B18.502 ends checks after a proxy's
# 502, B18.limit makes the limit of checks a constant, B18.again does not check a server that
# registers again. stale sends replaced versions, half sends a batch as two messages, retry
# includes recipients that have accepted, throttle holds the host for a pause of one inbox, budget
# opens no circuit after requests in vain. kept, share, spare, line, pace and every change the scheduler.
# flush has, after each message, a goroutine for each host of which something has to be saved;
# pending never forgets these hosts, drop no inbox that ever had an attempt.
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
	[[ " kept share spare line pace every " == *" $5 "* ]] && only=-simulate.bystanders
	MUTANT=$1 "$copy/sim.test" $only -test.timeout 0 -test.run 'TestSimulate$' -simulate.from "$2" -simulate.seeds "$3" \
		-simulate.shrink "$4" -simulate.failing 1 2>&1 | grep 'of processor time' || true
}

missed=0
for defect in "${@:-B1 B2 B3 B4 B5 B6 B7 B8 B10 B11 B12 B13 B14 B18.409 B18.close B18.ack B18.stranger B18.502 B18.limit B18.again B26 stale half retry throttle budget kept share spare line pace every flush pending drop}"; do
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
