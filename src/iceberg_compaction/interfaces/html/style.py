"""The report's looks: one style sheet, light and dark, nothing loaded from elsewhere."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1c2430; --soft: #647083; --line: #e2e6ec;
  --blue: #3b6fd6; --good: #1f9d61; --bad: #d14343; --warn: #c98a12; --pale: #e9eef8; }
@media (prefers-color-scheme: dark) { :root { --ground: #12161d; --card: #1a202a; --ink: #e6eaf0; --soft: #93a0b4;
  --line: #2b3442; --blue: #6d9bf5; --good: #3fc383; --bad: #f07272; --warn: #e2ab45; --pale: #243048; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 19px; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 12px; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); margin: 22px 0 8px; }
p { margin: 6px 0; } .soft { color: var(--soft); font-size: 14px; } a { color: inherit; }
code { font-size: 13px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(125px, 1fr)); gap: 12px; margin: 22px 0; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 12px 16px; } .tile b { display: block; font-size: 20px; white-space: nowrap; }
.tile span { color: var(--soft); font-size: 13px; }
section { padding: 20px 24px 24px; margin: 18px 0; }
.head { display: flex; gap: 12px; align-items: center; flex-wrap: wrap; } .head .score { margin-left: auto; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 8px 36px; }
.badge { border-radius: 99px; padding: 1px 10px; font-size: 12px; font-weight: 600; border: 1px solid currentColor; }
.sick, .broken { color: var(--bad); } .healthy { color: var(--good); } .unsupported { color: var(--warn); }
.score { font-size: 26px; font-weight: 700; font-variant-numeric: tabular-nums; } .score small { font-size: 13px;
  color: var(--soft); font-weight: 400; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; } td, th { padding: 5px 12px 5px 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } td.n, th.n { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; } tr:last-child td { border-bottom: 0; }
.part { display: grid; grid-template-columns: 110px 1fr 96px; gap: 10px; align-items: center; margin: 6px 0 0; }
.part .why { grid-column: 2 / 4; color: var(--soft); font-size: 12px; margin-top: -4px; }
.meter { height: 8px; border-radius: 4px; background: var(--pale); overflow: hidden; } .meter i { display: block;
  height: 100%; border-radius: 4px; background: var(--good); } .meter i.low { background: var(--bad); }
.meter i.mid { background: var(--warn); }
ul { margin: 6px 0; padding-left: 20px; } li { margin: 4px 0; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
svg .bar { fill: var(--blue); } svg .bar.near { fill: var(--good); } svg .bar.large { fill: var(--warn); }
svg .pale { fill: var(--pale); } svg .line { fill: none; stroke: var(--blue); stroke-width: 2; } svg .value { fill:
  var(--ink); } svg .axis { stroke: var(--line); }
.sample { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 4px 0 10px; }
@media print { section { break-inside: avoid; } }
"""
