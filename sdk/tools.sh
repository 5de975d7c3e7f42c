# What builds and tests the SDKs; sourced at the top of the repository.

# npm_install DIRECTORY installs what its lock file says, if that changed.
npm_install() {
	[ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ] ||
		(cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline)
}

# python_install makes build/python, with what requirements-dev.txt says.
python_install() {
	[ build/python/ready -nt sdk/python/requirements-dev.txt ] && return
	python3 -m venv build/python
	build/python/bin/pip install -q --disable-pip-version-check -r sdk/python/requirements-dev.txt
	touch build/python/ready
}

# commands PAGE HEADING prints the commands of the last sh block below a heading of a page.
commands() {
	awk -v heading="$2" '
		/^```$/ { block = 0 }
		block { text = text $0 "\n" }
		/^#/ && !block { here = $0 == heading }
		here && /^```sh$/ { block = 1; text = "" }
		END { if (text == "") exit 1; printf "%s", text }' "$1"
}
