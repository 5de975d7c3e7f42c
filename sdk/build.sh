#!/bin/sh
# sdk/build.sh DIRECTORY KIND... builds packages into a directory: the wheel (python), the npm package
# (node). The same commit gives the same bytes.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
. sdk/tools.sh
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)} # 1980 outside of a repository
export SOURCE_DATE_EPOCH
umask 022

for kind in "$@"; do
	case $kind in
	python)
		python_install
		# What an earlier build left would become a part of the wheel.
		rm -rf sdk/python/build
		build/python/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$out" sdk/python
		rm -rf sdk/python/build
		;;
	node)
		npm_install sdk/typescript
		rm -rf sdk/typescript/dist
		(cd sdk/typescript && npm run --silent build && npm pack --silent --ignore-scripts --pack-destination "$out" >/dev/null)
		;;
	*)
		echo "sdk/build.sh: $kind: is neither python nor node" >&2
		exit 2
		;;
	esac
done
