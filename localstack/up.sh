#!/usr/bin/env bash
# Starts what the AWS suites need, without Docker, and prints the environment to
# run them in:
#   env=$(localstack/up.sh) && eval "$env" && go test ./... ; localstack/down.sh
# usage: up.sh [dynamodb-local] [localstack-host] [ministack] [moto] [postgres]
# Without names: dynamodb-local and localstack-host. A server named later takes
# over the services it shares with an earlier one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

servers=("$@")
((${#servers[@]})) || servers=(localstack-host dynamodb-local)

sqs="" dynamodb="" kms="" postgres=""
for s in "${servers[@]}"; do
	case $s in
	dynamodb-local) dynamodb=http://127.0.0.1:${DYNAMODB_LOCAL_PORT:-8000} ;;
	localstack-host) sqs=http://127.0.0.1:${LOCALSTACK_PORT:-4566} kms=$sqs ;;
	ministack) sqs=http://127.0.0.1:${MINISTACK_PORT:-4567} dynamodb=$sqs kms=$sqs ;;
	moto) sqs=http://127.0.0.1:${MOTO_PORT:-5566} dynamodb=$sqs kms=$sqs ;;
	postgres) postgres=postgres://fedpost@127.0.0.1:${POSTGRES_PORT:-5499}/postgres ;;
	*)
		echo "error: no server is called $s" >&2
		exit 1
		;;
	esac
	"$here/$s.sh" start
done

# The servers take any credentials; the SDK insists on some.
cat <<EOF
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
EOF
[[ -z $sqs ]] || echo "export AWS_ENDPOINT_URL_SQS=$sqs"
[[ -z $kms ]] || echo "export AWS_ENDPOINT_URL_KMS=$kms"
[[ -z $dynamodb ]] || echo "export AWS_ENDPOINT_URL_DYNAMODB=$dynamodb"
[[ -z $postgres ]] || echo "export FEDPOST_TEST_DATABASE_URL=$postgres"
