# `make` lists the targets. Everything here works offline once the modules are downloaded.

# The nearest tag; without one the commit; without git what internal/version says.
VERSION   := $(patsubst v%,%,$(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null))
COMMIT    := $(shell git describe --always --exclude '*' --dirty 2>/dev/null)
VERSION   := $(or $(VERSION),$(shell sed -n 's/^var Version = "\(.*\)"/\1/p' internal/version/version.go)$(COMMIT:%=-dev+%))
PREFIX    ?= /usr/local
FUZZTIME  ?= 30s
TESTFLAGS ?= -race -p 2 -timeout 20m
PKG       ?= ./...
# The tests that also run without a subreaper or cgroups; they take less than a minute.
SCANNED   := TestCases/^(bash|sh)$$/^own-(left|cancel|to-(setsid|nohup|fork|respawn|ignore|dead|double))|^Test(Daemon|Runner|Both)Killed$$

STAMP     := -X github.com/trl-dev/trl/internal/version.Version=$(VERSION)
# -s -w removes what debuggers read, so the compiler need not make it: an eighth of its time.
# The compiler collects garbage less often, which saves a tenth of the time of a first build.
GOBUILD   := CGO_ENABLED=0 GOGC=400 go build -buildvcs=false -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w $(STAMP)"

GOFMT_CHECK := unformatted=$$(gofmt -l api client cmd examples internal tests tools) && [ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w: $$unformatted" >&2; exit 1; }

# The programs inside bin/trl. Runners are copied to where sessions live, hence the limit, which has
# room for isolation and the proxy: both must be where the session lives. This machine
# and its containers need the first two, which are the same on Linux; EMBED=all is for places of other
# platforms and for Kubernetes, and takes three times as long to build.
EMBED     ?= host
PLATFORM  := $(shell go env GOOS)-$(shell go env GOARCH)
EMBED_host := $(PLATFORM:%=trl-runner-%) trl-runner-linux-$(shell go env GOARCH)
EMBED_all := trl-runner-linux-amd64 trl-runner-linux-arm64 trl-runner-darwin-arm64 trl-runner-darwin-amd64 trl-kube-$(PLATFORM)
EMBED_DIR := internal/runtimes/runners
EMBEDDED  := $(patsubst %,$(EMBED_DIR)/%.gz,$(sort $(or $(EMBED_$(EMBED)),$(error EMBED is host or all))))
MAX_RUNNER_BYTES := 5242880
# What bin/trl consists of and does not embed the runner: compiled together with the runner of this
# machine, it keeps all processors busy.
BESIDE    := $(addprefix ./internal/,cli/attach cli/chat docs mcp runtimes/trl server service trace) github.com/moby/moby/client

.DEFAULT_GOAL := help
.PHONY: help build quick test check lint generate sdk web web-test web-shots web-bench bench compare fuzz install release clean FORCE
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(EMBEDDED) ## bin/trl (static) and bin/trl-runner; EMBED=all for places of other platforms and Kubernetes
	@rm -f $(filter-out $^,$(wildcard $(EMBED_DIR)/*.gz))
	$(GOBUILD) -tags embed_runners,grpcnotrace -o build/trl ./cmd/trl
	@# A copy, as every installed trl is one: Linux caches the file that the linker writes in small
	@# pieces, and each start from that takes 1.7 ms more.
	@mkdir -p bin && install -m 755 build/trl bin/trl
	@cp build/trl-runner-$(PLATFORM) bin/trl-runner

# The parts of a name such as trl-runner-linux-amd64.
PROGRAM    = trl-$(word 2,$(subst -, ,$*))
OS         = $(word 3,$(subst -, ,$*))
ARCH       = $(word 4,$(subst -, ,$*))

# Always asks the go command, which knows best whether anything changed. The
# archive is replaced only when its content differs, so bin/trl is not relinked for nothing.
$(EMBED_DIR)/%.gz: FORCE
	@mkdir -p $(EMBED_DIR) build
	GOOS=$(OS) GOARCH=$(ARCH) $(GOBUILD) -tags grpcnotrace -o build/$(OS)-$(ARCH)/ ./cmd/$(PROGRAM) $(if $(filter $(PLATFORM),$(OS)-$(ARCH)),$(BESIDE))
	@ln -f build/$(OS)-$(ARCH)/$(PROGRAM) build/$*
	@# -9 takes three times as long for 0.7 % less; releases use it.
	@gzip -6nc build/$* >build/$*.gz
	@cmp -s build/$*.gz $@ || cp build/$*.gz $@

quick: build ## for daily work: vet, and the short tests of api, client and internal, without the race detector
	@$(GOFMT_CHECK)
	go vet ./api/... ./client/... ./cmd/... ./internal/...
	@# Not those that need an engine, a cluster or an sshd.
	go test -short -p 2 $$(go list ./api/... ./client/... ./internal/... | grep -Ev '/runtimes/(docker|kubernetes|ssh)(/|$$)')

test: build ## all tests with the race detector (PKG=./internal/shell for one package)
	go test $(TESTFLAGS) $(PKG)

check: ## what CI runs: installs what the tests drive, then lint, runner size, tests, SDKs, the console, some runs of each fuzz target
	tests/setup.sh
	@$(MAKE) --no-print-directory lint
	@for f in bin/trl-runner build/trl-runner-*[!z]; do \
		n=$$(wc -c <$$f); echo "$$f: $$n bytes"; \
		[ $$n -lt $(MAX_RUNNER_BYTES) ] || { echo "$$f: a runner must be smaller than $(MAX_RUNNER_BYTES) bytes" >&2; exit 1; }; \
	done
	@# lint has vetted all of it. The long packages, those below tests, begin first.
	go test $(TESTFLAGS) -vet=off ./tests/... ./...
	@# As on macOS, without a subreaper or cgroups: the kill cases, and killed daemons and runners.
	TRL_TEST_SCAN=1 go test $(TESTFLAGS) -vet=off ./tests/cases ./tests/soak -run '$(SCANNED)'
	go -C tools test ./...
	@# Both at once, because both wait often. Make 3.81 cannot keep their lines apart.
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) sdk web-test
	@# A count, not a time: at the end of a time go test fails now and then for no reason.
	@$(MAKE) --no-print-directory fuzz FUZZTIME=3000x
	@echo "check: all passed"

lint: ## gofmt, vet, staticcheck, tidy modules; vet and build for macOS
	@# A linker uses one core.
	@$(MAKE) --no-print-directory -j2 build EMBED=all
	@$(GOFMT_CHECK)
	go vet ./...
	GOOS=darwin go vet ./...
	@mkdir -p build
	for arch in arm64 amd64; do \
		CGO_ENABLED=0 GOOS=darwin GOARCH=$$arch go build -buildvcs=false -tags embed_runners -o build/trl-darwin-$$arch ./cmd/trl || exit 1; \
	done
	go tool staticcheck ./...
	go mod tidy -diff
	cd tools && go vet ./... && go mod tidy -diff

generate: ## what follows from api/: docs/api.md, OpenAPI, JSON Schema, help, types and options of the SDKs; the synchronous Python client
	go run ./internal/gen

sdk: build ## the SDKs in TypeScript and Python, and MCP with its TypeScript client, tested with bin/trl
	sdk/test.sh

web: ## the built files of the console, web/dist; needs Node
	cd web && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline && npm run build

web-test: build ## the console in Chromium, with bin/trl; web/dist compared with what its sources build
	web/test.sh

web-shots: build ## pictures of every page of the console, light and dark, desktop and phone, into web/shots
	node web/test/shots.mjs

web-bench: build ## the console beside its floors: list, typing, flood, transcript
	node web/test/bench.mjs

bench: build ## latency, throughput and memory beside their floors; writes bench.json
	go run ./tests/bench -o bench.json

compare: build ## TRL beside tmux, docker exec, ssh and others; writes the tables of docs/comparison.md; needs Linux
	go run ./tests/compare -doc docs/comparison.md

fuzz: ## every fuzz target for FUZZTIME (30s, or 3000x for a count) each
	@# go test would link the tests of a package once for each of its targets.
	@mkdir -p build; root=$$PWD; cache=$$(go env GOCACHE)/fuzz/trl; built=; \
	grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' api client internal tests | \
	sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | LC_ALL=C sort | \
	while read -r dir name; do \
		if [ "$$built" != "$$dir" ]; then go test -c -fuzz . -o build/fuzz.test "./$$dir" || exit 1; built=$$dir; fi; \
		echo "fuzz ./$$dir $$name $(FUZZTIME)"; \
		(cd "$$dir" && "$$root/build/fuzz.test" -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime $(FUZZTIME) \
			-test.fuzzminimizetime 10x -test.fuzzcachedir "$$cache/$$dir") || exit 1; \
	done

install: build ## bin/trl into $(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 bin/trl $(DESTDIR)$(PREFIX)/bin/trl

release: ## build/release: archives, deb, rpm, images, SDKs, formula, SBOM, install script, checksums; reproducible
	go -C tools run ./release -root .. -out ../build/release -version '$(VERSION)'

clean: ## remove what was built
	rm -rf bin build bench.json $(EMBED_DIR)/*.gz
