# What people run. CI runs .ci/run, which does all of it on a fresh machine.

FUNCTIONS := enqueue deliver healthcheck
# arm64 is cheaper on Lambda; GOARCH=amd64 for x86_64.
GOARCH ?= arm64
# lambda.norpc leaves out the protocol of the go1.x runtime. No cgo: the
# functions' runtime has another C library than the machine that builds them.
GOBUILD := CGO_ENABLED=0 GOOS=linux go build -tags lambda.norpc -trimpath -ldflags="-s -w"

.PHONY: help build $(FUNCTIONS) build-EnqueueFunction build-DeliverFunction build-HealthCheckFunction \
	fedpost demo test race lint ci localstack test-localstack localstack-down clean

help:
	@echo "build            the three functions for GOARCH=$(GOARCH), in dist/"
	@echo "fedpost          the command line, in bin/"
	@echo "demo             fedpost at work, on this machine"
	@echo "test, race       all tests on the embedded engine"
	@echo "lint             vet, staticcheck, govulncheck, cfn-lint"
	@echo "ci               everything that CI does"
	@echo "localstack       the whole stack on LocalStack, in Docker"
	@echo "test-localstack  the end-to-end suite against it"
	@echo "localstack-down  stop it"

build: $(FUNCTIONS)

$(FUNCTIONS):
	GOARCH=$(GOARCH) $(GOBUILD) -o dist/$(GOARCH)/$@/bootstrap ./functions/$@

# What `sam build` calls; it says where to.
build-EnqueueFunction:
	GOARCH=$(GOARCH) $(GOBUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/enqueue
build-DeliverFunction:
	GOARCH=$(GOARCH) $(GOBUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/deliver
build-HealthCheckFunction:
	GOARCH=$(GOARCH) $(GOBUILD) -o "$(ARTIFACTS_DIR)/bootstrap" ./functions/healthcheck

fedpost:
	CGO_ENABLED=0 go build -trimpath -o bin/fedpost ./cmd/fedpost

demo:
	go run ./cmd/fedpost demo

test:
	go test ./...

race:
	go test -race -short -timeout 30m ./...

lint:
	.ci/run lint

ci:
	.ci/run

localstack:
	localstack/docker-up.sh

test-localstack:
	localstack/docker-test.sh

localstack-down:
	localstack/docker-down.sh

clean:
	rm -rf bin dist .aws-sam
