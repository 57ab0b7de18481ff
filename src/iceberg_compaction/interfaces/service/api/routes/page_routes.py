"""The OpenAPI document, and the page of it for people. Neither needs a token: both are the same everywhere."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from iceberg_compaction.interfaces.service.api import docs_page

router = APIRouter(include_in_schema=False)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@router.get("/")
async def home() -> Response:
    """There is nothing else to see yet."""
    return RedirectResponse("/docs")


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """For programs."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
def docs(request: Request) -> Response:
    """For people."""
    return HTMLResponse(docs_page.render(request.app.openapi()), headers={"Content-Security-Policy": _POLICY})
