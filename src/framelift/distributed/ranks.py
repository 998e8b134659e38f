"""What the ranks of a distributed program do together when they compile, as `dispatch` asks for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from framelift.core.config import config
from framelift.core.errors import RankFailed, RanksDisagree
from framelift.dispatch.compile_contexts import CodeState
from framelift.dispatch.extensions import Outcome, Ranks, RunningCompilation
from framelift.distributed import agreement
from framelift.distributed.capture_once import capture_for_all
from framelift.distributed.rank_channel import agreement_channel, capture_channel


class DistributedRanks(Ranks):
    """Ranks that agree on what they compile, and of which one may capture for all. What they do is up to
    `framelift.config`; without a process group each is alone."""

    def meet_on_each_call(self) -> bool:
        """Only so it is known that another rank has to compile."""
        return config.rank_agreement == "agree" and agreement_channel() is not None

    def all_have_entry(self, state: CodeState, found: bool) -> bool:
        channel = agreement_channel() if config.rank_agreement == "agree" else None
        return found if channel is None else agreement.all_have_entry(channel, state, found)

    @contextlib.contextmanager
    def announce_failures(self) -> Iterator[None]:
        channel = agreement_channel()
        try:
            yield
        except (RankFailed, RanksDisagree):
            raise  # which all ranks know of
        except BaseException as error:
            if channel is not None:
                channel.announce_failure(error)
            raise

    def capture(self, compilation: RunningCompilation) -> Outcome:
        outcome, state, channel = self.capture_alone(compilation), compilation.state, agreement_channel()
        if channel is None:
            return outcome
        return agreement.agree_on_outcome(channel, state, outcome, compilation.trace)

    def capture_alone(self, compilation: RunningCompilation) -> Outcome:
        """Without looking at what comes of it on the others. One rank captures for all at most once: when a
        function is compiled again, that may be for what only one rank has met."""
        state, channel = compilation.state, capture_channel()
        if channel is None or state.was_shared or compilation.context.guard_filter_fn is not None:
            return compilation.trace()
        state.was_shared = True
        return capture_for_all(channel, compilation)

    def wait_for_backends(self, state: CodeState) -> None:
        channel = agreement_channel()
        if channel is not None:
            agreement.wait_for_backends(channel, state)
