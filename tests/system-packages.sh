#!/bin/sh
# Installs what the tests want from apt, as root or in CI; elsewhere prints the line and lets those tests be skipped.
set -u
missing=""
for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
line="apt-get install -y --no-install-recommends$missing"
# nodejs may come from elsewhere than Debian
if [ "$missing" = " nodejs" ] && command -v node >/dev/null 2>&1; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "no apt-get here; tests that need$missing will be skipped, with the reason"
    exit 0
fi
if [ "$(id -u)" = 0 ]; then sudo=""; elif [ "${CI:-}" = true ]; then sudo="sudo -n"; else
    echo "for the tests that need them:  sudo $line"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q >/dev/null && $sudo $line -q >/dev/null || {
    echo "could not run: $line" >&2
    [ "${CI:-}" != true ]
}
