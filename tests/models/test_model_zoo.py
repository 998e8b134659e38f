"""Architectures of transformers, one or two of a family; `docs/make_models.py` measures all of them."""

from __future__ import annotations

import pytest
from zoo import ARCHITECTURES
from zoo.measure import ABSENT, CLOSE, SAME, Framelift, forward, generation, training

WHOLE = [
    "DistilBERT",
    "DeBERTa v2",
    "FNet",
    "Llama, static",
    "Llama, quantized",
    "Gemma 3, static hybrid",
    "Mamba 2",
    "ConvNeXT",
    "Swin",
    "wav2vec 2",
    "CLIP",
]
IN_ANOTHER_ORDER = {"Llama, static", "Gemma 3, static hybrid"}
"""Masks for static caches: these models ask `is_compiling()` and then compute in another order, with
`torch.compile` too."""
GENERATING = {"GPT-J": 3, "Llama": 3, "Whisper": 3}
"""Name -> how many graphs eight tokens take: the prompt, the second token, all that follow."""


@pytest.mark.parametrize("name", WHOLE)
def test_an_architecture_is_one_graph_and_does_what_eager_does(name: str) -> None:
    architecture, system = ARCHITECTURES[name], Framelift()
    assert forward(architecture, system.compile) == (CLOSE if name in IN_ANOTHER_ORDER else SAME)
    system.look()
    assert system.whole, system.where
    assert training(architecture, Framelift().compile) in (SAME, ABSENT)


@pytest.mark.parametrize("name", GENERATING)
def test_generated_tokens_are_those_of_eager(name: str) -> None:
    architecture, system = ARCHITECTURES[name], Framelift()
    assert generation(architecture, system.compile) == SAME
    system.look()
    assert (system.graphs, system.breaks) == (GENERATING[name], [])


def test_experts_that_depend_on_data_break_and_are_right() -> None:
    architecture, system = ARCHITECTURES["Mixtral, one by one"], Framelift()
    assert forward(architecture, system.compile) in (SAME, CLOSE)
    system.look()
    assert "data-dependent shape" in system.breaks
