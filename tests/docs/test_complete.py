"""The documentation leaves out no word of the language and no key of a schedule."""

import re
from pathlib import Path

import pytest

from headrace.compiler.schedule import PIPELINE_KEYS, SEQUENCE_KEYS
from headrace.compiler.schedule_queue import PRIORITY_KEYS, QUEUE_KEYS
from headrace.compiler.schedule_service import ISOLATE_KEYS
from headrace.compiler.schedule_stage import BATCH_KEYS, STAGE_KEYS
from headrace.dsl.token import CONTEXT_WORDS, ITEM_WORDS, RESERVED_WORDS

DOCS = Path(__file__).parents[2] / "docs"
KEYS = (
    *(PIPELINE_KEYS, SEQUENCE_KEYS, PRIORITY_KEYS, QUEUE_KEYS, ISOLATE_KEYS, BATCH_KEYS),
    STAGE_KEYS,
)


def examples(page: str) -> set[str]:
    """Return the words of a page's programs, which other tests hold to being right."""
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"^```pipe[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"[a-z_]+", "\n".join(blocks)))


@pytest.mark.parametrize("word", sorted({*RESERVED_WORDS, *CONTEXT_WORDS, *ITEM_WORDS}))
def test_each_word_of_the_language_has_an_example(word: str) -> None:
    assert word in examples("language.md")


@pytest.mark.parametrize("key", sorted({one for keys in KEYS for one in keys.served}))
def test_each_key_of_a_schedule_has_an_example(key: str) -> None:
    assert key.partition("(")[0] in examples("schedules.md")
