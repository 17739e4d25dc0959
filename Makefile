.DEFAULT_GOAL := help
.PHONY: help build dist dist-bench install uninstall lint test test-long test-threads e2e test-sqlite test-sqlite-encrypted test-sqllogic test-clients mutate soak demo bench damage \
	bench-quick bench-integers bench-integers-quick fuzz check-all deny packages packages-all test-packages test-model \
	test-arm64 test-bigendian test-32bit test-musl test-windows test-core test-adopt drop-in demo-scale check-web web test-web demo-web

# Seconds for each fuzz target, and names of SQLite test files (default: all but those in left_out.tsv),
# and of packages (default: all).
FUZZ_SECONDS ?= 60
# Limits for one input: seconds, MiB in all, MiB in one allocation.
FUZZ_BOUNDS := -timeout=30 -rss_limit_mb=1024 -malloc_limit_mb=512
PREFIX ?= /usr/local
FILES ?=
SCALE ?=
ROWS ?=
CLIENTS ?=
PACKAGES ?=

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
RELEASE := $(TARGET)/release
# The profile of what is shipped and measured: with link-time optimisation, which `make build` does without.
DIST := $(TARGET)/dist
# Many tests wait, for locks, clocks and the disk: more of them run at once than there are processors. tests/run has as
# many programs at once as processors, `cargo test` one.
THREADS = RUST_TEST_THREADS=$$(($$(nproc) * 2))
# All but the study of integers, which nothing depends on.
TESTED := --workspace --exclude litepack-integers
# The list of tests that were left out, which scripts/skipped prints.
SKIPPED := $(TARGET)/skipped
E2E = LITEPACK_SKIPPED=$(SKIPPED) LITEPACK_EXTENSION=$(1)/liblitepack.so LITEPACK_COMMAND=$(1)/litepack tests/e2e/run

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 22

build: ## the extension target/release/liblitepack.so, the command target/release/litepack, and what it runs programs with
	@scripts/need cargo cc
# In one go: alone, each would have its dependencies with other features, and most would be compiled twice.
	cargo build --release -p litepack-extension -p litepack-preload -p litepack-cli

dist: ## the same with link-time optimisation, as packages have it, in target/dist
	@scripts/need cargo cc
	cargo build --profile dist -p litepack-extension -p litepack-preload -p litepack-cli

# As Debian's package has them: the command finds the extension in ../lib/litepack.
install: ## what `make build` has made, into PREFIX (/usr/local); DESTDIR for packagers
	@test -x $(RELEASE)/litepack || { echo "there is nothing to install: run make build first" >&2; exit 1; }
	install -D -m 755 $(RELEASE)/litepack $(DESTDIR)$(PREFIX)/bin/litepack
	install -D -m 644 $(RELEASE)/liblitepack.so $(DESTDIR)$(PREFIX)/lib/litepack/liblitepack.so
	install -m 644 $(RELEASE)/liblitepack_preload.so $(DESTDIR)$(PREFIX)/lib/litepack/liblitepack-preload.so

uninstall: ## what `make install` has put into PREFIX
	rm -f $(DESTDIR)$(PREFIX)/bin/litepack $(DESTDIR)$(PREFIX)/lib/litepack/liblitepack.so \
		$(DESTDIR)$(PREFIX)/lib/litepack/liblitepack-preload.so
	if [ -d $(DESTDIR)$(PREFIX)/lib/litepack ]; then rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/lib/litepack; fi

lint: ## formatting, clippy, the docs, and that mutants can be put in
	@scripts/need cargo cc python3
	scripts/check-docs
	scripts/check-floors
	tests/mutants/run --check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test: lint ## what has to pass before each commit reaches main
	@scripts/need cargo cc make nginx openssl sqlite3 python3 zstd
	@rm -f $(SKIPPED)
# All at once, so that nothing is built twice; the extension and the command with debug assertions, as the tests are.
	cargo build $(TESTED) --all-targets
	LITEPACK_SKIPPED=$(SKIPPED) LITEPACK_BIN=$(TARGET)/debug/litepack RUST_TEST_THREADS=$$(nproc) tests/run $(TESTED)
	cargo test $(TESTED) --doc --quiet
	$(call E2E,$(TARGET)/debug)
	@scripts/skipped $(SKIPPED)

