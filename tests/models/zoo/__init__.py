"""Architectures of transformers, tiny and with random weights: what `docs/make_models.py` measures.

    case = ARCHITECTURES["Llama"].build()
    case.model(**case.inputs())

Nothing is downloaded. Each row of a table names a model class and says in what its config differs from the
sizes that all have; sizes are those at which building and running take milliseconds.
"""

from __future__ import annotations

from zoo.architecture import Architecture, Case
from zoo.audio import AUDIO
from zoo.caches import CACHES
from zoo.decoders import DECODERS
from zoo.encoders import ENCODERS
from zoo.experts import EXPERTS
from zoo.multimodal import MULTIMODAL
from zoo.sequences import SEQUENCES
from zoo.state_space import STATE_SPACE
from zoo.vision import VISION

__all__ = ["ARCHITECTURES", "FAMILIES", "Architecture", "Case"]

FAMILIES: dict[str, list[Architecture]] = {
    "text encoder": ENCODERS,
    "decoder": DECODERS,
    "decoder, kinds of cache": CACHES,
    "mixture of experts": EXPERTS,
    "state space, linear attention": STATE_SPACE,
    "encoder and decoder": SEQUENCES,
    "vision": VISION,
    "audio": AUDIO,
    "multimodal": MULTIMODAL,
}

ARCHITECTURES = {one.name: one for rows in FAMILIES.values() for one in rows}
