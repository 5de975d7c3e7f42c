#!/bin/sh
# Builds the wheel and the npm package into build/sdk, twice, which must give the same bytes, installs each
# into an empty project, checks the types of a program there with mypy --strict and tsc --strict, and runs
# it with bin/trl. sdk/test.sh calls it, with what it has installed: python, node or both.
set -eu
cd "$(dirname "$0")/.."
. sdk/tools.sh
tree=$PWD out=$PWD/build/sdk
[ $# -gt 0 ] || exit 0
rm -rf "$out"
mkdir -p "$out/run"

# A daemon of its own, which ends with this script.
export PATH="$tree/bin:$PATH" TRL_SOCKET_PATH="$out/run/trl.sock" TRL_STATE_DIR="$out/run/state"
trap 'trl stop 2>/dev/null || true; rm -rf "$out/run"' EXIT

# typed PROGRAM VERSION types the command by which the page about releases installs with a program, for another version.
page=$(commands docs/releasing.md '## Packages')
typed() {
	command=$(echo "$page" | grep "^$1 install" | sed -E "s/[0-9]+\.[0-9]+\.[0-9]+/$2/")
	sh -exc "$command"
}

wheel() {
	echo "== wheel in an empty project"
	python3 -m venv --without-pip "$out/python"
	(
		export PATH="$tree/build/python/bin:$PATH" PIP_PYTHON="$out/python/bin/python" PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1
		cd "$out" && typed pip "$(sed -n 's/^version = "\(.*\)"/\1/p' "$tree/sdk/python/pyproject.toml")"
	)
	cat >"$out/example.py" <<'PY'
import trl_client as trl


def main() -> None:
    with trl.connect() as t, t.session(shell="sh") as s:
        result = s.run("echo hello; exit 3", timeout_s=60)
        code: int = result.exit_code
        print(result.stdout.strip(), code)


main()
PY
	cd "$out"
	"$tree/build/python/bin/mypy" --strict --cache-dir "$out/mypy" --python-executable python/bin/python example.py
	[ "$(python/bin/python -W error example.py)" = "hello 3" ]
	cd "$tree"
}

npm_package() {
	echo "== npm package in an empty project"
	mkdir "$out/node"
	cd "$out/node"
	echo '{"name": "empty", "private": true, "type": "module"}' >package.json
	cp "$out"/trl-dev-trl-*.tgz .
	(
		export npm_config_audit=false npm_config_fund=false npm_config_offline=true npm_config_ignore_scripts=true npm_config_loglevel=silent
		typed npm "$(sed -n 's/^  "version": "\(.*\)",/\1/p' "$tree/sdk/typescript/package.json")"
	)
	cat >example.ts <<'TS'
import { connect } from "@trl-dev/trl";

const trl = await connect();
const session = await trl.session({ shell: "sh" });
const result = await session.run("echo hello; exit 3", { timeoutS: 60 });
const code: number = result.exitCode;
console.log(result.stdout.trim(), code);
await session.destroy();
await trl.close();
TS
	"$tree/sdk/typescript/node_modules/.bin/tsc" --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes \
		--target es2022 --module nodenext --types node --typeRoots "$tree/sdk/typescript/node_modules/@types" example.ts
	[ "$(node example.js)" = "hello 3" ]
	cd "$tree"
}

sdk/build.sh "$out" "$@"
sdk/build.sh "$out/again" "$@"
for package in "$out/again"/*; do
	cmp "$package" "$out/${package##*/}"
done
for kind in "$@"; do
	case $kind in
	python) wheel ;;
	node) npm_package ;;
	esac
done
