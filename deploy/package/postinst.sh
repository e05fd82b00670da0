#!/bin/sh
# Makes the token of the API, once, and starts the service.
set -e

[ "$1" = configure ] || exit 0

token=/etc/fedpost/api-token
if [ ! -e "$token" ]; then
	# Linked into place when it is complete, so that no half token is ever used.
	new=$(mktemp /etc/fedpost/.api-token.XXXXXX) # mode 0600
	od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' >"$new"
	mv "$new" "$token"
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ -z "$2" ]; then
		systemctl enable --quiet --now fedpost.service
	else
		systemctl try-restart fedpost.service
	fi
fi
