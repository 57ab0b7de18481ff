"""The scripts of pages: search, sort, filter and copy. A page can be read without them; controls that need one are
hidden until it runs."""

from __future__ import annotations

COPY = """
(function () {
  "use strict";
  const all = (root, query) => Array.from(root.querySelectorAll(query));
  function copied(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject();
  }

  for (const button of all(document, "button.copy")) {
    button.hidden = false;
    const code = button.previousElementSibling;
    button.addEventListener("click", () => {
      const say = (word) => {
        button.textContent = word;
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      };
      copied(code.textContent).then(() => say("Copied"), () => {
        getSelection().selectAllChildren(code);
        say("Press Ctrl+C");
      });
    });
  }
})();
"""

SCRIPT = (
    COPY
    + """
(function () {
  "use strict";
  const all = (root, query) => Array.from(root.querySelectorAll(query));
  const table = document.getElementById("overview"), body = table.tBodies[0], rows = Array.from(body.rows);
  const order = rows.slice();
  const form = document.querySelector("form.tools"), search = document.getElementById("search");
  const boxes = all(form, "input[name=state]"), count = document.getElementById("count");
  const headers = Array.from(table.tHead.rows[0].cells), select = document.getElementById("sort");
  const sought = (row) => Array.from(row.cells).filter((cell, column) => column < 2 || cell.className === "error");
  const names = new Map(rows.map((row) => [row, sought(row).map((cell) => cell.textContent).join(" ").toLowerCase()]));

  function filter() {
    const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
    const states = boxes.filter((box) => box.checked).map((box) => box.value);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => names.get(row).includes(word)) &&
        (!states.length || states.includes(row.dataset.state));
      row.hidden = !fits;
      shown += fits;
      const section = row.dataset.section && document.getElementById(row.dataset.section);
      if (section) section.hidden = !fits;
    }
    count.textContent = shown === rows.length ? "" : shown + " of " + rows.length + " tables";
  }

  function value(row, column) {
    const cell = row.cells[column];
    return cell && cell.dataset.order;
  }

  function sort(column, ascending) {
    const sign = ascending ? 1 : -1;
    const text = column === 0;
    rows.sort((a, b) => {
      const left = value(a, column), right = value(b, column);
      if (left === undefined || right === undefined) return (left === undefined) - (right === undefined);
      return sign * (text ? left.localeCompare(right, undefined, { numeric: true }) : left - right);
    });
    body.append(...rows);
    headers.forEach((header, number) => {
      if (number === column) header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else header.removeAttribute("aria-sort");
    });
    select.value = column + (ascending ? "+" : "-");
  }

  headers.forEach((header, column) => {
    const name = header.textContent, button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => sort(column, header.getAttribute("aria-sort") !== "ascending"));
    header.replaceChildren(button);
    select.append(new Option(name + (column ? ", low to high" : ", A to Z"), column + "+"));
    select.append(new Option(name + (column ? ", high to low" : ", Z to A"), column + "-"));
  });
  select.prepend(new Option("worst first", ""));
  select.value = "";
  select.addEventListener("change", () => {
    if (select.value) return sort(parseInt(select.value, 10), select.value.endsWith("+"));
    body.append(...order);
    headers.forEach((header) => header.removeAttribute("aria-sort"));
  });
  search.addEventListener("input", filter);
  boxes.forEach((box) => box.addEventListener("change", filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { form.reset(); filter(); }
  });
  form.hidden = false;

  function open() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  }
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => all(document, "details").forEach((each) => { each.open = true; }));
  open();
})();
"""
)
