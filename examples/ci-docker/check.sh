[ "$GREETING" = 'hello, CI' ] || {
	echo "expected \"hello, CI\", got \"$GREETING\"" >&2
	exit 3
}
