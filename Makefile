# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BINARY := target/release/spanwise
CARGO := cargo
# Tests share the program's compiled dependencies, which are most of a build. Our own code is built
# for them with assertions and overflow checks.
CHECKED := CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
           CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test dev lint bench setup web build package java-helper plugin-example unit e2e browser walkthroughs attack clients surfaces openapi tempo prometheus matrix grammar fuzz test-properties test-kill test-native test-restarts test-kernels test-cluster test-lttng demo-native test-jvm petclinic soak-jvm \
        bench-capture bench-spans bench-assemble bench-assembly bench-decode bench-tags bench-red bench-query bench-causes bench-store bench-store-grow bench-browse bench-native bench-nginx bench-soak bench-analysis bench-chains bench-web \
        bench-accuracy bench-end-to-end clean bench-overhead bench-jvm

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 18

# ---- prerequisites of the build --------------------------------------------------

setup: ## Install what building and testing need (Debian packages)
	@scripts/setup.sh

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

# A stamp instead of web/dist/index.html, because the crate's build creates that file as a
# placeholder if the UI has not been built.
UI := web/node_modules/.ui-built
$(UI): web/node_modules/.package-lock.json $(shell find web/src web/index.html web/vite.config.ts web/public -type f 2>/dev/null)
	cd web && npm run build
	@touch $@

web: $(UI) ## Build the UI

# Maven does not update the time of an unchanged jar, so it is touched.
HELPER := target/java-helper/spanwise-java-helper.jar
$(HELPER): agents/jvm/pom.xml $(shell find agents/jvm/src -type f)
	mvn -q -B -f agents/jvm/pom.xml package
	@touch $@

java-helper: setup $(HELPER) ## Build the helper for Java, which the program takes in

# Brokers that the tests of the JVM agent start.
target/jvm-servers/%/stamp:
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@
target/jvm-servers/kafka/stamp: tests/matrix/kafka/pom.xml
target/jvm-servers/rocketmq/stamp: tests/jvm/rocketmq/pom.xml
JVM_SERVERS := target/jvm-servers/kafka/stamp target/jvm-servers/rocketmq/stamp
JVM_QUEUES := KafkaTest,RabbitTest,RocketTest,RedisTest,JobsTest,LogsTest

test-jvm: setup $(HELPER) $(JVM_SERVERS) ## Run the JVM agent with real libraries and servers, and with Spanwise if SPANWISE is a program
	@SPANWISE_SETUP=jvm scripts/setup.sh
	SPANWISE=$(if $(SPANWISE),$(abspath $(SPANWISE))) mvn -q -B -f tests/jvm/pom.xml test
	mvn -q -B -f tests/jvm/pom.xml test -Poldest -Dtest=ClientsTest,$(JVM_QUEUES)

# An hour: make soak-jvm SOAK_SECONDS=3600. Briefly: SOAK_SECONDS=120 SOAK_ROUNDS=20
SOAK_SECONDS ?= 900
SOAK_ROUNDS ?= 100
soak-jvm: setup $(HELPER) ## The JVM agent attached and detached 100 times under load: no failed request, nothing left behind
	@SPANWISE_SETUP=jvm scripts/setup.sh
	mvn -q -B -f tests/jvm/pom.xml test -Dtest=SoakTest -Dsoak.seconds=$(SOAK_SECONDS) -Dsoak.rounds=$(SOAK_ROUNDS)

petclinic: build ## Spring Petclinic's microservices under the JVM agent (PETCLINIC=checkout of spring-petclinic-microservices)
	@SPANWISE_SETUP=jvm scripts/setup.sh
	@test -n '$(PETCLINIC)' || { echo 'PETCLINIC is missing: name a checkout of github.com/spring-petclinic/spring-petclinic-microservices' >&2; exit 1; }
	python3 tests/jvm/petclinic/petclinic.py --spanwise $(BINARY) $(PETCLINIC)

BUILD_PROGRAM := $(CARGO) build --release --locked -p spanwise
build: setup web $(HELPER) ## Build the program
	$(BUILD_PROGRAM)

