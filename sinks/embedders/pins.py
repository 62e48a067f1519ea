"""The models that are fetched from their hub: which revision, which bytes.

The sums were not taken from files that we loaded (the machine that this was written on reaches
no hub), but are those that several public projects have pinned for this revision independently
of each other. Should one be wrong, the fetch is refused and says which sum it found.
"""

from __future__ import annotations

from memsearch.sinks.embedders.hub import Pinned, PinnedFile
from memsearch.sinks.embedders.presets import BGE_M3

#: BGE-M3 with 8-bit weights: the network, and its tokenizer.
BGE_M3_FILES = Pinned(
    BGE_M3,
    "onnx-community/bge-m3-ONNX",
    "25b9af8e87a38eb120cfe87125383677b9cd309e",
    (
        PinnedFile(
            "onnx/model_int8.onnx",
            568_479_395,
            "2237f770aad5c71bbc1fc2d361a57f9a37400574cc9eff32626f0cdb49234730",
        ),
        PinnedFile(
            "tokenizer.json",
            17_082_799,
            "249df0778f236f6ece390de0de746838ef25b9d6954b68c2ee71249e0a9d8fd4",
        ),
    ),
)
