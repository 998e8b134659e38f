"""`config.cprofile`: each compilation is run under cProfile, and leaves what that found in a file."""

from __future__ import annotations

import contextlib
import cProfile
import os
import re
import tempfile
from collections.abc import Iterator

from framelift.core.config import config
from framelift.core.logs import ROOT
from framelift.dispatch.extensions import Observer, RunningCompilation


class CompileProfiles(Observer):
    """Files for `pstats`, named after the function: in the compilation's folder if there is a
    `config.debug_dir`, otherwise where temporary files are."""

    @contextlib.contextmanager
    def around_compilation(self, compilation: RunningCompilation) -> Iterator[None]:
        if not config.cprofile:
            yield
            return
        profile = cProfile.Profile()
        try:
            profile.enable()
        except ValueError:  # another profiler is at work, which sees this too
            yield
            return
        try:
            yield
        finally:
            profile.disable()
            record = compilation.record
            name = re.sub(r"[^\w.-]+", "_", f"{record.name}_{record.compile_id}")
            path = os.path.join(record.folder or tempfile.gettempdir(), f"framelift_{name}.profile")
            profile.dump_stats(path)
            ROOT.warning("the profile of a compilation of %s is in %s", record.name, path)
