#!/bin/sh
# Tests what is not Go, with bin/trl: both SDKs, and MCP with its TypeScript client.
# What cannot run here is said, not hidden.
set -eu
cd "$(dirname "$0")/.."
. sdk/tools.sh
export TRL_TEST_BIN="$PWD/bin/trl" TRL_TEST_AGENT="$PWD/build/fakeagent"
CGO_ENABLED=0 go build -trimpath -o "$TRL_TEST_AGENT" ./tests/dialogue/fakeagent

# Sessions in containers are tested with a Docker engine of the tests' own, unless one is given.
docker=env
if [ "$(uname)" = Linux ] && [ -z "${TRL_TEST_IMAGE:-}" ]; then
	docker="$PWD/build/withdocker"
	go build -o "$docker" ./tests/withdocker
fi

# npm_test DIRECTORY [PREFIX] runs its tests, below the program PREFIX if it is given.
npm_test() {
	echo "== npm test in $1"
	npm_install "$1"
	(cd "$1" && "${2:-env}" npm test)
}

packages=
if command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
	npm_test sdk/typescript "$docker"
	npm_test tests/mcp
	packages=node
else
	echo "SKIPPED: Node 20 or newer is not here; the TypeScript SDK, and MCP with its TypeScript client, are not tested"
fi

if python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
	echo "== mypy and pytest in sdk/python"
	python_install
	(cd sdk/python && ../../build/python/bin/mypy && "$docker" ../../build/python/bin/pytest -q)
	packages="$packages python"
else
	echo "SKIPPED: Python 3.10 or newer with venv is not here; the Python SDK is not tested"
fi

# shellcheck disable=SC2086 # words
sdk/packages.sh $packages
