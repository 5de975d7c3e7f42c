echo "expected 4, got $((10 / 2))" >&2
exit 2
