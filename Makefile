# What people run; `make help` lists it. CI runs .ci/run, which does all of it on a
# fresh machine.

FUNCTIONS := enqueue deliver healthcheck
# arm64 is cheaper on Lambda; GOARCH=amd64 for x86_64.
GOARCH ?= arm64
# lambda.norpc leaves out the protocol of the go1.x runtime. No cgo: the
# functions' runtime has another C library than the machine that builds them.
GOBUILD := CGO_ENABLED=0 GOOS=linux go build -tags lambda.norpc -trimpath -ldflags="-s -w"

.PHONY: help build $(FUNCTIONS) build-EnqueueFunction build-DeliverFunction build-HealthCheckFunction \
	fedpost package profile transform module demo test test-long race measure cost simulate simulate-mutants mutants page-shots lint ci nightly localstack test-localstack localstack-down clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z -]*:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(FUNCTIONS) ## the three functions for GOARCH (arm64 by default), in dist/

$(FUNCTIONS):
	GOARCH=$(GOARCH) $(GOBUILD) -o dist/$(GOARCH)/$@/bootstrap ./functions/$@

# `sam build` calls these targets and names the output folder in ARTIFACTS_DIR. It does
# not name the architecture, so the recipe reads the command line of `sam build`: x86-64
# if the command line sets the parameter Architecture to x86_64.
SAM_ARGS = $(shell ps -o args= -p $$(ps -o ppid= -p $$PPID))
SAM_GOARCH = $(if $(and $(findstring Architecture,$(SAM_ARGS)),$(findstring x86_64,$(SAM_ARGS))),amd64,$(GOARCH))
build-EnqueueFunction:
	GOARCH=$(SAM_GOARCH) $(GOBUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/enqueue
build-DeliverFunction:
	GOARCH=$(SAM_GOARCH) $(GOBUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/deliver
build-HealthCheckFunction:
	GOARCH=$(SAM_GOARCH) $(GOBUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/healthcheck

# The template's tests read the template as CloudFormation gets it, after SAM's
# transform. The Python with the transform comes with the SAM command line; `.ci/run
# template` installs one.
SAM_PYTHON ?= .tools/linters/bin/python
transform: ## template.yaml as CloudFormation gets it, for the tests, after each change to it
	$(SAM_PYTHON) deploy/transform.py >internal/testkit/template/testdata/transformed.json

fedpost: ## the command line, in bin/
	CGO_ENABLED=0 go build -trimpath -o bin/fedpost ./cmd/fedpost

# The packages are named after the version that `fedpost version` tells.
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
VERSION = $(shell cat cmd/fedpost/VERSION)
DIST := dist/package
# Where a page of DOCUMENTS points to is in the package as well, and at the same place.
DOCUMENTS := README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs client clients/README.md clients/*/README.md \
	bench/README.md bench/budget.json bench/peers/bullmq.mjs deploy/compose deploy/grafana template.yaml
package: ## fedpost for linux amd64 and arm64, a .deb of each, and a static program of each, in dist/package
	rm -rf $(DIST)
	mkdir -p $(DIST)/completions $(DIST)/doc
	tar -cf - --exclude='*_test.go' --exclude=node_modules --exclude=secrets $(DOCUMENTS) | tar -xf - -C $(DIST)/doc
	go build -o $(DIST)/here ./cmd/fedpost
	$(DIST)/here man | gzip -9n >$(DIST)/fedpost.1.gz
	for shell in bash zsh fish; do $(DIST)/here completion $$shell >$(DIST)/completions/$$shell || exit 1; done
	rm $(DIST)/here
	for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -ldflags="-s -w" -o $(DIST)/$$arch/fedpost ./cmd/fedpost && \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -tags static -trimpath -ldflags="-s -w" -o $(DIST)/$$arch/static/fedpost ./cmd/fedpost && \
		ARCH=$$arch VERSION=$(VERSION) DIST=$(DIST) go run $(NFPM) package -f deploy/package/nfpm.yaml -p deb -t $(DIST)/ || exit 1; \
	done

module: ## another path for the Go module, everywhere, for who publishes it: PATH=example.org/fedpost
	@deploy/module.sh '$(PATH)'

demo: ## fedpost at work, on this machine
	@echo "Go downloads and compiles fedpost; the first time this takes some minutes."
	@go run ./cmd/fedpost demo --keep

test: ## the tests to run after each change, on the embedded engine
	go test ./...

test-long: ## all tests in full: whole sweeps, weeks of time, built functions, kills, soaks
	FEDPOST_LONG=1 go test -timeout 30m ./...

race: ## the race detector over the packages that start goroutines
	.ci/run race

measure: ## what a batch of 500 inboxes over TLS takes and costs at five sizes of the deliver function
	go test ./functions -count=1 -v -run 'TestMeasureSizes$$' -measure

ACTIVITIES ?= 1000
RECIPIENTS ?= 300
SLOW ?= 0.1
DEAD ?= 0.02
MEMORY ?= 512
cost: ## what a month costs: ACTIVITIES=1000 a day RECIPIENTS=300 each, SLOW=0.1 DEAD=0.02 of them, MEMORY=512
	go test ./internal/testkit/cost -count=1 -v -run 'TestBill$$' -cost.activities $(ACTIVITIES) -cost.recipients $(RECIPIENTS) \
		-cost.slow $(SLOW) -cost.dead $(DEAD) -cost.memory $(MEMORY)

SEEDS ?= 1000
FROM ?= 0
simulate: ## weeks of trouble, seed by seed: SEEDS=100000 for all night, FROM=n to begin with one
	go test ./internal/testkit/simulation -count=1 -timeout 0 -v -run 'TestSimulate$$' -simulate.seeds $(SEEDS) -simulate.from $(FROM)

simulate-mutants: ## brings mended defects back, one at a time: the simulation has to find each
	internal/testkit/simulation/testdata/mutants.sh

mutants: ## brings small defects in, one at a time, and says which test finds each; FEDPOST_LONG=1 with the long tests
	internal/testkit/mutants/mutants.sh

page-shots: ## the operator's page in a browser, with pictures of every page in bin/shots
	FEDPOST_SHOTS=$(CURDIR)/bin/shots .ci/run page

PROFILE ?= bin/cpu.pprof
MIX ?= single
profile: fedpost ## where processor time goes, for MIX=single, fanout, ordered or keyed
	bin/fedpost bench --mix $(MIX) --key ed25519 --cpu-profile $(PROFILE)
	go tool pprof -top -cum -nodecount 60 bin/fedpost $(PROFILE)

lint: ## golangci-lint, actionlint, govulncheck, cfn-lint, shellcheck, codespell
	.ci/run lint

ci: ## everything that CI does
	.ci/run

nightly: ## what looks for the unknown, for hours: SEEDS_FOR=1h of new seeds
	.ci/nightly

localstack: ## the whole stack on LocalStack, in Docker
	localstack/docker-up.sh

test-localstack: ## the suites of the AWS engine against that stack
	localstack/docker-test.sh

localstack-down: ## stop that stack
	localstack/docker-down.sh

clean: ## remove what was built
	rm -rf bin dist .aws-sam