e2e: build ## the extension and command as released, used by the sqlite3 shell and Python
	@scripts/need cc nginx sqlite3 python3 zstd
	$(call E2E,$(RELEASE))

test-long: e2e ## the same tests with many more rounds, and the slow ones; the released build
	@scripts/need cargo cc nginx openssl sqlite3 python3 sqlcipher venv
	@rm -f $(SKIPPED)
	LITEPACK_SKIPPED=$(SKIPPED) LITEPACK_LONG=1 LITEPACK_BIN=$(RELEASE)/litepack $(THREADS) \
		env --default-signal=INT cargo test --release --workspace --no-fail-fast -- --include-ignored
	LITEPACK_SKIPPED=$(SKIPPED) LITEPACK_ENCRYPTED=1 cargo test --release -p litepack-store --no-fail-fast
	LITEPACK_SKIPPED=$(SKIPPED) LITEPACK_ENCRYPTED=padded cargo test --release -p litepack-store -p litepack-log --no-fail-fast -- --skip a_log_of_another_kind
	LITEPACK_SKIPPED=$(SKIPPED) LITEPACK_LONG=1 tests/encrypted --release
	tests/moving $(RELEASE)/litepack $(TARGET)/moving
	$(MAKE) test-model
# Each day another tenth.
	LITEPACK_SKIPPED=$(SKIPPED) $(call SQLLOGIC,--part $$(($$(date +%s) / 86400 % 10 + 1))/10)
	@scripts/skipped $(SKIPPED)

test-model: ## models of commit, log and recovery, and that each rule in them is needed (TLC, from Maven Central)
	@scripts/need java mvn python3
	tests/model/run.py

drop-in: ## SQLite's library with Litepack inside, in place of the system's: docs/adopt.md
	@scripts/need cargo cc python3 sqlite3
	scripts/drop-in release

# LITEPACK_WRITE_DOCS=1 renews the table in docs/adopt.md.
test-adopt: build drop-in ## programs of Debian, PyPI and Maven, unchanged, on packed databases (litepack run)
	@scripts/need cc sqlite3 python3 venv php perl ruby svn binutils pipx phpliteadmin sqlitebrowser screen javac mvn mono
	LITEPACK_EXTENSION=$(RELEASE)/liblitepack.so LITEPACK_COMMAND=$(RELEASE)/litepack tests/e2e/adopt $(TARGET)/adopt
	LITEPACK_COMMAND=$(RELEASE)/litepack python3 tests/e2e/adopt_home.py
	LITEPACK_COMMAND=$(RELEASE)/litepack LITEPACK_DROP_IN=$(RELEASE)/drop-in \
		python3 tests/e2e/drop_in.py $(TARGET)/adopt

test-threads: ## tests with several threads, under ThreadSanitizer (LITEPACK_SEED=N for another run)
	@scripts/need cargo cc nginx nightly openssl
	tests/threads/run

mutate: ## each mechanism of rules.md taken out, one at a time: do the tests notice? (ONLY='text of rules', MINUTES=n)
	@scripts/need cargo cc nginx openssl sqlite3 python3 zstd
	tests/mutants/run $(if $(ONLY),--only '$(ONLY)') $(if $(MINUTES),--minutes $(MINUTES))

# HOURS is a number of hours, also 0.5. A run that was stopped goes on.
soak: ## power losses, lying disks and kills with fresh seeds, HOURS=n of them; adds to tests/soak/totals.tsv
	@scripts/need cargo cc python3
	tests/soak/run --hours $(or $(HOURS),1)

test-core: ## the tests of the crates alone, for systems where not all of `make test` runs
	cargo test $(foreach crate,reclaimable io btree codec store replace log archive columns engine sqlite database ingest catalog tune advise adopt,-p litepack-$(crate)) -p litepack
	cargo build --release -p litepack-extension -p litepack-cli

