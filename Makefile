# Everything a newcomer or a CI machine types. `make` alone says what there is.

GO   ?= go
ARGS ?=

# The race detector needs a C compiler; on 2 cores more than two test binaries at once only wait for each other.
RACE := $(shell command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)

.DEFAULT_GOAL := help
.PHONY: help build up test test-leader test-net test-upgrade check fuzz bench bench-peers clean postgres

help: ## Say what can be made.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-11s %s\n' "$$name" "$$text"; done

up: build postgres ## Run three brokers on a private PostgreSQL in the foreground; data in .waggle. ARGS="--brokers 5" passes flags on.
	@exec bin/waggle dev $(ARGS)

build: ## Build bin/waggle.
	@$(GO) build -buildvcs=false -o bin/waggle .

# Tests with real processes and real time can fall over a machine's bad second. What fails is run once more, alone; what
# fails twice fails the run, and what failed once is named at the end.
FLAKY := $(or $(TMPDIR),/tmp)/waggle-unsteady-$(shell id -u).txt

test: postgres ## Run all tests, with the race detector where there is a C compiler. They start their own PostgreSQL.
	@$(if $(RACE),,echo '*** LEFT OUT: the race detector, because there is no C compiler (install gcc)' >&2)
	@rm -f $(FLAKY)
	$(GO) tool gotestsum --format pkgname-and-test-fails --rerun-fails=1 --rerun-fails-max-failures=8 --rerun-fails-report=$(FLAKY) \
		--packages=./... -- $(RACE) -p 2 -shuffle=on -timeout 20m
	@if [ -s $(FLAKY) ]; then echo '*** UNSTEADY: failed once and passed alone; a defect of the test or worse, look into it:' >&2; cat $(FLAKY) >&2; fi
	@echo "*** LEFT OUT: 'make test-net', brokers in network namespaces that are cut and healed (root, Linux, 4 minutes)" >&2

test-net: postgres ## Cut, drop and heal the network between real brokers in namespaces. Takes root on Linux, iproute2, iptables and 4 minutes.
	@deploy/can-test-net.sh
	WAGGLE_TEST_NET=1 $(GO) test -count=1 -timeout 15m -v -run '^TestNetwork$$' ./node

test-upgrade: postgres ## Build the releases in deploy/test/releases from this history and roll clusters of them forward and back under load. Takes 3 minutes.
	WAGGLE_TEST_UPGRADE=1 $(GO) tool gotestsum --format standard-verbose --rerun-fails=1 --packages=./node -- -count=1 -timeout 15m -run '^TestUpgrade$$'

# Measured without the race detector: the numbers are promises about the program.
test-leader: postgres ## Measure hand-overs of the leader, 20 of each kind, and two bad minutes for leaders. Wants an idle machine.
	WAGGLE_TEST_LEADER=1 $(GO) test -count=1 -timeout 20m -v -run 'TestHandOverTimes' ./node
	WAGGLE_TEST_LEADER=1 $(GO) test $(RACE) -count=1 -timeout 10m -v -run 'TestLeadersInALongBadTime' ./leader

check: ## Formatting, vet, staticcheck, tidy module file, import directions.
	@unformatted=$$($(GO) tool gofumpt -l .) || exit 1; \
		if [ -n "$$unformatted" ]; then echo "not formatted, run '$(GO) tool gofumpt -w .':"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) test -count=1 -run 'TestImportsPointDownwards|TestTableHasNoCycle|TestPackageNamesSayWhatIsInside|TestOnlyPgHoldsSQL' .

# How long each target is fuzzed, and which packages' targets.
FUZZTIME ?= 30s
IN       ?= ./...

fuzz: ## Fuzz every target for FUZZTIME (30s). IN=./api/... picks packages. What is found stays in testdata/fuzz.
	@GO=$(GO) deploy/fuzz.sh $(FUZZTIME) $(patsubst %/...,%,$(IN))

bench: build postgres ## Measure this machine: pushing and draining. ARGS passes flags on.
	bin/waggle bench push $(ARGS)
	bin/waggle bench drain $(ARGS)

bench-peers: build ## Do the same work with what people would use instead: River, NATS, RabbitMQ, Redis, a table. ARGS passes flags on.
	cd bench/peers && $(GO) run . -waggle ../../bin/waggle $(ARGS)

clean: ## Remove bin/ and the server that tests share. The data of `make up` in .waggle stay.
	rm -rf bin "$${TMPDIR:-/tmp}/waggle-pgtest-$$(id -u)"

postgres:
	@deploy/ensure-postgres.sh
