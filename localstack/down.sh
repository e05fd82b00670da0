#!/usr/bin/env bash
# Stops every server that the scripts here started.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for s in dynamodb-local localstack-host ministack moto postgres; do
	"$here/$s.sh" stop
done
