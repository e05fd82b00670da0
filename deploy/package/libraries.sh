#!/bin/sh
# Copies the shared libraries that fedpost needs to sign by OpenSSL, with their paths, into a
# directory that becomes the root of an image: libcrypto, the C library and its loader.
#
# usage: deploy/package/libraries.sh PROGRAM DIRECTORY
set -eu
crypto=$(ldconfig -p | awk '/libcrypto\.so\.3 .*=>/ { print $NF; exit }')
[ -n "$crypto" ] || { echo "this machine has no libcrypto.so.3" >&2; exit 1; }
mkdir -p "$2"
needed=$(ldd "$1" && ldd "$crypto")
for file in $crypto $(echo "$needed" | grep -o '/[^ ]*' | sort -u); do
	cp -L --parents "$file" "$2"
done
