#!/bin/sh
# Stops the service before its program goes. An upgrade restarts it when the new one is
# there.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --quiet --now fedpost.service
fi
