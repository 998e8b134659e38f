"""CPython's own tests under Framelift: what share of those that pass natively behaves as natively.

    python tests/cpython                              all modules, interpreted
    python tests/cpython --mode captured test_list    one module, within a compiled function

Each module runs in a process of its own (`worker.py`). What differs must be listed in `known.py` with the
reason: `!` marks what is not, `?` what is listed but passes.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from known import KNOWN, MODULES, NOT_TRIED, Known
from worker import CPU_SECONDS

HERE = Path(__file__).resolve().parent
PATIENCE = 240.0
"""How many seconds a single test may take, whatever else the machine does. See the worker's too."""


@dataclass
class Found:
    """What one module's tests did."""

    module: str
    outcomes: dict[str, str] = field(default_factory=dict)
    missing: str | None = None
    seconds: float = 0.0

    @property
    def counted(self) -> dict[str, str]:
        """Those that pass natively, and would again."""
        return {test: outcome for test, outcome in self.outcomes.items() if outcome != "once"}

    @property
    def differing(self) -> dict[str, str]:
        return {test: outcome for test, outcome in self.counted.items() if outcome != "passed"}


# Running


def run(module: str, mode: str) -> Found:
    """Runs a module's tests, and those that are left where one ended the process or took too long."""
    found = Found(module)
    if importlib.util.find_spec("test") is None or importlib.util.find_spec(f"test.{module}") is None:
        found.missing = "this interpreter does not have it"
        return found
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(30):
            report = Path(folder, f"{attempt}.jsonl")
            report.touch()
            how = watched(module, mode, report, [*slow_ones(module, mode), *found.outcomes], folder)
            lines = [json.loads(line) for line in report.read_text().splitlines()]
            found.outcomes |= {line["test"]: line["outcome"] for line in lines if "test" in line}
            if any("finished" in line for line in lines):
                break
            started = [line["started"] for line in lines if "started" in line]
            if not started:
                found.missing = f"{how} in its import"
                return found
            found.outcomes[started[-1]] = how
        else:
            found.missing = f"{how} in {started[-1]}"
    found.seconds = time.perf_counter() - began
    return found


def slow_ones(module: str, mode: str) -> list[str]:
    """Patterns of tests that are not even tried."""
    slow = [known.tests for known in KNOWN if known.reason in NOT_TRIED and mode in known.modes]
    return [tests for tests in slow if tests.startswith(f"{module}::")]


def watched(module: str, mode: str, report: Path, left_out: list[str], folder: str) -> str:
    """Runs the worker while its report grows; says how it ended."""
    worker = subprocess.Popen(
        [sys.executable, str(HERE / "worker.py"), f"test.{module}", mode, str(report), *left_out],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:]), "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    size, since = 0, time.monotonic()
    while worker.poll() is None:
        time.sleep(0.05)
        if report.stat().st_size != size:
            size, since = report.stat().st_size, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            worker.kill()
            worker.wait()
            return f"takes more than {PATIENCE:.0f} s"
    if worker.returncode == -signal.SIGPROF:
        return f"takes more than {CPU_SECONDS} s"
    return f"ends the process ({worker.returncode})"


# Reporting


def reason_for(module: str, test: str, mode: str) -> Known | None:
    return next((known for known in KNOWN if known.covers(module, test, mode)), None)


def lines_of(found: Found, mode: str) -> Iterator[str]:
    if found.missing is not None:
        yield f"{found.module:24} not run: {found.missing}"
        return
    counted, differing = len(found.counted), found.differing
    right = counted - len(differing)
    share = right / max(counted, 1)
    yield f"{found.module:24} {right:5} of {counted:5}  {share:7.2%}  {found.seconds:5.0f} s"
    for test, outcome in differing.items():
        known = reason_for(found.module, test, mode)
        yield f"    {test}: {known.reason}" if known else f"  ! {test}: {outcome}"
    for known in needless(found, mode):
        yield f"  ? {known.tests.partition('::')[2]}: listed, but passes"


def needless(found: Found, mode: str) -> Iterator[Known]:
    """Entries of the list whose tests were run here and all passed; another version may need them."""
    for known in KNOWN:
        covered = {found.counted[test] for test in found.counted if known.covers(found.module, test, mode)}
        if covered == {"passed"}:
            yield known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="module")
    parser.add_argument("--mode", choices=("interpreted", "captured"), default="interpreted")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many modules at a time")
    options = parser.parse_args()
    total = right = new = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(run, options.modules, [options.mode] * len(options.modules)):
            print(*lines_of(found, options.mode), sep="\n", flush=True)
            total += len(found.counted)
            right += len(found.counted) - len(found.differing)
            new += sum(reason_for(found.module, test, options.mode) is None for test in found.differing)
            new += found.missing is not None and not found.missing.startswith("this interpreter")
    print(f"{options.mode}: {right} of {total} that pass natively behave so ({right / max(total, 1):.2%});")
    print(f"{new} without a reason in the list" if new else "the others are listed with their reasons")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
