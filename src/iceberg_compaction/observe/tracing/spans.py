"""The spans of runs, through the API of OpenTelemetry: compact_table, under it planning, execution and commits, under
the execution its tasks. A task carries the W3C context of its execution to wherever it is performed."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from iceberg_compaction import version
from iceberg_compaction.observe.tracing import otel_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import Span, Tracer

_run_span: ContextVar[Any] = ContextVar("run_span", default=None)


@contextlib.contextmanager
def of_run(table: str, run_id: str) -> Iterator[None]:
    """The whole work on a table, under the span that is open already, if one is."""
    if not otel_state.has_tracer():
        yield
        return
    with _span("compact_table", {"table_name": table, "run_id": run_id}) as span:
        token = _run_span.set(span)
        try:
            yield
        finally:
            _run_span.reset(token)


@contextlib.contextmanager
def of_stage(name: str, **attributes: float | str) -> Iterator[None]:
    """A stage of a run, inside the stage or run that is open."""
    if not otel_state.has_tracer():
        yield
        return
    with _span(name, attributes):
        yield


@contextlib.contextmanager
def of_commit() -> Iterator[None]:
    """One commit. It is beside the execution, and not part of it: groups are committed while others are rewritten."""
    if not otel_state.has_tracer():
        yield
        return
    from opentelemetry import trace

    run_span = _run_span.get()
    with _span("commit", {}, None if run_span is None else trace.set_span_in_context(run_span)):
        yield


@contextlib.contextmanager
def of_task(carrier: Mapping[str, str], attributes: Mapping[str, float | str]) -> Iterator[Span | None]:
    """One task, in whichever process, under the execution that sent it."""
    if not carrier or not otel_state.has_tracer():
        yield None
        return
    from opentelemetry import propagate

    with _span("task", attributes, propagate.extract(carrier)) as span:
        yield span


def describe_run(**attributes: float | str | None) -> None:
    """Enter facts in the run's span."""
    if (span := _run_span.get()) is not None:
        span.set_attributes({name: fact for name, fact in attributes.items() if fact is not None})


def fail(span: Span | None, reason: str) -> None:
    """The work of the span has failed; of the run's span, if it is None. No sentence of an error goes out: it may hold
    what only people of the house should see."""
    if (span := span or _run_span.get()) is not None:
        from opentelemetry import trace

        span.set_attribute("error.type", reason)
        span.set_status(trace.Status(trace.StatusCode.ERROR, reason))


def carrier() -> dict[str, str]:
    """The open span as it travels with tasks; empty: there is none."""
    if not otel_state.has_tracer():
        return {}
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def open_ids() -> tuple[str, str] | None:
    """Trace and span id of the open span, as hexadecimal text; None: there is none."""
    if not otel_state.has_tracer():
        return None
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)


@contextlib.contextmanager
def _span(name: str, attributes: Mapping[str, float | str], context: Any = None) -> Iterator[Span]:
    """An open span. Of an error it has the class alone: messages may hold secrets."""
    with _tracer().start_as_current_span(
        name, context=context, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            fail(span, type(error).__name__)
            raise


def _tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer("iceberg_compaction", version.__version__)