# A smaller program, at the price of a longer build. The linker merges identical functions and packs
# relocations, which requires glibc 2.36 or newer on the target.
PACKAGED := target/dist/spanwise
package: setup web $(HELPER) ## Build the program for others: small, stripped, target/dist/spanwise
	RUSTFLAGS="-Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--icf=all,-z,pack-relative-relocs" \
	    $(CARGO) build --profile dist --locked -p spanwise
	@echo "figure program.stripped_mb $$(stat -c %s $(PACKAGED) | awk '{printf "%.1f", $$1 / 1e6}') MB"

PLUGIN := target/stash.wasm
plugin-example: setup ## Build the example of a plugin for the agent
	examples/plugin/build.sh examples/plugin/stash.c $(PLUGIN)
	@echo "built $(PLUGIN); docs/plugins.md says how to try it"

# ---- for people ------------------------------------------------------------

demo: build ## Run the shop under the tracer; Ctrl-C stops everything
	@python3 demo/shop.py install
	@python3 demo/demo.py --spanwise $(BINARY)

demo-native: build ## ZeroMQ client, proxy and server in C, traced by the library: replayed, and live with the kernel side
	@SPANWISE_SETUP=native scripts/setup.sh
	python3 demo/native/demo.py --spanwise $(BINARY)

dev: setup web/node_modules/.package-lock.json ## Server and UI with reload: UI at 5173, API at 7070
	@trap 'kill 0' EXIT; (cd web && npm run dev) & $(CARGO) run -p spanwise -- up --data target/dev-data

