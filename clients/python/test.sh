#!/usr/bin/env bash
# Tests the package against a real fedpost, builds it, and installs the wheel in an empty
# environment. FEDPOST names the program; without it, it is built. TOOLS names a folder where
# the tools stay installed from one run to the next.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z ${FEDPOST:-} ]]; then
	CGO_ENABLED=0 go build -C ../.. -o "$work/fedpost" ./cmd/fedpost
	FEDPOST=$work/fedpost
fi
export FEDPOST
venv=${TOOLS:-$work}/python-client
if ! cmp -s "$venv/.stamp" requirements.txt; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
	cp requirements.txt "$venv/.stamp"
fi
# What is generated is up to date.
mkdir "$work/generated" "$work/project"
./generate.sh "$venv/bin/python" "$work/generated/types.py" 2>/dev/null
diff -u src/fedpost/types.py "$work/generated/types.py"
"$venv/bin/python" asynchronous.py "$work/generated/_async.py"
diff -u src/fedpost/_async.py "$work/generated/_async.py"
"$venv/bin/mypy" --cache-dir "$work/mypy"
PYTHONPATH=src "$venv/bin/python" -m unittest discover --start-directory tests
"$venv/bin/python" -m build --no-isolation --outdir "$work/dist" . >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$venv/bin/twine" check --strict "$work"/dist/*
"$venv/bin/check-wheel-contents" "$work"/dist/*.whl
python3 -m venv "$work/empty"
"$work/empty/bin/pip" install --quiet --disable-pip-version-check "$work"/dist/*.whl
cd "$work/project"
cat >project.py <<'END'
from fedpost import Fedpost, FedpostError
from fedpost.types import Accepted

try:
    accepted: Accepted = Fedpost("http://127.0.0.1:1", patience=0).send({"activity": {}, "keyId": "k", "recipients": ["https://b.example/inbox"]})
except FedpostError as err:
    assert err.status == 0, err
END
"$work/empty/bin/python" project.py
"$venv/bin/mypy" --strict --cache-dir "$work/mypy" --python-executable "$work/empty/bin/python" project.py
echo "installed in an empty environment: ok"
