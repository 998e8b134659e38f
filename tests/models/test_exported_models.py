"""Architectures of transformers as artifacts; `docs/make_export.py` exports all of them."""

from __future__ import annotations

import warnings

import pytest
import torch
from zoo import ARCHITECTURES

import framelift
from exporting.check_export import run, same, saved_and_loaded

EXPORTED = [
    *("DistilBERT", "DeBERTa v2", "FNet", "GPT-2", "Llama", "Gemma 3", "Mamba 2", "ResNet", "Swin"),
    *("wav2vec 2", "CLIP", "T5"),
]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_architecture_is_exported_saved_and_loaded(name: str) -> None:
    case = ARCHITECTURES[name].build()
    for module in case.model.modules():  # a cache in the result is an object that torch does not know
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False
    inputs = case.inputs()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = framelift.export(case.model, (), inputs, strict=False)
        expected = run(case.model, (), inputs)[0]
        found = run(saved_and_loaded(program).module(), (), inputs)[0]
    same(expected, found)
