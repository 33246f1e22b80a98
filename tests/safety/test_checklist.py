"""What a safe server does, point by point, and the tests that attack each."""

import re
from pathlib import Path
from typing import Final

POINTS: Final = {
    "1 nothing is unpickled, evaluated or given to a shell": (
        "test_no_file_of_ours_unpickles_evaluates_or_calls_a_shell",
    ),
    "2 one rule for names, before any file is looked for": (
        "test_b29_strange_names_are_unknown_models_and_are_shown_escaped",
        "test_no_path_of_such_parts_changes_anything",
        "test_refusals_are_alike_for_what_exists_and_what_does_not",
    ),
    "3 sizes are multiplied exactly and capped, inflated and summed ones too": (
        "test_b04_a_shape_that_is_none_is_400",
        "test_b29_a_compressed_body_that_swells_is_413",
        "test_b29_a_compressed_message_that_swells_is_refused_before_it_does",
        "test_b29_many_inputs_whose_sum_is_over_the_limit_are_413",
        "test_b29_a_body_of_many_things_is_400_and_takes_little_more_than_itself",
        "test_a_message_of_many_things_is_refused_before_it_is_parsed",
        "test_b29_what_does_not_end_ends_the_connection",
    ),
    "4 queues, bytes, connections and streams are bounded by default": (
        "test_a_silent_connection_makes_room_and_a_busy_one_does_not",
        "test_ten_thousand_idle_connections_take_little_memory_and_others_are_served",
        "test_bodies_that_are_on_their_way_are_bounded_together",
        "test_rapid_reset_is_bounded",
        "test_streams_of_one_connection_are_as_many_as_it_was_told",
        "test_a_stream_that_nobody_reads_waits_and_ends_with_its_caller",
        "test_every_setting_is_printed",
    ),
    "5 what changes the server is apart, closed, and asked of one function": (
        "test_no_spelling_of_what_is_closed_is_open",
        "test_no_spelling_of_a_call_that_is_closed_is_open",
        "test_nothing_is_routed_that_is_not_listed",
        "test_a_route_that_takes_a_token_is_closed_without_it",
        "test_an_rpc_that_takes_a_token_is_closed_without_it",
        "test_only_who_shows_a_certificate_that_was_asked_for_is_answered",
    ),
    "6 no caller gives a path": (
        "test_what_cannot_be_set_is_refused_and_nothing_changes",
        "test_neither_a_configuration_nor_a_file_comes_from_a_caller",
    ),
    "7 shared memory: a region is its owner's, and its bounds are checked at each use": (
        "test_b29_bytes_that_are_not_there_are_refused",
        "test_a_region_belongs_to_the_token_that_registered_it",
    ),
    "8 whatever comes, one answer goes out": (
        "test_the_corpus_is_answered",
        "test_a_valid_message_of_odd_fields_is_answered",
        "test_fuzzing_guided_by_coverage_finds_nothing",
        "test_what_is_made_of_the_document_is_answered_as_it_says",
    ),
    "9 nobody gets another's rows": (
        "test_b05_who_lies_about_its_bytes_disturbs_nobody_in_its_batch",
        "test_b15_wrong_row_count_from_a_model",
        "test_b16_join_by_identity",
    ),
    "10 errors tell no internals, log lines cannot be forged": (
        "test_what_a_caller_writes_forges_no_line_of_the_log",
        "test_no_secret_is_printed",
        "test_what_a_bug_of_ours_says_is_for_the_log_alone",
    ),
    "11 models come from the server's own folder alone": (
        "test_neither_a_configuration_nor_a_file_comes_from_a_caller",
        "test_who_may_load_brings_plans_that_are_data_where_the_operator_lets_him",
    ),
    "12 it listens on this machine unless told otherwise": (
        "test_every_setting_is_printed",
        "test_wrong_usage_is_told",
    ),
    "13 a bad model or worker does not take the server along": (
        "test_b27_dead_worker",
        "test_b14_poison_item",
    ),
    "B28 types on the wire": ("test_b28_what_json_has_no_number_for_is_400",),
    "B29 hostile bodies": ("test_b29_what_does_not_end_ends_the_connection",),
}
HERE: Final = Path(__file__).parents[1]


def test_every_point_has_tests_and_they_are_there() -> None:
    there = {
        name
        for path in HERE.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    }
    named = {name for names in POINTS.values() for name in names}
    assert sorted(named - there) == []


FORBIDDEN: Final = re.compile(
    r"\b(import (pickle|marshal|shelve|dill)|from (pickle|marshal|shelve|dill) import|"
    r"(?<![.\w])(?<!def )(eval|exec)\(|shell=True|os\.(system|popen)\(|allow_pickle=True)"
)


def test_no_file_of_ours_unpickles_evaluates_or_calls_a_shell() -> None:
    found = {
        f"{path.relative_to(HERE.parent)}: {match.group()}"
        for folder in ("runtime", "compiler", "stdlib", "dsl", "src/headrace/cli")
        for path in (HERE.parent / folder).rglob("*.py")
        for match in FORBIDDEN.finditer(path.read_text("utf-8"))
    }
    assert found == {"runtime/backends/python.py: exec("}  # a stage's source, of the plan


WALL: Final = re.compile(r"\btime\.(time|time_ns|localtime|ctime)\(|datetime\.(now|utcnow|today)\(")


def test_a_clock_that_jumps_ends_nothing_early_and_nothing_late() -> None:
    """Only what is written down for people reads the clock on the wall: from when the times of
    answers are counted, when a span began, when a line of the log was written."""
    found = {
        f"{path.relative_to(HERE.parent)}: {match.group()}"
        for folder in ("runtime", "compiler", "stdlib", "src/headrace")
        for path in (HERE.parent / folder).rglob("*.py")
        for match in WALL.finditer(path.read_text("utf-8"))
    }
    assert found == {
        "runtime/metrics.py: time.time(",
        "runtime/observe/log.py: time.time(",
        "runtime/observe/otel.py: time.time_ns(",
    }
