#!/bin/sh
# build.sh PLACE [OPTION...] builds hello.c in a place, such as ssh:me@build.example.
set -eu
compile='cc -O2 -Wall -o hello hello.c'

machine=$(trl new --on "$@")
trap 'trl kill "$machine" >/dev/null' EXIT
dir=$(trl run -s "$machine" 'mktemp -d')
trap 'trl run -s "$machine" "rm -rf $dir"; trl kill "$machine" >/dev/null' EXIT

# The session keeps its directory for the next commands.
trl run -s "$machine" "cd $dir"
tar -cf - hello.c | trl run -s "$machine" -i 'tar -xof -'
echo "$compile"
trl run -s "$machine" --timeout 600 "$compile"

# Output is exact, so a program can be copied through it.
trl run -s "$machine" 'cat hello' >hello
chmod +x hello
there=$(trl run -s "$machine" 'cksum hello')
[ "$there" = "$(cksum hello)" ]
echo "built hello: $(wc -c <hello | tr -d ' ') bytes, the same on both machines"
