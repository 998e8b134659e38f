# `make demo` and `make test` do all the set-up on a fresh clone; a second run installs nothing.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:

TORCH := torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3)
NATIVE := $(wildcard src/framelift/native/*)
# Arguments for `make bench` and `make test`, for example BENCH="--quick --only overhead" TEST="-k closures".
BENCH ?=
TEST ?=
EXPORT ?=

# What the pages of the site are made from, and where it is put.
SITE := build/site

# The browser for `make test-browser`, and what it is called where it is not named.
CHROMIUM ?=
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable

.PHONY: help demo docs test test-thorough lint bench sweep models sizes clients export-sweep test-random test-memory test-cpython test-cpython-captured \
  test-browser test-torchless test-cpython-torchless setup clean distclean

help:
	@echo "make demo            capture, compile and run a Hugging Face model"
	@echo "make test            lint, types, layer rules and tests"
	@echo "make test-thorough   the same with all of the large catalogues, of which make test runs a part"
	@echo "make lint            the first three of those"
	@echo "make bench           the comparison with torch.compile"
	@echo "make sweep           torch's own operators and modules: the share captured, into docs/coverage.md"
	@echo "make models          docs/models.md: the architectures of transformers, compared with eager"
	@echo "make clients         docs/clients.md: libraries over compiled modules, in an environment of their own"
	@echo "make export-sweep    docs/export.md: the same exported; EXPORT=\"--part 2/4\" for a part of them"
	@echo "make sizes           docs/dynamic_shapes.md: how often they compile when sizes vary"
	@echo "make docs            the documentation as a site, in $(SITE); a link that leads nowhere is an error"
	@echo "make test-browser    the page that explain makes, in a real browser (installs chromium on Debian)"
	@echo "make test-random     5,000 random programs, compared with eager; RANDOM_PROGRAMS=\"--time 600 --jobs 8 --area numbers\""
	@echo "make test-memory     10,000 functions compiled and dropped: memory stays flat"
	@echo "make test-cpython    CPython's own tests, interpreted: the share that behaves as natively"
	@echo "make test-cpython-captured  the same tests within a compiled function: traced, guarded, broken, replayed"
	@echo "make test-torchless  hook, bytecode and interpreter without torch, on PYTHON=python3.12"
	@echo "make test-cpython-torchless  CPython's own tests, interpreted, in the same environment"
	@echo "make clean           remove builds and caches; make distclean: the environments too"

demo: setup
	@$(BIN)/python examples/demo.py

# With hashes that are always the same: where a set of strings breaks a capture depends on them.
test: lint
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 2 $(TEST)

test-thorough: lint
	@FRAMELIFT_THOROUGH=1 $(BIN)/python -m pytest -n 2 $(TEST)

lint: setup
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: setup $(VENV)/.docs
	@$(BIN)/python docs/make_reasons.py
	$(BIN)/python docs/make_comparison.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(SITE)
	$(BIN)/python docs/check_site.py $(SITE)

test-browser: setup
	@$(FIND_BROWSER)
	CHROMIUM=$$browser $(BIN)/python -m pytest tests/report/report_in_browser.py $(TEST)

test-random: setup
	@$(BIN)/python tests/fuzzing/random_programs.py $(or $(RANDOM_PROGRAMS),--count 5000)

test-memory: setup
	@$(BIN)/python tests/dispatch/memory_rounds.py $(MEMORY_ROUNDS)

test-cpython: setup
	@$(BIN)/python tests/cpython --mode interpreted $(CPYTHON)

test-cpython-captured: setup
	@$(BIN)/python tests/cpython --mode captured $(CPYTHON)

sweep: setup
	@$(BIN)/python docs/make_coverage.py

models: setup
	@$(BIN)/python docs/make_models.py $(MODELS)

export-sweep: setup
	@$(BIN)/python docs/make_export.py $(EXPORT)

sizes: setup
	@$(BIN)/python docs/make_sizes.py $(MODELS)

clients: setup $(VENV)-clients/.made
	@$(VENV)-clients/bin/python docs/make_clients.py $(CLIENTS)

bench: setup
	@$(BIN)/python -m bench $(BENCH)

test-torchless:
	@$(MAKE_TORCHLESS)
	# The tests' own conftest files end at tests/torchless: those above it may import torch.
	PYTHONPATH=src $$venv/bin/python -m pytest --confcutdir=tests/torchless tests/torchless $(TEST)

test-cpython-torchless:
	@$(MAKE_TORCHLESS)
	PYTHONPATH=$(CURDIR)/src $$venv/bin/python tests/cpython --mode interpreted $(CPYTHON)

clean:
	@rm -rf build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f src/framelift/*.so $(VENV)/.built
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	@rm -rf $(VENV) $(VENV)-clients .venv-torchless-*

# Set-up, one stamp per step: the environment, torch, the package with its tools, the extensions.

setup: $(VENV)/.built

$(VENV)/.made:
	@$(FIND_PYTHON)
	$(NEED_COMPILERS)
	$(call MAKE_VENV,$(VENV))
	touch $@

$(VENV)/.torch: $(VENV)/.made
	@$(BIN)/pip install setuptools wheel || $(call SAY,$(NO_INDEX))
	$(BIN)/pip install $(TORCH) || $(call SAY,$(NO_INDEX))
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	@$(BIN)/pip install --no-build-isolation -e .[dev] || $(call SAY,$(NO_INSTALL))
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	@extra='import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")'
	$(BIN)/python -c "$$extra" | $(BIN)/pip install -q -r /dev/stdin || $(call SAY,$(NO_INDEX))
	touch $@

$(VENV)/.built: $(VENV)/.installed setup.py $(NATIVE)
	@$(BIN)/python setup.py -q build_ext --inplace
	touch $@

# Libraries that only `make clients` needs, beside the packages of $(VENV) and without what would bring another torch.
CLIENT_PACKAGES := accelerate peft lightning lightning-utilities torchmetrics tensordict pyvers orjson cloudpickle torchdiffeq scipy \
  gpytorch linear-operator jaxtyping wadler-lindig pyro-ppl pyro-api opt-einsum torchao e3nn opt-einsum-fx torch-geometric \
  diffusers psutil pyparsing scikit-learn joblib threadpoolctl narwhals importlib_metadata zipp aiohttp xxhash requests urllib3 \
  idna certifi charset-normalizer

$(VENV)-clients/.made: $(VENV)/.built
	@$(BIN)/python -m venv $(VENV)-clients
	$(VENV)-clients/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(VENV)-clients/.site
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$(cat $(VENV)-clients/.site)/shared.pth"
	$(VENV)-clients/bin/pip install -q --no-deps $(CLIENT_PACKAGES) || $(call SAY,$(NO_INDEX))
	touch $@

# What may be missing is said in one sentence.

SAY = { echo "framelift: $(1)" >&2; exit 1; }
NO_INDEX := pip could not install a package (its message is above): check that it can reach a package index.
NO_INSTALL := installing or building the package failed: the first error above says why.

# Leaves in $python the first candidate that runs and is CPython 3.11, 3.12 or 3.13. A pyenv shim may exist for a
# version that is installed but not selected, hence the second try.
define FIND_PYTHON
probe='import sys; assert sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14)'
python=
for candidate in $(CANDIDATES); do
  for pyenv in "" "$$(pyenv latest "$${candidate#python}" 2>/dev/null || true)"; do
    python=$$(PYENV_VERSION=$$pyenv "$$candidate" -c "$$probe; print(sys.executable)" 2>/dev/null) && break 2
  done
done
[ -n "$$python" ] || $(call SAY,no CPython 3.11, 3.12 or 3.13 among: $(CANDIDATES). Install one or name it with PYTHON=/path/to/python3.11.)
endef

define NEED_COMPILERS
include=$$("$$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$$include/Python.h" ] || \
  $(call SAY,$$python has no C headers (Python.h): install the development package of that Python (python3-dev or python3-devel).)
echo 'int main() {}' | $(CC) -x c -fsyntax-only - 2>/dev/null || \
  $(call SAY,no C compiler ($(CC)): install one such as gcc or name it with CC=...)
echo 'int main() {}' | $(CXX) -x c++ -std=c++20 -fsyntax-only - 2>/dev/null || \
  $(call SAY,no C++20 compiler ($(CXX)): install one such as g++ or name it with CXX=...)
endef

# Leaves in $browser a chromium: the one that is named, one that is there, or the one that Debian has.
define FIND_BROWSER
find_browser() { command -v $(or $(CHROMIUM),$(BROWSERS)) 2>/dev/null | head -n 1; }
browser=$$(find_browser || true)
if [ -z "$$browser" ] && [ -z "$(CHROMIUM)" ] && command -v apt-get >/dev/null; then
  as_root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n")
  install() { $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
  install || { $$as_root apt-get update -qq && install; } || true
  browser=$$(find_browser || true)
fi
[ -n "$$browser" ] || $(call SAY,no browser ($(or $(CHROMIUM),$(BROWSERS))): install chromium (Debian: apt-get install chromium) or name one with CHROMIUM=/path/to/chromium.)
endef

# Leaves in $venv an environment without torch for the version that was found, with the hook built for it.
define MAKE_TORCHLESS
$(FIND_PYTHON)
version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=.venv-torchless-$$version
if [ ! -f $$venv/.made ]; then
  $(NEED_COMPILERS)
  $(call MAKE_VENV,$$venv)
  $$venv/bin/pip install -q setuptools pytest hypothesis || $(call SAY,$(NO_INDEX))
  touch $$venv/.made
fi
FRAMELIFT_TORCHLESS=1 $$venv/bin/python setup.py -q build_ext --inplace
endef

MAKE_VENV = "$$python" -m venv $(1) || \
  $(call SAY,$$python cannot make a virtual environment: install its venv module (python3-venv).)
