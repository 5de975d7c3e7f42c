#!/bin/sh
# Tests the console: the built files are those that the sources build, and the page works in Chromium
# with bin/trl. With arguments, only these test files run. What cannot run here is said, not hidden.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
	echo "SKIPPED: Node 20 or newer is not here; the console is not tested"
	exit 0
fi
if ! [ node_modules/.package-lock.json -nt package-lock.json ]; then
	npm ci --ignore-scripts --no-audit --no-fund --prefer-offline
fi
export TRL_TEST_BIN="${TRL_TEST_BIN:-$PWD/../bin/trl}"
[ $# -gt 0 ] || set -- test/*.test.mjs
echo "== $* in web"
exec node --test --test-concurrency=1 --test-timeout=900000 "$@"
