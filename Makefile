# gspmd: see README.md. `make` builds, `make test` runs every test, `make demo` shows the main job.
#
#   make B=DIR      build somewhere else       make SAN=address,undefined | SAN=thread
#   make DEVELOPER=1  warnings are errors      make OPT=-O0

B ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
comma := ,
CC ?= gcc
OPT ?= -O2
VERSION := 0.1.0

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wcast-qual -Wvla -Wundef \
        -Wformat=2 -Wconversion -Wdouble-promotion -Wswitch-enum
CFLAGS := -std=c11 -D_GNU_SOURCE -g $(OPT) -fno-omit-frame-pointer -ffp-contract=off $(WARN) \
          $(if $(DEVELOPER),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) \
          -DGSPMD_VERSION='"$(VERSION)"' -MMD -MP $(EXTRA_CFLAGS)
LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(EXTRA_LDFLAGS)
LIBS := -lcjson -lz -ldl -lpthread -lm

# Layers of the engine, lowest first; each may include only itself and those before it.
LAYERS := base sharding ir text propagate partition emulate cost session
$(foreach l,$(LAYERS),$(eval SRC_$(l) := $(sort $(wildcard engine/$(l)/*.c))))
$(foreach l,$(LAYERS),$(eval OBJ_$(l) := $(SRC_$(l):%.c=$(B)/%.o)))
ENGINE_OBJ := $(foreach l,$(LAYERS),$(OBJ_$(l)))
VIZ_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard viz/*.c)))
REPL_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard repl/*.c))) $(B)/repl/lessons.o $(B)/repl/concepts.o
CONF_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/conformance/*.c)))
UNIT_SRC := $(sort $(wildcard tests/unit/*.c))
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(B)/unit/%)

# READLINE=readline, editline (libedit) or none: what repl/line.c edits lines with.
READLINE ?= readline
READLINE_LIBS := $(if $(filter editline,$(READLINE)),-ledit)$(if $(filter readline,$(READLINE)),-lreadline)

all: $(B)/gspmd $(B)/gspmd-conformance

$(B)/engine/%.o: engine/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -c $< -o $@
# The tables that are built in (engine/cost/hardware_data.c assembles them).
$(B)/engine/cost/hardware_data.o: $(wildcard assets/hardware/*.json) assets/calibration.json
# Kernels: loops over elements, vectorised.
$(B)/engine/emulate/small.o $(B)/engine/emulate/ew.o: CFLAGS += $(if $(filter -O2,$(OPT)),-O3)
$(B)/engine/emulate/ew_arith.o $(B)/engine/emulate/ew_avx2.o $(B)/engine/emulate/ew_avx512.o: CFLAGS += $(if $(filter -O2,$(OPT)),-O3) -fno-math-errno -fno-trapping-math
$(B)/viz/%.o: viz/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. -c $< -o $@
$(B)/repl/%.o: repl/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -DREADLINE_$(READLINE) -Iengine -I. -c $< -o $@
# Texts that the program brings along.
LESSONS := $(sort $(wildcard scripts/lessons/*.lesson))
CONCEPTS := $(sort $(wildcard scripts/concepts/*.txt))
$(B)/repl/lessons.c: $(LESSONS)
$(B)/repl/concepts.c: $(CONCEPTS)
$(B)/repl/lessons.c $(B)/repl/concepts.c: scripts/embed.sh
	@mkdir -p $(@D)
	sh scripts/embed.sh $(basename $(@F)) $(filter-out %.sh,$^) > $@
$(B)/repl/lessons.o $(B)/repl/concepts.o: %.o: %.c
	$(CC) $(filter-out -Wpedantic,$(CFLAGS)) -Iengine -I. -c $< -o $@
$(B)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. -c $< -o $@

$(B)/libgspmd.a: $(ENGINE_OBJ)
	rm -f $@ && ar rcs $@ $^
$(B)/gspmd: $(REPL_OBJ) $(VIZ_OBJ) $(ENGINE_OBJ)
	$(CC) $(LDFLAGS) $^ -o $@ $(READLINE_LIBS) $(LIBS)
# Cases ask the shell's commands, in the same process.
$(B)/gspmd-conformance: $(CONF_OBJ) $(filter-out $(B)/repl/main.o,$(REPL_OBJ)) $(VIZ_OBJ) $(ENGINE_OBJ)
	$(CC) $(LDFLAGS) $^ -o $@ $(READLINE_LIBS) $(LIBS)


# make MPI=1: the same shell over several processes (mpirun -n 8 $(B)/gspmd-mpi -f SCRIPT).
MPICC ?= mpicc
ifeq ($(MPI),1)
all: $(B)/gspmd-mpi
endif
$(B)/mpi/main.o: engine/emulate/mpi/main.c
	@mkdir -p $(@D)
	OMPI_CC=$(CC) $(MPICC) $(CFLAGS) -Iengine -c $< -o $@
$(B)/mpi/shell.o: repl/main.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -DREADLINE_$(READLINE) -Dmain=gspmd_main -Wno-missing-prototypes -Iengine -I. -c $< -o $@
$(B)/gspmd-mpi: $(B)/mpi/main.o $(B)/mpi/shell.o $(filter-out $(B)/repl/main.o,$(REPL_OBJ)) $(VIZ_OBJ) $(ENGINE_OBJ)
	OMPI_CC=$(CC) $(MPICC) $(LDFLAGS) $^ -o $@ $(READLINE_LIBS) $(LIBS)

# A unit test tests/unit/LAYER_NAME.c links that layer and those below it: what links is what the
# layer needs.
below = $(wordlist 1,$(words $(shell echo $(LAYERS) | sed 's/\b$(1)\b.*/$(1)/')),$(LAYERS))
define UNIT_RULE
$(B)/unit/$(1): tests/unit/$(1).c $(if $(filter repl,$(2)),$(filter-out $(B)/repl/main.o,$(REPL_OBJ))) $(if $(filter viz repl,$(2)),$(VIZ_OBJ) $(ENGINE_OBJ),$(foreach l,$(call below,$(2)),$(OBJ_$(l))))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $$(filter %.c %.o,$$^) -o $$@ -lcmocka $(if $(filter repl,$(2)),$(READLINE_LIBS)) $(LIBS)
endef
$(foreach u,$(UNIT_SRC:tests/unit/%.c=%),$(eval $(call UNIT_RULE,$(u),$(firstword $(subst _, ,$(u))))))

unit: $(UNIT_BIN)

# ---- installing what is missing, tests ---------------------------------------------------------

setup:
	@sh scripts/setup.sh

BENCH_BIN := $(B)/bench $(B)/bench_propagation $(B)/bench_kernels $(B)/bench_partitioner $(B)/bench_steady
SWEEP_BIN := $(B)/verify_sweep $(B)/verify_table
test-build: all unit $(BENCH_BIN) $(SWEEP_BIN)

test: setup
	@$(MAKE) --no-print-directory $(if $(SAN),SAN=$(SAN)) test-build
	@SANFLAGS='$(if $(SAN),-fsanitize=$(SAN))' sh scripts/run_tests.sh $(B)

check-layers: $(ENGINE_OBJ)
	@sh scripts/check_layers.sh $(B) $(LAYERS)

# A real dump, the main job, and the prompt where there is a terminal.
demo: setup
	@$(MAKE) --no-print-directory all
	@$(B)/gspmd -n -C 'source scripts/demo.gspmd' models/transformer_layer.hlo

# Agreement with XLA over the shared reference material: our runner, then the comparison program.
SHARED ?= ../shared
conformance: all
	-$(B)/gspmd-conformance $(SHARED)/corpus $(SHARED)/cases
	$(B)/gspmd-conformance $(SHARED)/inputs
	-python3 $(SHARED)/oracle/compare.py --gspmd $(B)/gspmd corpus $(SHARED)/corpus/propagation.jsonl
	-python3 $(SHARED)/oracle/compare.py --gspmd $(B)/gspmd partitioner $(SHARED)/corpus/partitioner.jsonl
	-python3 $(SHARED)/oracle/compare.py --gspmd $(B)/gspmd cases $(SHARED)/cases/cases.jsonl
	-python3 $(SHARED)/oracle/compare.py --gspmd $(B)/gspmd files $(sort $(wildcard $(SHARED)/inputs/*_small.hlo $(SHARED)/inputs/*_small.hlo.gz))

$(B)/bench: tests/bench/bench.c $(ENGINE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $(filter %.c %.o,$^) -o $@ $(LIBS)
$(B)/bench_kernels: tests/bench/kernels.c $(ENGINE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $(filter %.c %.o,$^) -o $@ $(LIBS)
$(B)/bench_propagation: tests/bench/propagation.c $(ENGINE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $(filter %.c %.o,$^) -o $@ $(LIBS)
$(B)/bench_steady: tests/bench/steady.c $(ENGINE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $(filter %.c %.o,$^) -o $@ $(LIBS)
$(B)/bench_partitioner: tests/bench/partitioner.c $(ENGINE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $(filter %.c %.o,$^) -o $@ $(LIBS)
$(SWEEP_BIN): $(B)/%: tests/sweep/%.c $(ENGINE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iengine -I. $(LDFLAGS) $(filter %.c %.o,$^) -o $@ $(LIBS)
# op x collective x even / uneven x number of devices, all proved equal.
verify-table: $(B)/verify_table
	$(B)/verify_table -t 12
# Operation x element type against XLA's numbers.
kernel-table: all
	python3 tests/bench/op_dtype.py $(B)/gspmd $(SHARED)
bench: all $(BENCH_BIN)
	@sh tests/bench/run.sh $(B) $(SHARED)

# How often each propagation rule fired and was decisive, over the reference material and N random modules.
rules: all
	@python3 tests/scripts/rules.py $(B)/gspmd $(SHARED) $(N)

# Each listed fault in turn must turn a test red.
mutants: setup
	@sh tests/mutants/run.sh $(MUTANTS)

# ---- fuzzing -------------------------------------------------------------------------------------

# T seconds for each fuzzer; coverage-guided with clang's libFuzzer where it is installed, else a
# mutator of our own (tests/fuzz/standalone.c) over the same targets.
T ?= 60
fuzz:
	@sh tests/fuzz/run.sh $(T) $(FUZZ)

fuzz-objects: $(REPL_OBJ) $(VIZ_OBJ)

coverage: setup
	@sh scripts/coverage.sh

# ---- pictures, packages, installation ------------------------------------------------------------

pictures: all
	@sh scripts/pictures.sh $(B)

portable: setup
	@sh scripts/portable.sh

# The GSPMD paper's eight tables, ours beside the printed ones: assets/paper.md and two plots.
paper: all
	@sh scripts/paper/page.sh $(B)/gspmd

PREFIX ?= /usr/local
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	  $(DESTDIR)$(PREFIX)/share/gspmd/models $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(B)/gspmd $(DESTDIR)$(PREFIX)/bin/gspmd
	$(B)/gspmd --man > $(DESTDIR)$(PREFIX)/share/man/man1/gspmd.1
	$(B)/gspmd --completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gspmd
	install -m 644 models/*.json models/*.hlo models/README.md $(DESTDIR)$(PREFIX)/share/gspmd/models
uninstall:
	rm -rf $(DESTDIR)$(PREFIX)/bin/gspmd $(DESTDIR)$(PREFIX)/share/man/man1/gspmd.1 \
	  $(DESTDIR)$(PREFIX)/share/gspmd $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gspmd

format:
	clang-format -i $(shell find engine viz repl tests -name '*.[ch]')
analyze:
	cppcheck --quiet --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  --suppress=missingIncludeSystem -Iengine -I. engine viz repl

.PHONY: all rules paper unit clean setup test test-build check-layers demo conformance bench verify-table kernel-table mutants fuzz fuzz-objects coverage \
        pictures portable install uninstall format analyze
clean:
	rm -rf build build-*

-include $(shell find $(B) -name '*.d' 2>/dev/null)
