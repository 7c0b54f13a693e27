# Platform gateway and identity service.  `make help` lists the targets.

MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all
SHELL := /bin/sh

# BUILD is where everything made goes; config.mk always lives in build/.
BUILD ?= build
SANITIZE ?=
COVERAGE ?=
UNITDIR ?= /lib/systemd/system
# Most of these tests wait most of the time; under valgrind they compute.
PROVE_FLAGS ?= -j$(shell expr 4 \* $$(nproc))
VALGRIND_PROVE_FLAGS ?= -j$(shell nproc)
# Those that wait longest begin first, or the last of them would run alone.
LONG := browser_playground browser_passkeys build_configure id_keys_commands \
  config_both_halves e2e_keys_rotate http_client e2e_make_run id_revocations \
  id_key_dir id_key_rotation id_lockout gw_keys_workers \
  fault_database_lost_answers fault_failover gw_revocations_stale \
  id_import id_client_tokens id_places_api
T ?= $(wildcard $(LONG:%=t/%.t)) $(filter-out $(LONG:%=t/%.t),$(wildcard t/*.t))
SOAK ?= t/soak t/id_database_plans.t

NEEDS_CONFIG := $(filter-out help clean distclean fmt deb check-deb \
  check-upgrades release check-release module matrix arm64,\
  $(or $(MAKECMDGOALS),all))

ifneq ($(wildcard build/config.mk),)
include build/config.mk
else ifneq ($(NEEDS_CONFIG),)
$(error not configured: run ./configure.sh first)
endif

NEEDS_TESTS := $(filter check unit t soak asan tsan valgrind,$(MAKECMDGOALS))

ifneq ($(and $(NEEDS_TESTS),$(TEST_LACKS)),)
$(error make $(firstword $(NEEDS_TESTS)) needs the Debian packages \
  $(TEST_LACKS): run ./configure.sh --install-test-deps)
endif

# -- flags -----------------------------------------------------------------

# V=1 shows the commands whole.
ifeq ($(V),)
Q := @
SAY = @echo "  $(1)  $(2)"
else
SAY = @:
endif

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wformat=2 \
  -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
DEPFLAGS = -MMD -MP -MF $(@:.o=.d)

ifeq ($(SANITIZE),)
HARDEN := -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
HARDEN_LINK := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
else
SANITIZERS := $(if $(filter thread,$(SANITIZE)),thread,address,undefined)
HARDEN := -O1 -U_FORTIFY_SOURCE -fno-omit-frame-pointer \
  -fsanitize=$(SANITIZERS) -fno-sanitize-recover=undefined
HARDEN_LINK := -fsanitize=$(SANITIZERS)
endif
ifeq ($(SANITIZE),fuzzer)
HARDEN += -fsanitize=fuzzer-no-link
WARNINGS += -Wno-missing-field-initializers
endif

ifneq ($(COVERAGE),)
HARDEN := -O1 --coverage -fprofile-update=atomic
HARDEN_LINK := --coverage
endif

BASE_CFLAGS := -g -pipe $(HARDEN) $(WARNINGS) $(USER_CFLAGS)
LDFLAGS := $(HARDEN_LINK) -Wl,--as-needed $(USER_LDFLAGS)

# -- jose and common: the core of both halves, made for module and program -------

# Sorted, since a locale must not change the order in which they are linked.
JOSE_SRC := $(sort $(wildcard jose/*.c common/*.c))
JOSE_OBJ := $(JOSE_SRC:%.c=$(BUILD)/%.o)
JOSE_LIB := $(BUILD)/jose/libpj.a
JOSE_CFLAGS := -std=c11 $(BASE_CFLAGS) -fPIC -fvisibility=hidden -Ijose \
  $(OPENSSL_CFLAGS) $(YAJL_CFLAGS)
JOSE_LIBS := $(YAJL_LIBS) $(OPENSSL_LIBS)

$(JOSE_OBJ): $(BUILD)/%.o: %.c build/config.mk Makefile
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(JOSE_CFLAGS) $(DEPFLAGS) -c -o $@ $<

$(JOSE_LIB): $(JOSE_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call SAY,AR,$@)
	$(Q)ar rcsD $@ $^

# -- identity-fcgi ---------------------------------------------------------------

ID_SRC := $(sort $(wildcard identity-fcgi/src/*.c identity-fcgi/src/*/*.c))
ID_SRC_OBJ := $(ID_SRC:%.c=$(BUILD)/%.o)
ID_BIN := $(BUILD)/identity-fcgi/identity-fcgi
ID_LIB := $(BUILD)/identity-fcgi/libidentity.a
ID_CFLAGS := -std=c11 -D_GNU_SOURCE $(BASE_CFLAGS) -fPIE -pthread \
  -Ijose -Icommon -Iidentity-fcgi/src \
  $(OPENSSL_CFLAGS) $(FCGI_CFLAGS) $(PQ_CFLAGS) $(SODIUM_CFLAGS) \
  $(CRYPT_CFLAGS) $(FIDO_CFLAGS) $(OATH_CFLAGS)
