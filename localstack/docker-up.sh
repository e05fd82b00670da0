#!/usr/bin/env bash
# Brings LocalStack up in Docker with the whole stack deployed, and prints the
# environment to test it in. Needs Docker with compose, and Go. LOCALSTACK_WAIT is
# how many seconds the deployment may take.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

docker compose version >/dev/null 2>&1 || {
	echo "error: docker compose is needed; without Docker use localstack/up.sh and localstack/test-deployed.sh" >&2
	exit 1
}
compose() { docker compose -f localstack/compose.yaml "$@"; }

# The functions run on this machine's processor.
make -s build GOARCH="$(go env GOHOSTARCH)" >&2
compose up -d --wait >&2

url=http://127.0.0.1:${LOCALSTACK_PORT:-4566}
echo "waiting for the deployment" >&2
for ((i = 0; i < ${LOCALSTACK_WAIT:-300}; i++)); do
	state=$(curl -s "$url/_localstack/init/ready" || true)
	case ${state// /} in
	*'"completed":true'*) break ;;
	esac
	sleep 1
done
case ${state// /} in
*'"state":"SUCCESSFUL"'*) ;;
*)
	compose logs --tail 60 >&2
	echo "error: the stack was not deployed: ${state:-LocalStack does not answer}" >&2
	exit 1
	;;
esac
outputs=$(compose exec -T localstack cat /tmp/fedpost-outputs)
api=$(sed -n 's/^LocalApiUrl=//p' <<<"$outputs")
[[ -n $api ]] || {
	echo "error: the deployment did not say where the API is" >&2
	exit 1
}
# This machine as containers see it. Docker Desktop runs them in a virtual machine,
# whose bridge ends there.
if [[ -n ${FEDPOST_DEPLOYED_INBOX_HOST:-} ]]; then
	inbox=$FEDPOST_DEPLOYED_INBOX_HOST
elif [[ $(docker info -f '{{.OperatingSystem}}') == *"Docker Desktop"* ]]; then
	inbox=host.docker.internal
else
	inbox=$(docker network inspect bridge -f '{{(index .IPAM.Config 0).Gateway}}')
fi
cat <<EOF
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
export FEDPOST_TEST_ENDPOINT=$url
export FEDPOST_DEPLOYED_API=${api/http:\/\/127.0.0.1:4566/$url}
export FEDPOST_DEPLOYED_INBOX_HOST=$inbox
export FEDPOST_DEPLOYED_METHODS=$(sed -n 's/^LocalMethods=//p' <<<"$outputs")
EOF
