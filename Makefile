# Relapse: `make help` lists what there is.

INCIDENT ?= account-service
ARM      ?= unfixed
CRASHES  ?= 100
SEED     ?= 0
GO       ?= go
VERSION  := $(shell git describe --tags --always 2>/dev/null || echo unknown)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null)$(shell git diff --quiet HEAD 2>/dev/null || echo -dirty)
# Static, since the same binary runs inside the containers.
BUILD    := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)'
# Programs that setup fetched.
export PATH := $(CURDIR)/bin:$(PATH)
# Tests share one engine and one machine: packages go one after the other.
TEST     := $(GO) test -p 1 -count 1 -timeout 20m

.PHONY: help build replay verify test fast smoke nightly crash race bench bench-platform golden setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/relapse
	@$(BUILD) -o bin/relapse .

replay: build ## replay one incident: make replay INCIDENT=account-service [ARM=unfixed]
	@bin/relapse replay $(INCIDENT) --arm $(ARM)

verify: build ## play every arm of one incident and judge them together
	@bin/relapse verify $(INCIDENT)

test: setup fast smoke ## everything that must pass before a change lands

# Faults that meet processes do so every night: what lands has only so much time.
BY_PROCESSES := ^TestContractByProcesses$$$$

fast: ## vet, and all tests but the plays
	$(GO) vet ./...
	$(TEST) -vet=off -skip '$(BY_PROCESSES)' $$($(GO) list ./... | grep -v /suites$$)

smoke: build ## play healthy and unfixed of every incident, a fix where plays are short; guard the imports
	$(TEST) -timeout 20m ./suites -ginkgo.label-filter=smoke -ginkgo.v

nightly: build setup ## play every arm of every incident; leaves runs/index.html
	$(TEST) ./faults -run '$(BY_PROCESSES)'
	$(TEST) -timeout 5h ./suites -ginkgo.label-filter=nightly -ginkgo.v

# What stops and starts the engine is named by who may do that: it ends all containers.
crash: build ## break CRASHES plays off (100) at random moments: nothing may be left, every record readable [SEED=… ENGINE_STOP=… ENGINE_START=…]
	$(TEST) -timeout 3h ./suites -ginkgo.label-filter=crash -ginkgo.v -crash.count=$(CRASHES) -crash.seed=$(SEED) \
		$(if $(ENGINE_STOP),-crash.engine-stop='$(ENGINE_STOP)' -crash.engine-start='$(ENGINE_START)')

race: setup ## tests under the race detector
	$(GO) test -p 1 -race -timeout 30m ./...

bench: build ## measure: cost of a proxied link, timing of faults, drivers, judging
	$(GO) test -run '^$$' -bench . -benchtime 2s -p 1 ./...

bench-platform: ## measure: players and fake matches a core, from one process to four; on a quiet machine
	$(GO) test -run '^$$' -bench 'PerCore|PerHeartbeat' -benchtime 1x -p 1 ./topologies/services/simulants ./topologies/services/platform

golden: ## rewrite golden files after a change that is meant
	$(GO) test . ./topologies ./faults ./replays ./reports -update

setup: ## install what the tests need (Debian and Ubuntu, as root or with sudo)
	@.ci/setup

clean: build ## remove what runs left on the engine, and what was built
	@bin/relapse clean
	rm -rf bin