# What each has of this machine, to exchange files with: as compiled for tests, which is soon done.
PLATFORM = cargo build -p litepack-extension -p litepack-cli && \
	tests/platforms/run $(1) $(TARGET)/debug/liblitepack.so $(TARGET)/debug/litepack

test-arm64: ## the tests of what stores bytes, the extension and the command on arm64 in an emulator
	@scripts/need cargo cc sqlite3 apt-get any-rust aarch64-linux-gnu-gcc emulator
	$(call PLATFORM,arm64)

test-bigendian: ## the same on s390x, whose numbers begin with the most significant byte
	@scripts/need cargo cc sqlite3 apt-get any-rust s390x-linux-gnu-gcc emulator
	$(call PLATFORM,bigendian)

test-32bit: ## the same on i686, by this processor (x86-64)
	@scripts/need cargo cc sqlite3 apt-get any-rust i686-linux-gnu-gcc
	$(call PLATFORM,32bit)

test-musl: ## the same with the C library musl instead of glibc (x86-64)
	@scripts/need cargo cc sqlite3 apt-source tcl any-rust python3 venv musl
	$(call PLATFORM,musl)

test-windows: ## the same on Windows, in wine (Debian 12 on x86-64)
	@scripts/need cargo cc sqlite3 apt-source tcl any-rust mingw wine
	$(call PLATFORM,windows)

# The reader for browsers, for wasm32.
WEB := $(TARGET)/web

check-web: ## the reader for browsers compiles (Debian only)
	@scripts/need any-rust wasm-c
	scripts/wasm check -p litepack-web

web: ## the reader for browsers: the npm package litepack-web, in target/web/out (Debian only)
	@scripts/need any-rust wasm-c node npm
	scripts/web-package $(WEB)

test-web: web ## its tests in headless Chromium and in Node
	@scripts/need cargo cc python3 chromium
	cargo build --release -p litepack-cli
	tests/web/run $(WEB) $(RELEASE)/litepack

# ROWS=4400000 is a gigabyte.
demo-web: web ## a page that queries a packed database by range requests, and survives a flipped byte (ROWS=4400000)
	@scripts/need cargo cc python3
	cargo build --release -p litepack-cli
	tests/web/modules $(WEB)
	packages/web/demo/run $(WEB) $(RELEASE)/litepack $(ROWS)

test-sqlite: ## SQLite's own test suite, plain and packed (FILES="wal.test pager*" for a part)
	@scripts/need cargo cc make python3 tcl apt-source
	cargo build --release -p litepack-extension
# SQLite's own VFSes above and below ours.
	LITEPACK_SQLITE_SOURCE=$$(tests/sqlite-suite/build $(TARGET)/sqlite-suite source) \
		LITEPACK_EXTENSION=$(RELEASE)/liblitepack.so LITEPACK_COMMAND=$(RELEASE)/litepack python3 tests/e2e/shims.py
	tests/sqlite-suite/run.py --extension $(RELEASE)/liblitepack.so $(FILES)

test-sqlite-encrypted: ## the same on encrypted databases
	@scripts/need cargo cc make python3 tcl apt-source
	cargo build --release -p litepack-extension
	tests/sqlite-suite/build $(TARGET)/sqlite-suite
	tests/sqlite-suite/run.py --extension $(RELEASE)/liblitepack.so --encrypted $(FILES)

# Debian's Python, as that of pyenv loads no extensions. What is done is kept in target/sqllogic.
SQLLOGIC = /usr/bin/python3 tests/sqllogic/run.py --extension $(RELEASE)/liblitepack.so --command $(RELEASE)/litepack \
	--kept $(TARGET)/sqllogic $(1)

test-sqllogic: ## sqllogictest, each answer on packed databases beside that on a plain one (FILES="select*.test" for a part)
	@scripts/need cargo cc python3
	cargo build --release -p litepack-extension -p litepack-cli
	$(call SQLLOGIC,$(FILES))

