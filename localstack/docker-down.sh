#!/usr/bin/env bash
# Removes what docker-up.sh brought up.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
docker compose -f "$here/compose.yaml" down --volumes
