#!/usr/bin/env bash
# Brings small defects in, one at a time, and says which test finds each. The patches in
# testdata have them all; the variable MUTANT says which is there. The head of a patch names
# for each defect the packages whose tests should find it, the quickest first. Succeeds only if
# each is found.
#
#   mutants.sh [defect …]    FEDPOST_LONG=1: with the long tests
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
here=$PWD/internal/testkit/mutants
copy=$(mktemp -d)
trap 'git worktree remove --force "$copy"' EXIT
git worktree add --quiet --detach "$copy" HEAD
cd "$copy"
git apply --include='internal/mutant/*' internal/testkit/simulation/testdata/mutants.patch
git apply "$here"/testdata/*.patch

declare -A packages
order=()
while read -r defect in; do
	packages[$defect]=$in
	order+=("$defect")
done < <(cat "$here"/testdata/*.patch | grep -E '^[a-z0-9.-]+( internal/[a-z0-9/]+)+$')
(($#)) || for defect in "${order[@]}"; do
	if [[ ${packages[$defect]} == *engine/postgres* && -z ${FEDPOST_TEST_DATABASE_URL:-} ]]; then
		echo "$defect: left out, as it needs FEDPOST_TEST_DATABASE_URL"
	else
		set -- "$@" "$defect"
	fi
done
for defect; do
	[[ ${packages[$defect]:-} ]] || { echo "no defect is called $defect; there are: ${order[*]}" >&2; exit 2; }
done
for package in $(for defect; do echo "${packages[$defect]}"; done | tr ' ' '\n' | sort -u); do
	go test -c -o "$package/mutants.test" "./$package"
	# A test that fails without a defect finds none.
	if ! (cd "$package" && ./mutants.test >log 2>&1); then
		tail -n 40 "$package/log"
		echo "the tests of $package fail without a defect"
		exit 1
	fi
done

# fails PACKAGE DEFECT FLAG...: whether its tests fail with a defect, or never end.
fails() {
	cd "$copy/$1"
	! MUTANT=$2 timeout 600 ./mutants.test -test.failfast "${@:3}" >log 2>&1
}

missed=()
for defect; do
	found=
	for package in ${packages[$defect]}; do
		fails "$package" "$defect" || continue
		found=$(grep -m1 -o -- '--- FAIL: [^ ]*' "$copy/$package/log" | cut -c11- || true)
		# A test may fail for something else, on a busy machine for instance.
		if [[ ! $found ]] || fails "$package" "$defect" -test.run "^$found\$"; then
			echo "$defect: found by $package ${found:=(it never ends, or panics)}"
			break
		fi
		found=
	done
	if [[ ! $found ]]; then
		echo "$defect: not found"
		missed+=("$defect")
	fi
done
echo "${#missed[@]} of $# not found: ${missed[*]}"
((${#missed[@]} == 0))