# CLIENTS="cpython django" for a part.
test-clients: build ## clients' own test suites (CPython, APSW, Django, ...) on packed databases beside plain ones
	@scripts/need cc python3 venv
	tests/clients/run.py --command $(RELEASE)/litepack --preload $(RELEASE)/liblitepack_preload.so \
		--kept $(TARGET)/clients $(CLIENTS)

demo: ## create a database, pack it, and compare both; then once more with link-time optimisation, as shipped
	@scripts/need cargo cc
	cargo build --release -p litepack-cli -p litepack-bench --bin litepack --bin demo
	$(RELEASE)/demo
	@echo
	@echo "Once more as it is shipped, with link-time optimisation, which takes minutes to build (Ctrl-C: not now)"
	cargo build --profile dist -p litepack-cli -p litepack-bench --bin litepack --bin demo
	$(DIST)/demo

# SCALE="--shards 20 --url http://..." for another run: see tests/scale/demo.py.
demo-scale: ## 200 packed files in a local object store (with Go), the same query by Spark, Dask and one process (SCALE="--shards 20")
	@scripts/need cargo cc python3 venv
	packages/build python
	tests/scale/run $(TARGET)/packages $(TARGET)/scale $(SCALE)

BENCH := $(DIST)/bench

bench: dist-bench ## all measurements against plain SQLite, with link-time optimisation; renews docs/benchmarks.md
	$(BENCH) --write-docs

bench-encryption: build ## encrypted databases beside SQLite3 Multiple Ciphers and SQLCipher, from PyPI; writes nothing
	@scripts/need python3
	python3 crates/bench/encryption.py $(RELEASE)/liblitepack.so $(RELEASE)/litepack $(TARGET)/bench-encryption

damage: ## the same damage to databases of Litepack and of others, and what a reader is told; renews docs/damage.md
	@scripts/need cargo cc sqlite3 python3
	cargo run --release -p litepack-bench --bin damage -- --write-docs

bench-quick: dist-bench ## the same on small data; writes nothing
	$(BENCH) --quick

dist-bench:
	@scripts/need cargo cc
	cargo build --profile dist -p litepack-cli -p litepack-bench -p litepack-extension --bin litepack --bin bench --lib

# Parts whose tools are missing are left out, and the page says so.
INTEGERS := cargo run --profile dist -p litepack-integers --features parquet --bin bench-integers --

bench-integers: dist ## study of integers, 25 minutes; renews docs/integers.md and its charts
	@scripts/need sqlite3 valgrind || true
	$(INTEGERS) --write-docs --json $(DIST)/integers.json

bench-integers-quick: dist ## the same on small data, 3 minutes; leaves the page alone
	@scripts/need sqlite3 valgrind || true
	$(INTEGERS) --quick

fuzz: ## each fuzz target for FUZZ_SECONDS
	@scripts/need cargo cc cargo-fuzz
	@for target in $$(cargo fuzz list); do \
		cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) $(FUZZ_BOUNDS) || exit 1; \
	done

check-all: ## what `make test` does not build: fuzz targets, every feature and none, documentation
	@scripts/need cargo cc
	cargo check --workspace --all-targets --all-features
	cargo test --no-default-features --features litepack/bundled \
		-p litepack -p litepack-sqlite -p litepack-rusqlite -p litepack-extension
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc -p litepack --no-default-features --no-deps --quiet
	RUSTFLAGS="--cfg fuzzing" cargo check --manifest-path fuzz/Cargo.toml --locked

deny: ## licences, bans and advisories of dependencies
	@scripts/need cargo-deny
	cargo deny check

packages: ## what users install, for every language, in target/packages/out (PACKAGES="python" for a part)
	@scripts/need cargo cc python3
	packages/build $(PACKAGES)

packages-all: ## the same for every platform, on x86-64 Linux (PACKAGES="python" for a part)
	@scripts/need cargo cc python3
	LITEPACK_PLATFORMS=all packages/build $(PACKAGES)

test-packages: ## installs each package into an empty environment and uses it there (PACKAGES="python" for a part)
	@scripts/need cc python3 sqlite3
	packages/test $(PACKAGES)
