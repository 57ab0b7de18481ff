"""One planning job as a value: a table, a policy, and the strategy with its output layout. Every planning step reads
it, so a step needs no other argument about the request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plan_cost, policies, writer_check, writer_options
from iceberg_compaction.model.copy_plan import Rates
from iceberg_compaction.model.output_layout import RowOrder
from iceberg_compaction.plan import read_guard
from iceberg_compaction.plan.strategies import registry, rewrite_strategy

if TYPE_CHECKING:
    from iceberg_compaction.model.output_layout import OutputLayout
    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.table_shape import TableShape
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.read_guard import ReadGuard
    from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy, RowsBy


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A table, a policy and the strategy that plans for them."""

    view: TableView
    policy: Policy
    strategy: RewriteStrategy
    sizes: Sizes
    layout: OutputLayout
    rows: RowsBy | None = None  # None: rows are not sorted over whole groups
    rates: Rates = field(default_factory=Rates)  # of earlier runs
    now_ms: int = 0  # 0: the age of files does not matter
    budget: float | None = None  # dollars that the run may cost
    budget_words: str = ""
    table_codec: str | None = None  # by the table's own property
    guard: ReadGuard | None = None  # the read-side guard, where it changes something
    considered: CandidateFiles | None = None  # files that filters, triggers and the guard leave; None: not yet asked

    @property
    def enough_bytes(self) -> int:
        """More bytes than this make a group enough, however few files it has: the target, whatever the guard says."""
        return self.sizes.target if self.guard is None else self.guard.without.target


def resolve(view: TableView, policy: Policy) -> PlanRequest:
    """The request with the strategy of the policy. Raises ConfigError for sizes that contradict one another, and
    MetadataError if a property of the table is to blame: other tables have others."""
    return with_strategy(view, policy, registry.choose(policy))


def with_strategy(view: TableView, policy: Policy, strategy: RewriteStrategy) -> PlanRequest:
    """The request with a given strategy. Where the policy has options for the writer, the view has them as properties
    of the table."""
    table_codec = view.properties.get(writer_options.CODEC)
    view = writer_check.apply(view, policy)
    rows = None if view.shape is None else _rows_by(view.table, view.shape, policy, strategy)
    try:
        sizes, layout = strategy.sizes(policy, view.properties), strategy.layout(policy)
    except ValueError as error:
        of_table = policy.target_file_size_bytes is None and policies.TARGET_PROPERTY in view.properties
        kind = errors.MetadataError if of_table else errors.ConfigError
        raise kind(f"The file sizes for table {view.table} cannot be used: {error}.") from error
    if rows is not None:
        layout = layout.model_copy(update={"row_order": RowOrder.GIVEN, "sort_terms": rows.terms})
    guard = read_guard.fit(sizes, view, policy)
    return PlanRequest(
        view=view,
        policy=policy,
        strategy=strategy,
        sizes=sizes if guard is None else guard.sizes,
        layout=layout,
        rows=rows,
        budget=policy.max_cost,
        budget_words="" if policy.max_cost is None else f"max-cost is {plan_cost.dollars(policy.max_cost)}",
        table_codec=table_codec,
        guard=guard,
    )


def rows_by(table: str, shape: TableShape, policy: Policy) -> RowsBy | None:
    """What the policy's strategy sorts the rows of this table by; None: it sorts none over whole groups. ConfigError:
    an option names what the table has not. UnsupportedError: the table has nothing to sort by."""
    return _rows_by(table, shape, policy, registry.choose(policy))


def _rows_by(table: str, shape: TableShape, policy: Policy, strategy: RewriteStrategy) -> RowsBy | None:
    if strategy.rows_by is None:
        return None
    name = policies.name_of(policy.strategy)
    try:
        return strategy.rows_by(shape, policy)
    except rewrite_strategy.NoOrderError as error:
        raise errors.UnsupportedError(f"The strategy {name} cannot be used for table {table}: {error}.") from None
    except ValueError as error:
        raise errors.ConfigError(f"The strategy {name} cannot be used for table {table}: {error}.") from None
