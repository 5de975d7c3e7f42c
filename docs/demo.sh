# What the picture in the README shows. To make it again:
#
#   trl record --cols 88 --rows 22 -o demo.cast -- bash docs/demo.sh
#   trl export demo.cast -o docs/demo.svg

show() {
	printf '\033[1;32m$\033[0m \033[1m%s\033[0m\n' "$1"
	eval "$1"
}

show "trl run -s build 'cd /tmp; export CC=clang'       # a session keeps its shell"
show "trl run -s build 'echo \"\$CC in \$PWD\"; exit 3'; echo \"status \$?\""
show "trl run --timeout 0.5 'echo before; setsid sleep 99 & sleep 99'; echo \"status \$?\""
show "job=\$(trl start -s build 'seq 3')                 # in the background"
show "trl wait \$job | cut -f 2,3; trl logs \$job | tail -n 1"
show "trl new -t -d py -- python3 -q >/dev/null         # a terminal"
show "trl wait py --text '^>>>' | cut -f 2,3; trl send py '6 * 7' enter"
show "trl wait py --text '^42\$' | cut -f 2,3"
show "trl kill build py"
