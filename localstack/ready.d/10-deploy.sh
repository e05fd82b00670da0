#!/usr/bin/env bash
# LocalStack runs this when it is ready: it deploys what compose.yaml mounts.
set -euo pipefail
AWS_CLI=${AWS_CLI:-$(command -v aws || echo /opt/code/localstack/.venv/bin/aws)}
export AWS_CLI
"${FEDPOST_ROOT:-/opt/fedpost}/localstack/deploy.sh" "http://127.0.0.1:${LOCALSTACK_PORT:-4566}" | tee /tmp/fedpost-outputs
