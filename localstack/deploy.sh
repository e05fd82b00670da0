#!/usr/bin/env bash
# Deploys template.yaml with the built functions to a server that takes
# CloudFormation, and prints the stack's outputs as NAME=value.
#
# usage: deploy.sh ENDPOINT [STACK] [PARAMETER=value...]
#
# Needs the functions in dist/ (make build GOARCH=…; GOARCH, or this machine's
# architecture, says which) and the AWS command line: AWS_CLI, or aws from the
# path, or the one that comes with localstack-host.sh. OUTBOUND_ALLOW and
# OUTBOUND_PLAIN_HTTP, if set, are given to the functions, so that they deliver
# to servers on this machine.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

endpoint=${1:?usage: deploy.sh ENDPOINT [STACK] [PARAMETER=value...]}
stack=${2:-fedpost}
shift $(($# < 2 ? $# : 2))

case ${GOARCH:-$(uname -m)} in
amd64 | x86_64) goarch=amd64 architecture=x86_64 ;;
arm64 | aarch64) goarch=arm64 architecture=arm64 ;;
*)
	echo "error: Lambda does not run on ${GOARCH:-$(uname -m)}" >&2
	exit 1
	;;
esac
for f in enqueue deliver healthcheck; do
	[[ -f $root/dist/$goarch/$f/bootstrap ]] || {
		echo "error: dist/$goarch/$f/bootstrap is missing; run make build GOARCH=$goarch" >&2
		exit 1
	}
done

cli=${AWS_CLI:-$(command -v aws || echo "${FEDPOST_TOOLS:-$root/.tools}/localstack-host/venv/bin/aws")}
export AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID:-test} AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY:-test}
export AWS_DEFAULT_REGION=${AWS_REGION:-${AWS_DEFAULT_REGION:-us-east-1}} AWS_PAGER=
# One endpoint for all services, whatever the environment says of single ones.
unset "${!AWS_ENDPOINT_URL@}"
export AWS_ENDPOINT_URL=$endpoint
aws() { "$cli" "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Some servers drop the route for any method (ANY) from an API like that of
# template.yaml. A small stack, deleted afterwards, shows whether this server does.
cat >"$work/probe.yaml" <<'EOF'
Resources:
  Api:
    Type: AWS::ApiGateway::RestApi
    Properties:
      Name: fedpost-probe
      Body:
        openapi: 3.0.1
        info: { title: fedpost-probe, version: "1" }
        paths:
          /any:
            x-amazon-apigateway-any-method:
              responses: {}
              x-amazon-apigateway-integration: { type: mock }
EOF
aws cloudformation deploy --template-file "$work/probe.yaml" --stack-name "$stack-probe" >"$work/probe.log" 2>&1 || { cat "$work/probe.log" >&2 && exit 1; }
probe=$(aws cloudformation describe-stack-resource --stack-name "$stack-probe" --logical-resource-id Api \
	--query StackResourceDetail.PhysicalResourceId --output text)
kept=$(aws apigateway get-resources --rest-api-id "$probe" --query "items[?path=='/any'].resourceMethods" --output json)
aws cloudformation delete-stack --stack-name "$stack-probe"
methods=listed
[[ $kept != *'"ANY"'* ]] || methods=any

# Changes to the template for this server: each function's CodeUri names its built
# binary instead of the source for `sam build`. References to the stage are replaced,
# because LocalStack resolves them before SAM makes the stage. If the server drops the
# route for any method, one route per method takes its place.
awk -v methods="$methods" -v dist="$root/dist/$goarch" -v allow="${OUTBOUND_ALLOW:-}" -v plain="${OUTBOUND_PLAIN_HTTP:-}" '
	/^  [A-Za-z]+Function:$/ { name = tolower($1); sub(/function:$/, "", name) }
	/^  [A-Za-z]+:$/ && !/Function:$/ { name = "" }
	any && match($0, /[^ ]/) && RSTART < 13 { print "            post: *any"; print "            put: *any"; any = 0 }
	methods == "listed" && /^            x-amazon-apigateway-any-method:$/ { print "            get: &any"; any = 1; next }
	{ sub(/!Ref Api\.Stage/, "live"); print }
	/^      Variables:$/ && allow != "" { print "        OUTBOUND_ALLOW: \"" allow "\"" }
	/^      Variables:$/ && plain != "" { print "        OUTBOUND_PLAIN_HTTP: \"" plain "\"" }
	name != "" && /^    Properties:$/ { print "      CodeUri: " dist "/" name; name = "" }
' "$root/template.yaml" >"$work/template.yaml"

aws s3 mb "s3://$stack-code" >/dev/null 2>&1 || aws s3 ls "s3://$stack-code" >/dev/null
aws cloudformation package --template-file "$work/template.yaml" --s3-bucket "$stack-code" \
	--output-template-file "$work/packaged.yaml" >"$work/package.log" 2>&1 || { cat "$work/package.log" >&2 && exit 1; }
aws cloudformation deploy --template-file "$work/packaged.yaml" --stack-name "$stack" --s3-bucket "$stack-code" \
	--capabilities CAPABILITY_IAM CAPABILITY_AUTO_EXPAND --no-fail-on-empty-changeset \
	--parameter-overrides "Architecture=$architecture" ContactUrl=https://example.org/ CreateAlarms=false "$@" >&2 || {
	# shellcheck disable=SC2016 # the back-quotes are the query's
	aws cloudformation describe-stack-events --stack-name "$stack" --output text \
		--query 'StackEvents[?contains(ResourceStatus, `FAILED`)].[LogicalResourceId, ResourceStatusReason]' >&2 || true
	exit 1
}
aws cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].Outputs[].[OutputKey, OutputValue]' --output text |
	sed 's/\t/=/'

# The API's URL on this server, where the API has no domain of its own.
api=$(aws cloudformation describe-stack-resource --stack-name "$stack" --logical-resource-id Api \
	--query StackResourceDetail.PhysicalResourceId --output text)
echo "LocalMethods=$methods"
echo "LocalApiUrl=$endpoint/restapis/$api/live/_user_request_"
