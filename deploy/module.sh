#!/bin/sh
# Writes another module path everywhere, for who publishes fedpost: module.sh example.org/fedpost
#
# `make module PATH=…` has taken the search path away, so it is set here.
set -eu
PATH=$(command -p getconf PATH):/usr/local/bin
new=${1-}
case $new in
'' | *[!A-Za-z0-9._/~-]* | /* | */ | *:*)
	echo "say which: make module PATH=example.org/fedpost" >&2
	exit 2
	;;
esac
cd "$(dirname "$0")/.."
old=$(sed -n 's/^module //p' go.mod)
sed -i "s|^module .*|module $new|" go.mod
sed -i "s|module = \"$old/\"|module = \"$new/\"|" internal/house_test.go
find . \( -name .git -o -name node_modules -o -name .tools -o -name bin -o -name dist \) -prune -o -type f \
	\( -name '*.go' -o -name '*.md' -o -name '*.sh' -o -name '*.patch' -o -path ./.ci/run \) -print0 |
	xargs -0 sed -i -E -e "s#(-replace )$old=#\1$new=#g; s#https://fedpost\.example/fedpost\.git#https://$new#g" -e "s#(^|[^A-Za-z0-9_./@-])$old/(internal|client|cmd|functions|bench|localstack|docs)\b#\1$new/\2#g"
