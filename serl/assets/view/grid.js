"use strict";
// A table of thousands of rows, of which only those in sight exist. The focus stays on the table; the active row is
// named by aria-activedescendant, so that screen readers follow it.

const ROW_HEIGHT = 30; // pixels; also in explorer.css
const SPARE_ROWS = 12; // kept above and below what is in sight

/** What a column shows and sorts by is the same value, unless `more` says otherwise. */
function column(id, label, value, more = {}) {
  return { id, label, value, cell: value, ...more };
}

class Grid {
  /** `columns`: {id, label, title, cell(row), value(row), class}; `onOpen(row)` and `onSort()` are called back. */
  constructor({ name, columns, onOpen, onSort }) {
    Object.assign(this, { name, columns, onOpen, onSort });
    this.rows = [];
    this.active = 0; // place of the active row
    this.chosen = null; // the row that is open
    this.sort = { column: null, down: false };
    this.heads = columns.map((column) => el("th", { scope: "col", class: column.class, title: column.title },
      el("button", { type: "button", onclick: () => this.sortBy(column) }, column.label)));
    this.body = el("tbody");
    this.table = el("table", { role: "grid", class: "grid-table", tabindex: 0, "aria-label": name },
      el("thead", {}, el("tr", { "aria-rowindex": 1 }, this.heads)), this.body);
    this.element = el("div", { class: "list" }, this.table);
    this.element.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.body.addEventListener("click", (event) => {
      const line = event.target.closest("[data-place]");
      if (line) this.onOpen(this.rows[this.activate(Number(line.dataset.place))]);
    });
  }

  /** Show these rows in the sorted order, and keep the active row active where it is still among them. */
  show(rows) {
    const before = this.chosen ?? this.rows[this.active];
    this.rows = [...rows];
    const { column, down } = this.sort;
    if (column) this.rows.sort((left, right) => compare(column.value(left), column.value(right), down));
    this.active = Math.max(0, this.rows.indexOf(before));
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.columns.forEach((each, n) => {
      const order = each !== column ? "none" : down ? "descending" : "ascending";
      this.heads[n].setAttribute("aria-sort", order);
    });
    this.reveal();
  }

  /** Ascending, descending, and the recorded order again. Numbers begin with the largest. */
  sortBy(column) {
    const first = typeof column.value(this.rows[0] ?? {}) === "number";
    if (this.sort.column !== column) this.sort = { column, down: first };
    else if (this.sort.down === first) this.sort = { column, down: !first };
    else this.sort = { column: null, down: false };
    this.onSort();
  }

  /** Make this place the active one and bring it into sight; returns the place, which is inside the table. */
  activate(place) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, place));
    this.reveal();
    return this.active;
  }

  /** How many whole rows are in sight. */
  get page() {
    return Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
  }

  reveal() {
    const head = this.table.tHead.offsetHeight;
    const top = this.active * ROW_HEIGHT;
    const room = this.element.clientHeight - head - ROW_HEIGHT;
    if (this.element.scrollTop > top) this.element.scrollTop = top;
    else if (this.element.scrollTop < top - room) {
      this.draw(); // the body must be as high as the new rows before it can be scrolled so far
      this.element.scrollTop = top - room;
    }
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const inSight = Math.ceil(this.element.clientHeight / ROW_HEIGHT);
    const last = Math.min(this.rows.length, first + inSight + 2 * SPARE_ROWS);
    const lines = this.rows.slice(first, last).map((row, n) => this.line(row, first + n));
    this.body.replaceChildren(spacer(first), ...lines, spacer(this.rows.length - last));
    const active = this.body.querySelector(".active");
    if (active) this.table.setAttribute("aria-activedescendant", active.id);
    else this.table.removeAttribute("aria-activedescendant");
  }

  line(row, place) {
    const classes = [place === this.active ? "active" : "", row === this.chosen ? "chosen" : ""];
    return el("tr", {
      id: `${this.name}-row-${place}`, "data-place": place, class: classes.filter(Boolean).join(" ") || null,
      "aria-rowindex": place + 2, "aria-selected": String(row === this.chosen),
    }, this.columns.map((column) => el("td", { role: "gridcell", class: column.class }, column.cell(row))));
  }
}

function spacer(rows) {
  const line = el("tr", { "aria-hidden": "true", class: "spacer" });
  line.style.height = `${rows * ROW_HEIGHT}px`;
  return line;
}

/** Rows without a value come last in both directions. */
function compare(left, right, down) {
  if (left === right) return 0;
  if (left === null || right === null) return left === null ? 1 : -1;
  return (left < right ? -1 : 1) * (down ? -1 : 1);
}
