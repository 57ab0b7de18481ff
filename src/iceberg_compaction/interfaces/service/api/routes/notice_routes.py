"""What writers say: that they have changed a table, and that they want peace on it for a while."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from iceberg_compaction.interfaces.service.api import live_tables, problems, replies
from iceberg_compaction.interfaces.service.api.routes.table_routes import CatalogName, Table
from iceberg_compaction.interfaces.service.api.service_desk import Asking, Somebody
from iceberg_compaction.interfaces.service.api.strict_route import PREFIX, StrictRoute
from iceberg_compaction.model import table_names
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.service_answers import ListPage, NoticeAnswer
from iceberg_compaction.model.service_member import TableBlocker
from iceberg_compaction.model.service_requests import BlockerOrder, BridgeEvent, BucketEvents, ChangeNotice
from iceberg_compaction.record.service import schedule_book, table_blockers

router = APIRouter(prefix=PREFIX, route_class=StrictRoute, tags=["writers"])
Notice = ChangeNotice | BucketEvents | BridgeEvent


@router.post(
    "/notify",
    summary="Say that tables have changed",
    status_code=202,
    response_model=NoticeAnswer,
    responses=problems.documented(413),
)
def notify(notice: Notice, asking: Somebody) -> Response:
    """From writers, with the name of the table; or events of a bucket, as S3, MinIO and EventBridge send them, about
    files of metadata. The scheduler looks at these tables next. Tables that you may not see are ignored, as unknown
    ones are."""
    asking.require(Role.OPERATOR)
    meant = _tables(notice, asking)
    seen = {each for each in meant if each is not None and asking.may_see(each[1])}
    book = schedule_book.ScheduleBook(asking.desk.house.store.entries)
    for catalog, table in seen:
        book.notify(catalog, table)
        asking.note(catalog=catalog, table=table, tenant=asking.desk.house.tenant_of(table))
    ignored = sum(1 for each in meant if each not in seen)
    return replies.reply(NoticeAnswer(accepted=len(seen), ignored=ignored), 202)


def _tables(notice: Notice, asking: Asking) -> list[tuple[str, str] | None]:
    """The catalog and the name of each table that is meant; None: it is not known."""
    folders = asking.desk.folders
    match notice:
        case BucketEvents():
            return [folders.table_of(each.s3.bucket.name, each.s3.object.key) for each in notice.records]
        case BridgeEvent():
            return [folders.table_of(notice.detail.bucket.name, notice.detail.object.key)]
        case ChangeNotice():
            catalog = asking.catalog_name(notice.catalog)
            table = table_names.text(table_names.parse(notice.table))
            watch = schedule_book.ScheduleBook(asking.desk.house.store.entries).watch(catalog, table)
            is_there = watch is not None or table in asking.desk.fleet.looks().of_table
            return [(catalog, table) if is_there else None]


@router.get(
    "/tables/{table}/blockers",
    summary="Who wants peace on a table",
    response_model=ListPage[TableBlocker],
    responses=problems.documented(404, 502),
)
def list_blockers(table: Table, asking: Somebody, catalog: CatalogName = None) -> Response:
    """Blockers that last now."""
    asking.require(Role.VIEWER)
    served, house = asking.table(table, catalog), asking.desk.house
    blockers = table_blockers.TableBlockers(house.store.entries).list(house.clock(), served.catalog, served.table)
    return replies.reply(ListPage[TableBlocker](items=tuple(blockers)))


@router.post(
    "/tables/{table}/blockers",
    summary="Ask for peace on a table",
    status_code=201,
    response_model=TableBlocker,
    responses=problems.documented(404, 409, 413, 502),
)
def add_blocker(table: Table, order: BlockerOrder, asking: Somebody, catalog: CatalogName = None) -> Response:
    """No work begins on the table until then. Work that runs goes on; cancel it if it is in the way."""
    asking.require(Role.OPERATOR)
    served, house = asking.table(table, catalog), asking.desk.house
    live_tables.check_there(asking, served)  # whoever writes its name wrong has no peace
    blocker = TableBlocker(
        blocker_id=asking.desk.new_id(),
        catalog=served.catalog,
        table=served.table,
        until_ms=house.clock() + round(order.seconds * 1000),
        by=asking.principal.name,
        reason=order.reason,
    )
    table_blockers.TableBlockers(house.store.entries).put(blocker)
    asking.note(target=blocker.blocker_id)
    return replies.reply(blocker, 201)


@router.delete(
    "/tables/{table}/blockers/{blocker_id}",
    summary="End a blocker",
    status_code=204,
    response_class=Response,
    responses=problems.documented(404, 502),
)
def remove_blocker(
    table: Table,
    blocker_id: Annotated[str, Path(min_length=1, max_length=200)],
    asking: Somebody,
    catalog: CatalogName = None,
) -> Response:
    """Work may begin again."""
    asking.require(Role.OPERATOR)
    served = asking.table(table, catalog)
    asking.note(target=blocker_id)
    blockers = table_blockers.TableBlockers(asking.desk.house.store.entries)
    if not blockers.remove(served.catalog, served.table, blocker_id):
        raise problems.not_there(f"blocker {blocker_id!r} of {served.table}")
    return replies.nothing()
