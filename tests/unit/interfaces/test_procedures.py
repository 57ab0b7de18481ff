"""Calls of Iceberg's procedures: how they are read, and which command of ours they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_compaction import errors
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.interfaces.procedures import call_syntax, iceberg_options, our_command
from iceberg_compaction.model.policies import JobOrder, Policy

NOW = 1_780_000_000_000  # 2026-05-28T20:26:40Z
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "procedures.md"


def command(statement: str) -> our_command.OurCommand:
    return our_command.translate(call_syntax.parse(statement), NOW)


def words(arguments: str, procedure: str = "rewrite_data_files") -> str:
    ours = command(f"CALL lake.system.{procedure}({arguments})")
    return " ".join([ours.verb, *ours.words])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'db.t'", "run --table db.t"),
        ("table => 'lake.db.t'", "run --table db.t"),
        ("'db.t', 'binpack'", "run --table db.t"),
        ("'db.t', 'sort', 'id DESC NULLS_LAST'", "run --table db.t --strategy sort --sort-order id DESC NULLS LAST"),
        ("'db.t', strategy => 'sort'", "run --table db.t --strategy sort"),
        ("'db.t', sort_order => 'zorder(a,b)'", "run --table db.t --strategy dimensional --cluster-by a,b"),
        ("table => 'db.t', where => 'a = ''x'''", "run --table db.t --where a = 'x'"),
        ('table => "db.t", where => "a = \'x\'"', "run --table db.t --where a = 'x'"),
        ("'db.t', options => map('rewrite-all', 'true')", "run --table db.t --rewrite-all"),
        ("'db.t', options => map('rewrite-all', 'false')", "run --table db.t"),
        ("'db.t', options => map('partial-progress.enabled', false)", "run --table db.t --no-partial-progress"),
        (
            "'db.t', options => map('partial-progress.enabled','true','partial-progress.max-commits','3')",
            "run --table db.t --partial-progress --partial-progress-max-commits 3",
        ),
        ("'db.t', options => map('use-starting-sequence-number', 'true')", "run --table db.t"),
        ("'db.t', options => map('snapshot-property.team', 'a=b')", "run --table db.t --snapshot-property team=a=b"),
        ("'db.t', branch => 'audit'", "run --table db.t --branch audit"),
        (
            "'db.t', options => map('Rewrite_Job_Order', 'BYTES-DESC')",
            "run --table db.t --rewrite-job-order bytes-desc",
        ),
        ("'db.t', NULL, NULL, map()", "run --table db.t"),
    ],
)
def test_rewrite_data_files_becomes_run(arguments: str, expected: str) -> None:
    assert words(arguments) == expected


def test_the_place_of_an_error_fits_a_terminal_of_80_columns() -> None:
    with pytest.raises(errors.ConfigError) as caught:
        command(f"CALL lake.system.rewrite_data_files(table => '{'t' * 100}', where = 'id < 5 and name > {'x' * 100}')")
    _, line, caret = str(caught.value).split("\n")
    assert len(line) <= 79
    assert line[caret.index("^") :].startswith("where = ")


@pytest.mark.parametrize("where", ["id = = 3", "", "upper(name) = 'A'"])
def test_a_filter_that_no_table_can_have_is_told_at_once(where: str) -> None:
    with pytest.raises(errors.ConfigError, match="cannot be read"):
        command(f'CALL lake.system.rewrite_data_files(table => "db.t", where => "{where}")')


def test_a_moment_that_the_clock_does_not_change_has_no_note() -> None:
    ours = command("CALL lake.system.expire_snapshots('db.t', cast('2026-01-01' as timestamp))")
    assert ours.words[-2:] == ("--older-than", "2026-01-01T00:00:00")
    assert not ours.notes


def test_the_order_of_groups_is_read_in_any_case_as_by_iceberg() -> None:
    assert Policy(rewrite_job_order="FILES-desc").rewrite_job_order is JobOrder.FILES_DESC  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bytes-asc"):
        Policy(rewrite_job_order="sideways")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("procedure", "arguments", "expected"),
    [
        ("rewrite_manifests", "'db.t', false", "manifests --table db.t"),
        ("rewrite_manifests", "table => 'db.t', spec_id => 1", "manifests --table db.t --spec-id 1"),
        ("rewrite_position_delete_files", "'db.t'", "deletes --table db.t --merge --dangling"),
        (
            "rewrite_position_delete_files",
            "table => 'db.t', options => map('min-input-files','2'), where => 'id < 5'",
            "deletes --table db.t --merge --dangling --where id < 5",
        ),
        (
            "expire_snapshots",
            "'db.t', TIMESTAMP '2021-06-30 00:00:00.000', 100",
            "expire --table db.t --older-than 2021-06-30T00:00:00.000 --retain-last 100",
        ),
        (
            "expire_snapshots",
            "table => 'db.t', snapshot_ids => ARRAY(123, 456L), clean_expired_metadata => true, stream_results => true",
            "expire --table db.t --snapshot-id 123 --snapshot-id 456 --clean-metadata",
        ),
        ("remove_orphan_files", "table => 'db.t', dry_run => true", "orphans list --table db.t"),
        (
            "remove_orphan_files",
            "table => 'db.t', older_than => TIMESTAMP '2026-05-21 20:26:40', prefix_mismatch_mode => 'IGNORE'",
            "orphans remove --table db.t --older-than 604800s --keep-mismatches",
        ),
        (
            "remove_orphan_files",
            "table => 'db.t', equal_schemes => map('s3a,s3n', 's3'), location => 's3://b/t/data'",
            "orphans remove --table db.t --location s3://b/t/data --equal-schemes s3a,s3n=s3",
        ),
        ("expire_snapshots", "'db.t', current_timestamp() - interval 5 days", "expire --table db.t --older-than 5d"),
        (
            "expire_snapshots",
            "older_than => now() - INTERVAL '36' hours /* so far */, table => 'db.t', retain_last=>1",
            "expire --table db.t --older-than 129600s --retain-last 1",
        ),
        (
            "expire_snapshots",
            "'db.t', date_sub(current_date(), 5)",
            "expire --table db.t --older-than 2026-05-23T00:00:00",
        ),
        (
            "expire_snapshots",
            "'db.t', timestamp '2026-01-31 00:00:00' - interval 1 month",
            "expire --table db.t --older-than 2025-12-31T00:00:00",
        ),
        (
            "remove_orphan_files",
            "table => 'db.t', older_than => now() - interval 1 week",
            "orphans remove --table db.t --older-than 604800s",
        ),
        ("compute_table_stats", "'db.t'", "statistics --table db.t --columns all --no-partitions"),
        (
            "compute_table_stats",
            "table => 'db.t', columns => array('id', 'city')",
            "statistics --table db.t --columns id,city --no-partitions",
        ),
        ("compute_partition_stats", "table => 'db.t'", "statistics --table db.t"),
    ],
)
def test_other_procedures_become_other_verbs(procedure: str, arguments: str, expected: str) -> None:
    assert words(arguments, procedure) == expected


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "CALL lake.system.rewrite_data_files('db.t', options => map('remove-dangling-deletes','false'))",
            "always leave",
        ),
        (
            "CALL lake.system.rewrite_data_files('db.t', options => map('use-starting-sequence-number','false'))",
            "would miss",
        ),
        ("CALL lake.system.rewrite_data_files('db.t', options => map('compression-factor','2.0'))", "from the files"),
        ("CALL lake.system.rewrite_data_files('db.t', options => map('colour','red'))", "has no option colour"),
        (
            "CALL lake.system.rewrite_data_files('db.t', options => map('rewrite-all', NULL))",
            "rewrite-all has no value",
        ),
        (
            "CALL lake.system.rewrite_data_files('db.t', options => map('rewrite-all', map()))",
            "rewrite-all has no value",
        ),
        ("CALL lake.system.rewrite_data_files('db.t', colour => 'red')", "has no argument colour"),
        ("CALL lake.system.rewrite_data_files('db.t', table => 'db.t')", "gets table twice"),
        ("CALL lake.system.rewrite_data_files('db.t', 'hilbert')", "strategies binpack and sort"),
        ("CALL lake.system.rewrite_data_files()", "needs a table"),
        ("CALL lake.system.rewrite_manifests(table => 'db.t', sort_by => array('day'))", "sort_by cannot be followed"),
        ("CALL lake.system.rewrite_position_delete_files('db.t', map('rewrite-all','true'))", "stay as they are"),
        ("CALL lake.system.remove_orphan_files(table => 'db.t', file_list_view => 'v')", "see --location"),
        ("CALL lake.system.remove_orphan_files(table => 'db.t', prefix_mismatch_mode => 'DELETE')", "equal_schemes"),
        ("CALL lake.system.expire_snapshots('db.t', 5)", "older_than must be a moment"),
        ("CALL lake.system.rollback_to_snapshot('db.t', 5)", "undo RUN"),
        ("CALL lake.system.compute_table_stats('db.t', 5)", "are made for the current snapshot"),
        ("CALL lake.system.compute_table_stats('db.t', columns => 'id')", "columns must be an array of names"),
        ("CALL lake.system.expire_snapshots('db.t', now() - interval 5 moons)", "'moons' is not expected here"),
        ("CALL lake.system.expire_snapshots('db.t', now() - interval 5 days 3)", "expected is the end"),
        ("# lake", "expected is CALL catalog.system.procedure(...)"),
        ("CALL lake.system.migrate('db.t')", "has no command here"),
    ],
)
def test_what_is_not_done_is_refused_with_the_reason(statement: str, reason: str) -> None:
    with pytest.raises(errors.ConfigError) as refused:
        command(statement)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("SELECT 1", 0),
        ("CALL lake.other.rewrite_data_files('db.t')", 5),
        ("CALL lake.system.rewrite_data_files('db.t' 5)", 43),
        ("CALL lake.system.rewrite_data_files(table => )", 45),
        ("CALL lake.system.rewrite_data_files('db.t'", 42),
        ("CALL lake.system.rewrite_data_files(table => 'a', 'b')", 50),
        ("CALL lake.system.rewrite_data_files('db.t', map('a'))", 44),
        ("CALL system.rewrite_data_files('t', options => map('a', '1', 'a', '2'))", 47),
        ("CALL lake.system.rewrite_data_files(\n  table => 'db.t',\n  where => ?)", 11),
    ],
)
def test_errors_point_at_the_place(statement: str, column: int) -> None:
    with pytest.raises(errors.ConfigError) as refused:
        call_syntax.parse(statement)
    caret = str(refused.value).splitlines()[-1]
    assert caret == f"  {' ' * column}^"


def test_comments_backticks_and_escapes_are_read_as_in_spark() -> None:
    call = call_syntax.parse(
        "-- nightly\nCALL `my lake`.system.rewrite_data_files(\n  table => 'db.t', -- the table\n"
        "  where => 'a = \\'x\\'');"
    )
    assert call.catalog == "my lake"
    assert call.named == {"table": "db.t", "where": "a = 'x'"}


@pytest.mark.parametrize(
    "statement",
    [
        "CALL lake.system.rewrite_data_files('db.t') -- done",
        "CALL lake.system.rewrite_data_files('db.t'); -- done;\n-- and so on",
        "/* nightly\n job */ CALL /**/ lake.system.rewrite_data_files(/* the table */ 'db.t' -- )\n)",
    ],
)
def test_comments_may_stand_everywhere(statement: str) -> None:
    call = call_syntax.parse(statement)
    assert (call.positional, call.named) == (("db.t",), {})


def test_a_comment_without_an_end_is_told() -> None:
    with pytest.raises(errors.ConfigError, match="a comment that is closed") as refused:
        call_syntax.parse("CALL lake.system.rewrite_data_files('db.t') /* done")
    assert str(refused.value).splitlines()[-1] == f"  {' ' * 44}^"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"'a like \'100\%\_%\''", r"a like '100\%\_%'"),
        (r"'a = \'\u00e4\101\''", "a = 'äA'"),
        (r"'x\\y\tz\q'", "x\\y\tzq"),
        (r"r'x\y'", r"x\y"),
    ],
)
def test_escapes_are_those_of_spark(written: str, read: str) -> None:
    assert call_syntax.parse(f"CALL system.rewrite_data_files('db.t', where => {written})").named["where"] == read


def test_the_library_understands_the_same_options(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "strategy": "binpack",
        "use-starting-sequence-number": True,
        "remove_dangling_deletes": "true",
        "max-concurrent-file-group-rewrites": 9,
        "partial-progress.max-failed-commits": "3",
        "partial-progress.enabled": "true",
        "output-spec-id": "0",
    }
    policy = policy_options.make_policy(None, None, given)
    assert policy == Policy(partial_progress=True, output_spec_id=0)
    assert "max-concurrent-file-group-rewrites has no effect" in caplog.text
    with pytest.raises(errors.ConfigError, match="use-starting-sequence-number=false cannot be followed"):
        policy_options.make_policy(None, None, {"use-starting-sequence-number": "false"})


def test_every_mapped_option_is_one_of_a_policy() -> None:
    names = {name.replace("_", "-") for name in Policy.model_fields}
    rules = iceberg_options.REWRITE_DATA_FILES
    assert {rule.ours for rule in rules.values() if rule.ours} <= names


@pytest.mark.parametrize(
    "rules",
    [iceberg_options.REWRITE_DATA_FILES, iceberg_options.REWRITE_POSITION_DELETE_FILES],
    ids=["data", "deletes"],
)
def test_the_page_has_every_option_with_its_answer(rules: dict[str, iceberg_options.OptionRule]) -> None:
    page = PAGE.read_text()
    missing = [row for name, rule in rules.items() if (row := f"| `{name}` | {rule.sentence} |") not in page]
    assert not missing, "\n".join(missing)


def test_the_page_has_every_argument() -> None:
    page = PAGE.read_text()
    assert not [
        f"{procedure}: {name}"
        for procedure, names in our_command.ARGUMENTS.items()
        for name in names
        if f"`{name}`" not in page
    ]


def test_a_moment_that_is_computed_for_one_day_is_told() -> None:
    (note,) = command("CALL lake.system.expire_snapshots('db.t', current_date() - interval 5 days)").notes
    assert note.startswith("older_than is 2026-05-23T00:00:00 now, in UTC; a schedule that repeats the command")