lint: setup web/node_modules/.package-lock.json ## Formatting and lints; warnings are errors
	$(CARGO) fmt --all --check
	$(CHECKED) $(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings
	$(CHECKED) RUSTDOCFLAGS="-D rustdoc::broken_intra_doc_links" $(CARGO) doc --release --workspace --no-deps --locked
	cd web && npm run lint
	@# A workspace of its own, as fuzzing builds with other flags.
	cd fuzz && $(CARGO) fmt --check && $(CARGO) clippy --all-targets --locked -- -D warnings

# ---- tests -----------------------------------------------------------------

# Unit tests leave the program behind, built with assertions and overflow checks. The runs after
# them take it as it is: the optimised build would be ten minutes more.
test: unit ## Everything that must hold
	$(MAKE) e2e browser BUILD_PROGRAM='test -x $(BINARY)'

# Property tests use the same cases every time; `make test-properties` uses random ones.
unit: export PROPTEST_RNG_SEED := 20261122
unit: setup web $(HELPER) ## Unit, property, contract and recorded-stream tests
	$(CHECKED) $(CARGO) test --release --workspace --locked
	cd web && npm test
	$(MAKE) -C agents/native test BUILD=$(CURDIR)/target/native
	python3 tests/e2e/compare_test.py
	python3 tests/matrix/judge_test.py
	python3 bench/accuracy/score_test.py
	python3 bench/accuracy/replay_test.py
	python3 bench/overhead/overhead_test.py

e2e: build ## The shop under the tracer against its own ground truth; bad input; two hosts
	python3 demo/shop.py install
	python3 tests/e2e/e2e.py --spanwise $(BINARY)
	python3 tests/e2e/badinput.py --spanwise $(BINARY)
	python3 tests/e2e/hosts.py --spanwise $(BINARY)
	python3 tests/e2e/journey.py --spanwise $(BINARY)

PROPERTY_ROUNDS ?= 20
test-properties: setup ## Property tests with other random cases in every round: PROPERTY_ROUNDS=20
	@for round in $$(seq $(PROPERTY_ROUNDS)); do \
	    export PROPTEST_RNG_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
	    echo "round $$round: PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED"; \
	    $(CHECKED) $(CARGO) test -q --release --locked -p spanwise-assemble -p spanwise-capture-protocols \
	        -p spanwise-capture-attribution -p spanwise-capture-tracer \
	        -p spanwise-store -p spanwise-wire -p spanwise-ctf --lib --test traces --test hostile --test datagrams --test messaging \
	        --test http2 --test plugins --test otlp --test otap --test jaeger --test zipkin \
	        --test flight || exit 1; \
	done

test-kill: setup ## The store killed with -9 a hundred times under load
	SPANWISE_TEST_KILLS=100 $(CHECKED) $(CARGO) test --release --workspace --locked --test store kill::whatever -- --nocapture

test-native: setup ## The library for native programs under both sanitizers, and killed a thousand times
	@SPANWISE_SETUP=native scripts/setup.sh
	$(MAKE) -C agents/native test sanitize installed BUILD=$(CURDIR)/target/native
	SPANWISE_TEST_KILLS=1000 $(CHECKED) $(CARGO) test --release --locked -p spanwise-native

test-lttng: build ## Traces of a real LTTng, read by babeltrace2 and by us, and the library's events in them
	@SPANWISE_SETUP=lttng scripts/setup.sh
	$(CHECKED) $(CARGO) build --release --locked -p spanwise-ctf --example events
	python3 tests/lttng/lttng.py --reader target/release/examples/events --spanwise $(BINARY)

test-restarts: setup ## Programs under TLS probes through a thousand restarts of the agent
	SPANWISE_TEST_RESTARTS=1000 $(CHECKED) $(CARGO) test --release --workspace --locked --test restarts -- --nocapture

test-kernels: build ## The agent on kernels of Debian's, each in a virtual machine (x86-64)
	@SPANWISE_SETUP=kernels scripts/setup.sh
	$(CHECKED) python3 tests/kernels/kernels.py --spanwise $(BINARY)

test-cluster: ## The ClickHouse store on a cluster of two shards and two replicas (x86-64)
	@SPANWISE_SETUP=cluster scripts/setup.sh
	$(CHECKED) $(CARGO) test --release --workspace --locked --test store -- --ignored cluster

browser: build ## The UI in headless Chromium against the running shop
	python3 demo/shop.py install
	python3 tests/e2e/browser.py --spanwise $(BINARY)

walkthroughs: build ## Breaks the shop, finds each cause in the UI, and makes the pictures of docs/walkthroughs (root)
	@SPANWISE_SETUP=faults scripts/setup.sh
	python3 demo/shop.py install
	python3 tests/e2e/walkthroughs.py --spanwise $(BINARY)

attack: build ## The server attacked from its network side, in a network of its own, and what held
	python3 tests/attack/attack.py --spanwise $(BINARY)

clients: build ## Spans by the ecosystem's own clients, in four languages, and the trees they make
	python3 tests/clients/clients.py --spanwise $(BINARY)

surfaces: build ## A real Jaeger on our storage, Zipkin's own UI on our API, and an assistant's client: tests/surfaces/out
	python3 tests/surfaces/surfaces.py --spanwise $(BINARY)

openapi: build ## Schemathesis on our API and its OpenAPI document
	python3 tests/surfaces/openapi.py --spanwise $(BINARY)

tempo: build ## Tempo's API by Perses' client, by Grafana's requests and by gRPC
	python3 tests/tempo/tempo.py --spanwise $(BINARY)

prometheus: build ## A real Prometheus on our metrics of spans, with Grafana's questions, against the SQL
	@SPANWISE_SETUP=prometheus scripts/setup.sh
	python3 tests/prometheus/prometheus.py --spanwise $(BINARY)

matrix: build ## Every protocol's real servers and clients under the agent: docs/protocol-matrix.md
	python3 tests/matrix/matrix.py --install
	python3 tests/matrix/matrix.py --spanwise $(BINARY) --write docs/protocol-matrix.md

grammar: ## TraceQL as we take it against a grammar that is not ours
	cd dialects/traceql/tests/grammar && npm ci --no-audit --no-fund && npm test

# Ten CPU-minutes each: make fuzz FUZZ_SECONDS=600
FUZZ_SECONDS ?= 60
fuzz: setup ## Every parser of outside bytes against inputs made to break it
	fuzz/run.sh $(FUZZ_SECONDS)

# ---- benchmarks ------------------------------------------------------------

bench: bench-capture bench-assemble bench-decode ## Every benchmark of moderate length

bench-capture: setup ## Nanoseconds added to each socket call
	$(CARGO) build --release --locked -p spanwise-bench-capture
	target/release/spanwise-bench-capture

bench-spans: setup ## Nanoseconds that the agent takes to make a span of a request
	$(CARGO) build --release --locked -p spanwise-bench-capture
	target/release/spanwise-bench-capture --spans $(BENCH_SPANS)

bench-jvm: build ## What the JVM agent costs a span, a start and a request (half an hour; BENCH_JVM=--quick to see that it runs)
	$(CARGO) build --release --locked -p spanwise-bench-requests
	mvn -q -B -f bench/jvm/pom.xml compile
	bench/jvm/run.sh $(abspath $(BINARY)) $(abspath $(REQUESTS)) $(BENCH_JVM)

bench-assemble: setup ## Nanoseconds that assembly costs each span, and large traces
	$(CARGO) bench --locked -p spanwise-assemble --bench window --bench trace

bench-assembly: build ## Streaming assembly's CPU, and a trace by any of 10 million spans
	$(CARGO) bench --locked -p spanwise-assemble --bench window
	$(CARGO) build --release --locked -p spanwise-bench-store
	target/release/spanwise-bench-store --spanwise $(BINARY) --no-floor --large 0 $(BENCH_ASSEMBLY)

STORE_RESULTS = bench/results/$(shell date +%F)-store
bench-store: build ## CPU, bytes, memory and answer times of the store with 10 million spans
	$(CARGO) build --release --locked -p spanwise-bench-store
	set -o pipefail; target/release/spanwise-bench-store --spanwise $(BINARY) $(BENCH_STORE) | tee $(STORE_RESULTS).txt
	set -o pipefail; target/release/spanwise-bench-store --spanwise $(BINARY) --profile pods $(BENCH_STORE) | tee $(STORE_RESULTS)-pods.txt

QUERY_RESULTS = bench/results/$(shell date +%F)-query
bench-query: build ## Answer times of the query APIs of other tools, with 10 million spans
	$(CARGO) build --release --locked -p spanwise-bench-store
	set -o pipefail; target/release/spanwise-bench-store --spanwise $(BINARY) --dialects $(BENCH_QUERY) | tee $(QUERY_RESULTS).txt
	set -o pipefail; target/release/spanwise-bench-store --red | tee -a $(QUERY_RESULTS).txt

bench-web: build ## How fast the UI opens, scrolls and searches in headless Chromium
	$(CARGO) build --release --locked -p spanwise-bench-load
	python3 bench/web/bench.py --spanwise $(BINARY)

bench-browse: build ## Memory of a server that takes few spans, after an hour of somebody's browsing (in six minutes)
	$(CARGO) build --release --locked -p spanwise-bench-store
	target/release/spanwise-bench-store --spanwise $(BINARY) --browse --profile pods $(BENCH_BROWSE)

CHDB := target/bench-tags
bench-tags: build ## CPU, memory and disk of a hundred labels on every span; the same in ClickHouse
	$(CARGO) build --release --locked -p spanwise-bench-store
	target/release/spanwise-bench-store --spanwise $(BINARY) --tags --spans 2000000 $(BENCH_TAGS)
	test -e $(CHDB)/ready || { python3 -m venv $(CHDB) && $(CHDB)/bin/python3 -m pip install --quiet \
	    --disable-pip-version-check --no-deps --require-hashes --requirement store/tests/clickhouse/requirements.txt \
	    && touch $(CHDB)/ready; }
	$(CHDB)/bin/python3 bench/tags/clickhouse.py $(BENCH_TAGS_CLICKHOUSE)

bench-decode: setup ## OTLP to Arrow columns, beside prost alone
	$(CARGO) build --release --locked -p spanwise-bench-store
	target/release/spanwise-bench-store --decode

bench-red: setup ## What counting spans for Prometheus adds to taking them in
	$(CARGO) build --release --locked -p spanwise-bench-store
	target/release/spanwise-bench-store --red

BENCH_NATIVE_SECONDS ?= 60
bench-native: setup ## What a span costs a native program, a flood of a minute, and its replay (16 bytes of disk a span: up to 12 GB)
	python3 agents/native/bench/native.py --seconds $(BENCH_NATIVE_SECONDS)

bench-causes: setup ## Root causes of published faults: DAYS='directory …' (bench/faults says what is read)
	$(CARGO) run --release --locked -p spanwise-bench-faults -- $(DAYS)

# FAULTS is a directory with the recordings of Nezha's authors, a directory for each day.
FAULT_BENCH := target/release/spanwise-bench-faults
bench-chains: setup ## Chains, dependencies and capacity against simulated truth: 4 to 34,000 services (FAULTS=… adds causes)
	$(CARGO) build --release --locked -p spanwise-bench-analysis -p spanwise-bench-faults
	target/release/spanwise-bench-analysis $(BENCH_ANALYSIS)
	test -z '$(FAULTS)' || $(FAULT_BENCH) --name cause_boutique $(FAULTS)/2022-08-22
	test -z '$(FAULTS)' || $(FAULT_BENCH) --name cause_trainticket --kinds cpu_contention,network_delay \
	    $(FAULTS)/2023-01-29 $(FAULTS)/2023-01-30

bench-analysis: build bench-chains ## The same, and who is suspected when the demo's shop is broken in many ways (root, 40 minutes)
	@SPANWISE_SETUP=faults scripts/setup.sh
	python3 bench/analysis/causes.py --spanwise $(BINARY)

bench-store-grow: build ## The same, then with 50 million spans (half an hour, 5 GB of disk)
	$(CARGO) build --release --locked -p spanwise-bench-store
	set -o pipefail; target/release/spanwise-bench-store --spanwise $(BINARY) --grow $(BENCH_STORE) | tee $(STORE_RESULTS)-grow.txt

SINK := target/release/spanwise-bench-sink
REQUESTS := target/release/spanwise-bench-requests
bench-nginx: build ## What tracing takes from nginx in the worst case
	$(CARGO) build --release --locked -p spanwise-bench-capture -p spanwise-bench-sink
	python3 bench/nginx/nginx.py --spanwise $(BINARY) --sink $(SINK) \
	    --kernel-only target/release/spanwise-bench-capture

bench-soak: build ## Agent memory and loss over ten minutes at 20,000 requests/s of nine protocols
	@SPANWISE_SETUP=soak scripts/setup.sh
	$(CARGO) build --release --locked -p spanwise-bench-sink -p spanwise-bench-requests
	python3 bench/soak/soak.py --spanwise $(BINARY) --sink $(SINK) --requests $(REQUESTS) $(BENCH_SOAK)

bench-accuracy: build ## How often implicit tracing is right, runtime by runtime (a quarter of an hour)
	@SPANWISE_SETUP=accuracy scripts/setup.sh
	bench/accuracy/accuracy.py --install
	bench/accuracy/accuracy.py --spanwise $(BINARY) $(BENCH_ACCURACY)

bench-end-to-end: build ## What tracing costs a Spring Boot application and the demo's shop
	@SPANWISE_SETUP=end-to-end scripts/setup.sh
	$(CARGO) build --release --locked -p spanwise-bench-sink -p spanwise-bench-requests
	cd bench/end-to-end/spring && mvn -q -B package
	python3 demo/shop.py install
	python3 bench/end-to-end/end_to_end.py --spanwise $(BINARY) --sink $(SINK) --requests $(REQUESTS) \
	    $(BENCH_END_TO_END)

# One suite at a time: SUITE=jmh, topologies or load. BENCH_OVERHEAD has flags (see its --help).
SUITE ?= jmh
bench-overhead: build ## What tracing takes from programs of the JVM: SUITE=jmh, topologies or load
	@SPANWISE_SETUP=overhead scripts/setup.sh
	$(CARGO) build --release --locked -p spanwise-bench-requests
	cd bench/overhead/java && mvn -q -B package
	python3 bench/overhead/overhead.py $(SUITE) --spanwise $(BINARY) $(BENCH_OVERHEAD)

clean: ## Remove what builds made
	rm -rf target web/dist web/node_modules demo/.venv demo/.run
