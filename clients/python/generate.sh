#!/usr/bin/env bash
# Writes the types of requests and answers from docs/openapi.yaml: generate.sh PYTHON [FILE]
set -euo pipefail
cd "$(dirname "$0")"
out=${2:-src/fedpost/types.py}
"$(dirname "$1")/datamodel-codegen" --input ../../docs/openapi.yaml --input-file-type openapi --output "$out" \
	--output-model-type typing.TypedDict --target-python-version 3.10 --disable-timestamp --use-double-quotes \
	--enum-field-as-literal all --use-union-operator --use-standard-collections --collapse-root-models --formatters black isort
# A server of a newer version may answer with more fields.
sed -i 's/, closed=True)/)/; s/^#   filename:.*/#   from docs\/openapi.yaml, by generate.sh/' "$out"
# A list of strings is not a list of strings or objects, but a sequence of them is.
sed -i -E 's/: list\[((Addressee|ActivityPubSubmission) \| \w+)\]/: Sequence[\1]/; 0,/^from typing import/s//from collections.abc import Sequence\nfrom typing import/' "$out"
