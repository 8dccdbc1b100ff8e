#!/bin/sh
# with-admin-token.sh PROGRAM ARGUMENT... : runs the program with SERVICE_ADMIN_TOKEN set.
# A token that was given is used. Otherwise all replicas share one that the first of them makes and keeps in a volume;
# replicas that start together agree because a hard link is made by one of them only.
set -eu

if [ -z "${SERVICE_ADMIN_TOKEN:-}" ]; then
    kept=${ADMIN_TOKEN_FILE:-/var/lib/tailboard/admin/token}
    if [ ! -s "$kept" ]; then
        umask 077
        made=$(mktemp "$kept.XXXXXX")
        od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$made"
        ln "$made" "$kept" 2>/dev/null || true # another replica was first
        rm -f "$made"
    fi
    SERVICE_ADMIN_TOKEN=$(cat "$kept")
    export SERVICE_ADMIN_TOKEN
fi

exec "$@"
