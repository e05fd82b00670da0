#!/bin/sh
# Removes the token with the package's settings. The data stay: /var/lib/private/fedpost
# holds what was accepted and not delivered yet, and keys that are nowhere else.
set -e

if [ "$1" = purge ]; then
	rm -f /etc/fedpost/api-token
	rmdir --ignore-fail-on-non-empty /etc/fedpost 2>/dev/null || true
	[ ! -d /var/lib/private/fedpost ] || echo "fedpost: the data stay in /var/lib/private/fedpost"
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