ID_LIBS := $(FCGI_LIBS) $(PQ_LIBS) $(SODIUM_LIBS) $(CRYPT_LIBS) $(FIDO_LIBS) \
  $(OATH_LIBS) $(JOSE_LIBS) -pthread
EMBED_C := $(BUILD)/identity-fcgi/sql_embedded.c
EMBED_OBJ := $(EMBED_C:.c=.o)
EMBED_SQL := $(wildcard db/migrations/*.sql db/seed/local.sql)

ID_OBJ := $(ID_SRC_OBJ) $(EMBED_OBJ)

$(EMBED_C): db/embed.sh $(EMBED_SQL)
	@mkdir -p $(@D)
	$(call SAY,SQL,$@)
	$(Q)sh db/embed.sh $@

$(EMBED_OBJ): %.o: %.c build/config.mk Makefile
	$(call SAY,CC,$<)
	$(Q)$(CC) $(ID_CFLAGS) $(DEPFLAGS) -c -o $@ $<

$(ID_SRC_OBJ): $(BUILD)/%.o: %.c build/config.mk Makefile
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(ID_CFLAGS) $(DEPFLAGS) -c -o $@ $<

# All but main.o, for the unit tests: an archive, so that a test may bring a
# replacement of its own for a file it does not want.
$(ID_LIB): $(filter-out %/main.o,$(ID_OBJ))
	@mkdir -p $(@D)
	@rm -f $@
	$(call SAY,AR,$@)
	$(Q)ar rcsD $@ $^

$(ID_BIN): $(ID_OBJ) $(JOSE_LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) -pie $(LDFLAGS) -o $@ $(ID_OBJ) $(JOSE_LIB) $(ID_LIBS)

# -- the nginx module -------------------------------------------------------------

MOD_NAME := ngx_http_platform_gateway_module
MOD_DIR := ngx_platform_gateway_module
MOD_SO := $(BUILD)/$(MOD_NAME).so
MOD_ROOMS := request answer conf token revoked issuer base nginx
MOD_SRC := $(sort $(wildcard $(MOD_DIR)/*.c $(MOD_ROOMS:%=$(MOD_DIR)/%/*.c)))
MOD_OBJ := $(MOD_SRC:%.c=$(BUILD)/%.o)
NGX := build/nginx
NGX_STAMP := $(NGX)/objs/stamp
NGX_CC_OPT := $(if $(NGINX),$(shell tools/nginx-option with-cc-opt $(NGINX)))
NGX_LD_OPT := $(if $(NGINX),$(shell tools/nginx-option with-ld-opt $(NGINX)))
NGX_INC := $(patsubst %,-isystem $(NGX)/%,src/core src/event \
  src/event/modules src/event/quic src/os/unix src/http src/http/modules \
  src/http/v2 src/http/v3 objs)
# Handlers have the parameters that nginx gives: it does not warn of them either.
MOD_CFLAGS := $(filter-out -Werror -Werror=% -Wdate-time,$(NGX_CC_OPT)) \
  -std=gnu11 $(BASE_CFLAGS) -Wno-unused-parameter -fPIC \
  -fvisibility=hidden -I$(MOD_DIR) -Ijose -Icommon $(NGX_INC) $(OPENSSL_CFLAGS)

$(NGX_STAMP): build/config.mk tools/nginx-objs $(MOD_DIR)/config
	$(call SAY,NGX,configure of nginx $(NGINX_VERSION))
	$(Q)tools/nginx-objs $(NGINX) $(NGINX_SRC) $(CURDIR)/$(MOD_DIR) $(NGX)

$(MOD_OBJ): $(BUILD)/%.o: %.c $(NGX_STAMP) Makefile
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(MOD_CFLAGS) $(DEPFLAGS) -c -o $@ $<

# What nginx looks up by name is written by its configure; it stays visible.
MOD_LIST_OBJ := $(BUILD)/$(MOD_DIR)/modules_list.o

$(MOD_LIST_OBJ): $(NGX_STAMP) Makefile
	@mkdir -p $(@D)
	$(call SAY,CC,$@)
	$(Q)$(CC) $(filter-out -fvisibility=hidden -W%,$(MOD_CFLAGS)) -c -o $@ \
	  $(NGX)/objs/$(MOD_NAME)_modules.c

$(MOD_SO): $(MOD_OBJ) $(MOD_LIST_OBJ) $(JOSE_LIB) $(MOD_DIR)/module.map \
  tools/check-module
	$(call SAY,LD,$@)
	$(Q)$(CC) -shared $(NGX_LD_OPT) $(LDFLAGS) -Wl,--exclude-libs,ALL \
	  -Wl,--version-script=$(MOD_DIR)/module.map -o $@ \
	  $(MOD_OBJ) $(MOD_LIST_OBJ) $(JOSE_LIB) $(JOSE_LIBS)
ifeq ($(SANITIZE),)
	@tools/check-module $(NGINX) $@
endif

# -- the version: an object is made again when the version changes ---------------

ifndef PLATFORM_VERSION
PLATFORM_VERSION := $(shell tools/version)
endif
VERSION_STAMP := $(BUILD)/version
VERSION_OBJ := $(patsubst %.c,$(BUILD)/%.o,\
  $(shell grep -l '<pj_version.h>' $(ID_SRC) $(MOD_SRC)))

.PHONY: version
$(VERSION_STAMP): version
	@mkdir -p $(@D)
	@echo '$(PLATFORM_VERSION)' | cmp -s - $@ || echo '$(PLATFORM_VERSION)' >$@

$(VERSION_OBJ): $(VERSION_STAMP)
$(VERSION_OBJ): ID_CFLAGS += -DPLATFORM_VERSION='"$(PLATFORM_VERSION)"'
$(VERSION_OBJ): MOD_CFLAGS += -DPLATFORM_VERSION='"$(PLATFORM_VERSION)"'

# -- unit tests ---------------------------------------------------------------------
# A check_NAME.c is a program of its own; names are unique over both halves.

vpath check_%.c jose/test common/test
JOSE_TESTS := $(patsubst %.c,$(BUILD)/test/%,\
  $(notdir $(wildcard jose/test/check_*.c common/test/check_*.c)))
ID_TESTS := $(patsubst identity-fcgi/test/%.c,$(BUILD)/test/%,\
  $(wildcard identity-fcgi/test/check_*.c))
MOD_TESTS := $(patsubst $(MOD_DIR)/test/%.c,$(BUILD)/test/%,\
  $(wildcard $(MOD_DIR)/test/check_*.c))
UNIT_TESTS := $(JOSE_TESTS) $(ID_TESTS) $(MOD_TESTS)
TEST_CFLAGS := $(filter-out -Wmissing-prototypes,$(ID_CFLAGS)) \
  $(CHECK_CFLAGS) \
  -DJOSE_TEST_DATA='"$(CURDIR)/jose/test"' \
  -DTEST_DATA_DIR='"$(CURDIR)/identity-fcgi/test"'

$(JOSE_TESTS): $(BUILD)/test/%: %.c $(JOSE_LIB)
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -MF $@.d -pie $(LDFLAGS) -o $@ $< \
	  $(JOSE_LIB) $(JOSE_LIBS) $(CHECK_LIBS)

$(ID_TESTS): $(BUILD)/test/%: identity-fcgi/test/%.c $(ID_LIB) \
  $(JOSE_LIB)
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -MF $@.d -pie $(LDFLAGS) -o $@ $< \
	  $(ID_LIB) $(JOSE_LIB) $(ID_LIBS) $(CHECK_LIBS)

# What of the module needs no nginx to run.
$(MOD_TESTS): $(BUILD)/test/%: $(MOD_DIR)/test/%.c $(NGX_STAMP) \
  $(JOSE_LIB)
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(filter-out -fvisibility=hidden,$(MOD_CFLAGS)) \
	  $(CHECK_CFLAGS) -MMD -MP -MF $@.d -pie $(LDFLAGS) -o $@ $< \
	  $(JOSE_LIB) $(JOSE_LIBS) $(CHECK_LIBS)

# -- fuzz targets ---------------------------------------------------------------------
# A fuzz/fuzz_NAME.c is a program that replays fuzz/corpus/NAME, and a unit test
# as such; with SANITIZE=fuzzer libFuzzer drives it.  Of nginx there is what
# fuzz/nginx.c has; all else that the module names is a label over zeroes.  What
# a target defines stands in for what the libraries have of that name.

FUZZ_TESTS := $(patsubst fuzz/%.c,$(BUILD)/test/%,$(wildcard fuzz/fuzz_*.c))
FUZZ_CFLAGS := $(filter-out -fvisibility=hidden -Wmissing-prototypes,\
  $(MOD_CFLAGS)) -D_GNU_SOURCE -I$(MOD_DIR) -Iidentity-fcgi/src -iquote fuzz \
  -DFUZZ_CORPUS='"$(CURDIR)/fuzz/corpus"' \
  -DJOSE_TEST_DATA='"$(CURDIR)/jose/test"'
FUZZ_OBJ := $(BUILD)/test/nginx.o $(if $(filter fuzzer,$(SANITIZE)),,\
  $(BUILD)/test/replay.o)
FUZZ_REST := $(BUILD)/test/rest.o
UNIT_TESTS += $(FUZZ_TESTS)

$(FUZZ_OBJ): $(BUILD)/test/%.o: fuzz/%.c $(NGX_STAMP)
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(FUZZ_CFLAGS) $(DEPFLAGS) -c -o $@ $<

$(FUZZ_REST): $(MOD_OBJ)
	@mkdir -p $(@D)
	$(Q)nm $(MOD_OBJ) | awk '$$1 == "U" && $$2 ~ /^(ngx|SSL)_/ { used[$$2] } \
	  NF == 3 { there[$$3] } END { print ".bss\n.balign 64"; \
	  for (s in used) if (!(s in there)) print ".weak " s "\n" s ":"; \
	  print ".zero 4096\n.section .note.GNU-stack" }' >$(@:.o=.s)
	$(Q)$(CC) -c -o $@ $(@:.o=.s)

$(FUZZ_TESTS): $(BUILD)/test/%: fuzz/%.c $(FUZZ_OBJ) $(FUZZ_REST) $(MOD_OBJ) \
  $(ID_LIB) $(JOSE_LIB)
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(FUZZ_CFLAGS) -MMD -MP -MF $@.d -pie $(LDFLAGS) \
	  $(if $(filter fuzzer,$(SANITIZE)),-fsanitize=fuzzer) \
	  -Wl,-z,muldefs -o $@ $< \
	  $(FUZZ_OBJ) $(FUZZ_REST) $(MOD_OBJ) $(ID_LIB) $(JOSE_LIB) $(ID_LIBS)

# A module that t/ loads beside ours.
TEST_MOD := $(BUILD)/test/ngx_http_test_late_module.so

$(TEST_MOD): t/modules/ngx_http_test_late_module.c $(NGX_STAMP)
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(filter-out -fvisibility=hidden,$(MOD_CFLAGS)) -shared \
	  $(NGX_LD_OPT) $(LDFLAGS) -o $@ $<

.PHONY: t-modules
t-modules: $(TEST_MOD) $(BUILD)/bench/herd $(BUILD)/test/check_webauthn_json

# -- static analysis ----------------------------------------------------------------
# A file is read again when it, or what it includes, has changed.

ANALYZED := $(patsubst %,$(BUILD)/analyzed/%,$(JOSE_SRC) $(ID_SRC) $(MOD_SRC))
CPPCHECK := cppcheck -q --error-exitcode=1 --inline-suppr \
  --enable=warning,performance,portability \
  --suppressions-list=.cppcheck --template=gcc

$(JOSE_SRC:%=$(BUILD)/analyzed/%): ANALYZE_CFLAGS = $(JOSE_CFLAGS)
$(ID_SRC:%=$(BUILD)/analyzed/%): ANALYZE_CFLAGS = $(ID_CFLAGS)
$(MOD_SRC:%=$(BUILD)/analyzed/%): ANALYZE_CFLAGS = $(MOD_CFLAGS)
# gcc's analyzer knows neither nginx's pools nor its lists.
$(JOSE_SRC:%=$(BUILD)/analyzed/%) $(ID_SRC:%=$(BUILD)/analyzed/%): \
  GCC_ANALYZER = -fanalyzer

$(ANALYZED): $(BUILD)/analyzed/%: % $(NGX_STAMP) .clang-tidy .cppcheck Makefile | needs-lint
	@mkdir -p $(@D)
	$(call SAY,READ,$<)
	$(Q)$(CPPCHECK) -Ijose -Icommon -Iidentity-fcgi/src -D'TAILQ_HEAD(a,b)=struct b *' \
	  -Dnginx_version=1022001 $<
	$(Q)clang-tidy --quiet $< -- $(filter-out -f% -W%,$(ANALYZE_CFLAGS)) \
	  2>$@.said || { cat $@.said; exit 1; }
	$(Q)gcc $(ANALYZE_CFLAGS) $(GCC_ANALYZER) -MMD -MP -MF $@.d -MT $@ \
	  -c -o /dev/null $<
	@touch $@

.PHONY: analyze
analyze: needs-lint $(ANALYZED)

# -- benchmarks ------------------------------------------------------------------------

BENCH := $(addprefix $(BUILD)/bench/,floors floor_fcgi sign verify herd)

$(BENCH): $(BUILD)/bench/%: bench/%.c bench/key.c bench/key.h $(JOSE_LIB) build/config.mk
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(ID_CFLAGS) -Ibench -pie $(LDFLAGS) -o $@ $< \
	  bench/key.c $(JOSE_LIB) $(ID_LIBS)

# BENCH_FLAGS: --quick, --only proxied,refused, ... (or refresh,login, ...)
.PHONY: bench-programs bench-identity bench-gateway bench-capacity bench-herd bench-jose \
  bench figures
bench-programs: $(BENCH)

# What the core adds to OpenSSL, alone.
bench-jose: all $(BENCH)
	@PLATFORM_BUILD=$(BUILD) bench/gateway --only core

bench-gateway bench-identity bench-capacity bench-herd: bench-%: all $(BENCH)
	@PLATFORM_BUILD=$(BUILD) bench/$* $(BENCH_FLAGS)

bench: ## measure both halves against their floors (BENCH_FLAGS=--quick: minutes)
	@$(MAKE) --no-print-directory bench-gateway
	@$(MAKE) --no-print-directory bench-identity

# The tables of docs/benchmarks.md and docs/scaling.md: all, or those of some sections.
figures: all $(BENCH) ## measure anew what the docs have tables of (FIGURES="gateway refresh": these)
	@PLATFORM_BUILD=$(BUILD) bench/figures $(BENCH_FLAGS) $(FIGURES)

# -- targets ---------------------------------------------------------------------------

.PHONY: help all run reload check unit t soak fleet asan tsan valgrind coverage mutants fuzz lint fmt install \
  module matrix deb client arm64 image check-image check-deb check-upgrades release \
  check-release \
  clean distclean

help: ## this list
	@echo "Targets (./configure.sh comes first, see its --help):"
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r name what; do \
	    printf '  %-10s %s\n' "$$name" "$$what"; done

all: $(JOSE_LIB) $(ID_BIN) $(MOD_SO) ## build the module and the identity service

run: all ## start everything in the foreground (Ctrl-C stops it)
	@BUILD=$(BUILD) tools/run

reload: ## have the nginx of make run take over your routes
	@BUILD=$(BUILD) tools/run --reload

check: unit t ## run every test: unit, then t

unit: $(UNIT_TESTS) ## run the unit tests
	@tools/unit $(UNIT_TESTS)

t: all t-modules ## run the end-to-end tests against real servers
	@PLATFORM_BUILD=$(BUILD) prove $(PROVE_FLAGS) $(T)

# Whoever names a target wants it run: nothing is skipped for want of a program.
needs-%:
	@tools/needs $*

soak: $(if $(filter t/soak t/soak/fleet.t,$(SOAK)),needs-soak) all ## run the long tests: chaos, races by the thousand, a million rows
	@PLATFORM_BUILD=$(BUILD) PLATFORM_TEST_SESSIONS=1000000 prove $(SOAK)

fleet: needs-fleet all ## a fleet in network namespaces, and each loss of a part (FLEET_ONLY=row); root
	@PLATFORM_BUILD=$(BUILD) perl -It/lib -Ibench/lib t/soak/fleet.t

# In an nginx that has no sanitizer of its own, nginx may use what is freed.
WHOLE := $(filter $(T),$(patsubst %,t/gw_%.t,expiry websocket streaming keys \
  subrequests internal_redirects explain forward_auth))
WHOLE_OBJS := $(CURDIR)/build/nginx-$(NGINX_VERSION)-asan/objs

asan: ## unit and end-to-end tests under ASan and UBSan (NGINX_MIRROR=)
	@$(MAKE) BUILD=build-asan SANITIZE=1 all unit t-modules
	@PLATFORM_BUILD=build-asan PLATFORM_TEST_ASAN=1 prove $(PROVE_FLAGS) $(T)
	@[ -z "$(WHOLE)" ] || $(MAKE) --no-print-directory asan-nginx

.PHONY: asan-nginx
asan-nginx:
	@NGINX= NGINX_SRC= NGINX_VERSION=$(NGINX_VERSION) SANITIZE=1 tools/module
	@NGINX=$(WHOLE_OBJS)/nginx NGINX_MODULES_DIR=$(WHOLE_OBJS) \
	  PLATFORM_BUILD=$(WHOLE_OBJS) PLATFORM_TEST_ASAN=1 \
	  prove $(PROVE_FLAGS) $(WHOLE)

tsan: all t-modules bench-programs ## the same of jose and identity under TSan, and the module's table
	@$(MAKE) BUILD=build-tsan SANITIZE=thread tsan-unit
	@ln -sf $(CURDIR)/$(BUILD)/*.so build-tsan
	@ln -sfn $(CURDIR)/$(BUILD)/bench build-tsan/bench
	@ln -sf $(CURDIR)/$(BUILD)/test/*.so build-tsan/test
	@PLATFORM_BUILD=build-tsan PLATFORM_TEST_ASAN=thread prove $(PROVE_FLAGS) $(T)

.PHONY: tsan-unit
tsan-unit: $(ID_BIN) $(JOSE_TESTS) $(ID_TESTS) $(BUILD)/test/check_table
	@tools/unit $(JOSE_TESTS) $(ID_TESTS)
	@CK_FORK=no CK_RUN_CASE=threads $(BUILD)/test/check_table

# Of jose the unit tests and fuzzers see every line; the rest meets the servers.
GCOVR := gcovr -j2 --exclude-throw-branches --gcov-ignore-parse-errors -s
coverage: ## which lines the tests run: build-coverage/lines.txt
	@rm -rf build-coverage/jose/*.gcda build-coverage/common/*.gcda
	@$(MAKE) --no-print-directory BUILD=build-coverage COVERAGE=1 unit t
	@status=0; for part in jose/:97 common/:97 identity-fcgi/src/:90 $(MOD_DIR)/ngx:90; \
	do echo "$${part%:*}"; $(GCOVR) -f "$${part%:*}" \
	  --fail-under-line "$${part#*:}" build-coverage || status=1; \
	done >build-coverage/lines.txt; \
	grep -E '/|^(lines|TOTAL)' build-coverage/lines.txt; exit $$status

matrix: needs-matrix ## build and test the module with each nginx (NGINX_MIRROR=)
	@tools/matrix

valgrind: all $(UNIT_TESTS) t-modules ## unit and end-to-end tests under valgrind
	@CK_FORK=no UNIT_WRAPPER="valgrind -q --error-exitcode=99 \
	  --leak-check=full --errors-for-leak-kinds=definite" \
	  tools/unit $(UNIT_TESTS)
	@PLATFORM_BUILD=$(BUILD) PLATFORM_TEST_VALGRIND=1 \
	  prove $(VALGRIND_PROVE_FLAGS) $(T)

# FUZZ: names of targets, all without.
mutants: all ## take checks out, one at a time: does a test notice? (MUTANTS=name)
	@t/mutants/run $(MUTANTS)

fuzz: ## mutate the corpora of fuzz/ for FUZZ_SECONDS (60) a target
	@$(MAKE) BUILD=build/fuzz SANITIZE=fuzzer CC=clang \
	  $(or $(FUZZ:%=build/fuzz/test/fuzz_%),fuzz-programs)
	@fuzz/run build/fuzz $(or $(FUZZ_SECONDS),60) $(FUZZ)

.PHONY: fuzz-programs
fuzz-programs: $(FUZZ_TESTS)

lint: analyze ## call rules, banned functions, formatting, links, static analysis
	@tools/lint

fmt: ## format the C sources (the module keeps nginx's style)
	clang-format -i $(wildcard jose/*.[ch] jose/test/*.[ch] fuzz/*.[ch] \
	  common/*.[ch] common/test/*.[ch] \
	  identity-fcgi/src/*.[ch] identity-fcgi/src/*/*.[ch] \
	  identity-fcgi/test/*.[ch] bench/*.[ch])

module: ## build the module for another nginx (NGINX=, NGINX_SRC=, NGINX_VERSION=)
	@tools/module

deb: ## build the Debian packages in build/deb (NGINX_SRC= if nginx is not Debian's)
	@tools/deb

arm64: needs-arm64 ## the same for arm64 in build/arm64, and run there by qemu (root, debootstrap)
	@tools/arm64

client: ## pack the client of examples/client for npm in build/client
	@tools/client $(BUILD)/client

image: needs-image deb ## build an image of each half in build/image
	@tools/image

check-image: needs-check-image ## run those images as containers, by examples/compose
	@t/image/check

check-deb: needs-check-deb ## README's commands and the packages, in fresh Debian 12 and 13
	@t/deb/first_minute bookworm
	@t/deb/first_minute trixie
	@t/deb/check
	@t/deb/other_nginx

check-upgrades: needs-check-upgrades ## from each release to these sources, and back, under load: 0 failed requests
	@t/deb/upgrades

release: needs-release ## sources, packages, SBOM and signed checksums in build/release (RELEASE_KEY=FILE)
	@tools/release

check-release: needs-check-release ## make deb twice, as unlike as reprotest can: the same bytes?
	@t/deb/reproduce

install: all ## install under PREFIX, SYSCONFDIR and DESTDIR
	@DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) SYSCONFDIR=$(SYSCONFDIR) \
	  UNITDIR=$(UNITDIR) MODULES_DIR=$(NGINX_MODULES_DIR) \
	  tools/install $(ID_BIN) $(MOD_SO)

clean: ## remove what make made; keeps build/config.mk and run/
	@rm -rf build-asan build-tsan build-coverage build/nginx build/jose build/common build/identity-fcgi \
	  build/$(MOD_DIR) build/analyzed build/bench build/fuzz build/test build/test-cache \
	  build/test-failed build/*.so

distclean: clean ## also remove build/ itself
	@rm -rf build

-include $(JOSE_OBJ:.o=.d) $(ID_OBJ:.o=.d) $(MOD_OBJ:.o=.d) \
  $(UNIT_TESTS:%=%.d) $(ANALYZED:=.d)
