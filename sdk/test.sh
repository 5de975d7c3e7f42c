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

# The tests of an SDK are the commands of its page, typed in its directory.
typescript=$(commands sdk/typescript/README.md '## Working on it')
python=$(commands sdk/python/README.md '## Tests')
export npm_config_audit=false npm_config_fund=false npm_config_prefer_offline=true
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTEST_ADDOPTS=-q

packages=
if command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
	echo "== npm test in sdk/typescript"
	(cd sdk/typescript && "$docker" sh -exc "$typescript")
	echo "== npm test in tests/mcp"
	npm_install tests/mcp
	(cd tests/mcp && npm test)
	packages=node
else
	echo "SKIPPED: Node 20 or newer is not here; the TypeScript SDK, and MCP with its TypeScript client, are not tested"
fi

if python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
	echo "== pytest and mypy in sdk/python"
	(cd sdk/python && "$docker" sh -exc "$python")
	touch build/python/ready
	packages="$packages python"
else
	echo "SKIPPED: Python 3.10 or newer with venv is not here; the Python SDK is not tested"
fi

# shellcheck disable=SC2086 # words
sdk/packages.sh $packages
