#!/bin/sh
# ci.sh PLACE [OPTION...] runs a CI job in a new place, such as docker:alpine.
set -eu

job=$(trl new --on "$@")
trap 'trl kill "$job" >/dev/null' EXIT

tar -cf - env.sh lint.sh check.sh | trl run -s "$job" -i 'mkdir /tmp/src && cd /tmp/src && tar -xof -'

for step in '. ./env.sh' 'sh lint.sh' 'sh check.sh'; do
	status=0
	output=$(trl run -s "$job" --timeout 60 "$step" 2>&1) || status=$?
	if [ "$status" -ne 0 ]; then
		printf 'failed  %s: exit status %s\n%s\n' "$step" "$status" "$output"
		exit "$status"
	fi
	printf 'ok      %s\n' "$step"
done
