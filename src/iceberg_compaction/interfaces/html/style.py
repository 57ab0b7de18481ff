"""The report's looks: one style sheet, light and dark, wide and narrow, nothing loaded from elsewhere. Colours of text
have a contrast of 4.5 to 1 or more against their ground; a test measures it."""

from __future__ import annotations

LIGHT = (
    "--ground: #f6f7f9; --card: #fff; --ink: #1c2430; --soft: #5a6577; --line: #dfe4eb; --edge: #8490a3; --blue: "
    "#2f62c8; --good: #167a4a; --bad: #c0322f; --warn: #8f5f00; --odd: #6a4fb3; --pale: #e9eef8;"
)
DARK = (
    "--ground: #12161d; --card: #1a202a; --ink: #e6eaf0; --soft: #9aa7ba; --line: #2b3442; --edge: #66748a; "
    "--blue: #7ba5f7; --good: #4acb8c; --bad: #f58282; --warn: #e6b253; --odd: #b7a2f2; --pale: #243048;"
)
STYLE = f"""
:root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
"""
STYLE += """\
* { box-sizing: border-box; } [hidden] { display: none !important; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; } h2 { font-size: 19px; line-height: 1.3; margin: 0; min-width: 0; }
h3 { font-size: 13px; text-transform: uppercase; letter-spacing: .05em; color: var(--soft); margin: 22px 0 8px; }
p { margin: 6px 0; } ul { margin: 8px 0; padding-left: 20px; } li { margin: 4px 0; }
.soft { color: var(--soft); font-size: 14px; } a { color: inherit; } small { font-size: 12px; font-weight: 400; }
code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: -9999px; } .skip:focus { left: 8px; top: 8px; background: var(--card); padding: 8px; }
:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; }
.tiles { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: 12px; margin: 22px 0;
  padding: 0; list-style: none; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { margin: 0; padding: 12px 14px; } .tile b { display: block; font-size: 22px; line-height: 1.3; }
.tile span { color: var(--soft); font-size: 13px; }
.card { display: block; padding: 20px 22px; margin: 18px 0; }
.healthy, .near, .up { --tone: var(--good); } .sick, .low, .down { --tone: var(--bad); } .mid { --tone: var(--warn); }
.broken, .large { --tone: var(--bad); } .unsupported { --tone: var(--odd); } .unreachable { --tone: var(--warn); }
.tile.broken b, .tile.sick b, .tile.unsupported b, .tile.unreachable b, .score, .up,
.down { color: var(--tone, inherit); }
.badge { display: inline-block; border: 1px solid var(--tone); color: var(--tone); border-radius: 20px; padding: 0 10px;
  font-size: 13px; font-weight: 600; white-space: nowrap; }
summary { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary h2::before { content: "\\25B8\\00A0"; color: var(--soft); }
details[open] > summary h2::before { content: "\\25BE\\00A0"; }
summary h2 { flex: 0 1 auto; max-width: 100%; } .score { margin-left: auto; font-size: 24px; font-weight: 700; }
.score small { color: var(--soft); font-size: 13px; }
.columns { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 36px; }
.part { display: grid; grid-template-columns: 9em minmax(0, 1fr) 6.5em; gap: 0 12px; align-items: center;
  margin: 6px 0; }
.part .why { grid-column: 1 / -1; color: var(--soft); font-size: 13px; }
.part > :nth-child(3) { text-align: right; }
.meter { display: block; height: 12px; border-radius: 6px; background: var(--pale); overflow: hidden; }
.meter i { display: block; height: 100%; border-radius: 6px; background: var(--tone, var(--blue)); }
dl { margin: 0; } dd { margin: 0; } dt { color: var(--soft); }
.facts > div { display: grid; grid-template-columns: 9em minmax(0, 1fr); gap: 12px; padding: 5px 0;
  border-bottom: 1px solid var(--line); }
.bars > div { display: grid; grid-template-columns: 11em minmax(0, 1fr); gap: 12px; align-items: center;
  margin: 5px 0; }
.bars dd { display: grid; grid-template-columns: minmax(0, 1fr) 5em; gap: 10px; align-items: center; }
.bars b { text-align: right; font-weight: 400; }
figure { margin: 10px 0 0; } figcaption { font-size: 14px; } svg { display: block; width: 100%; height: 70px; }
svg .bar { fill: var(--blue); } svg .line { fill: none; stroke: var(--blue); stroke-width: 2; }
svg .axis, svg .mark { stroke: var(--edge); } svg .mark { stroke-dasharray: 4 3; }
.below { padding-left: 1em; } .meter .past { background: var(--edge); }
.bars.wide dd { grid-template-columns: minmax(0, 1fr) 7.5em; }
.compacted { --tone: var(--good); } .conflict, .failed, .stopped { --tone: var(--bad); }
.skipped { --tone: var(--warn); } .running { --tone: var(--blue); }
svg .line, svg .axis, svg .mark { vector-effect: non-scaling-stroke; }
.ends { display: flex; justify-content: space-between; color: var(--soft); font-size: 13px; margin: 2px 0 0; }
.command { display: flex; flex-wrap: wrap; gap: 8px; align-items: flex-start; justify-content: space-between;
  margin: 4px 0; padding: 8px 10px; background: var(--pale); border-radius: 8px; }
.command code { flex: 1 1 220px; min-width: 0; white-space: pre-wrap; }
button, input, select { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--edge);
  border-radius: 8px; padding: 4px 10px; max-width: 100%; }
button { cursor: pointer; } button:hover { border-color: var(--blue); } .copy { font-size: 13px; }
.tools { display: flex; flex-wrap: wrap; gap: 10px 16px; align-items: center; margin: 12px 0; }
.tools fieldset { display: flex; flex-wrap: wrap; gap: 8px; border: 0; margin: 0; padding: 0; min-width: 0; }
.tools label { display: inline-flex; flex-wrap: wrap; gap: 6px; align-items: center; }
.narrow { display: none !important; }
.pill { border: 1px solid var(--edge); border-radius: 20px; padding: 3px 12px 3px 8px; cursor: pointer; }
.pill:has(:checked) { background: var(--pale); border-color: var(--blue); } .pill input { margin: 0; }
#count { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 7px 10px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } th, td.n { white-space: nowrap; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; } td:first-child { min-width: 12em; }
td:last-child:not(.n):not(.error) { min-width: 9em; }
th button { border: 0; padding: 0; background: none; font-weight: 600; }
th[aria-sort] button::after { content: " \\2191"; } th[aria-sort=descending] button::after { content: " \\2193"; }
@media (max-width: 1000px) {
  main { padding: 20px 12px 48px; } .card { padding: 16px 14px; } .columns { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(auto-fill, minmax(105px, 1fr)); gap: 8px; }
  .narrow { display: inline-flex !important; }
  .cards, .cards tbody { display: block; } .cards thead { position: absolute; left: -9999px; }
  .cards tr { display: grid; grid-template-columns: repeat(auto-fit, minmax(125px, 1fr)); gap: 4px 12px;
    padding: 12px 0; border-bottom: 1px solid var(--line); }
  .cards td, .cards td.n { display: block; padding: 0; border: 0; text-align: left; white-space: normal; }
  .cards td::before { content: attr(data-label); display: block; color: var(--soft); font-size: 12px; }
  .cards tr td { min-width: 0 !important; }
  .cards td:first-child, .cards .error { grid-column: 1 / -1; font-weight: 600; }
  .cards .error { font-weight: 400; }
  .cards td:empty, .cards td:first-child::before, .cards .error::before { display: none; }
}
@media (max-width: 480px) {
  .part { grid-template-columns: minmax(0, 1fr) 6.5em; } .part .meter { grid-column: 1 / -1; order: 1; }
  .part .why { order: 2; } .facts > div { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .bars > div { grid-template-columns: 9em minmax(0, 1fr); } .bars dd { grid-template-columns: minmax(0, 1fr) 3.5em; }
  .bars.wide > div { grid-template-columns: 7em minmax(0, 1fr); }
  .bars.wide dd { grid-template-columns: minmax(0, 1fr) 6em; } }
@media print { .tools, .copy, .skip { display: none !important; } .card { break-inside: avoid-page; } }
"""
