"use strict";
// The database's answer to a statement: a small table, or the reason why there is none.

const RAN = ["ok", "empty"];

function statusChip(status) {
  const tone = status === "ok" ? "good" : ["empty", "none"].includes(status) ? "plain" : "bad";
  return el("span", { class: `chip ${tone}` }, status.replaceAll("_", " "));
}

/** An outcome; null when nothing was executed. */
function answerView(outcome) {
  if (outcome === null) return null;
  const { status, error, columns, rows } = outcome;
  const shown = rows.length < outcome.row_count ? `, the first ${rows.length} shown` : "";
  const size = error ? el("code", {}, error) : `${count(outcome.row_count, "row")}${shown}`;
  const time = outcome.ms ? el("small", {}, ` ${short(outcome.ms)} ms`) : null;
  return el("div", { class: "answer" }, el("p", {}, "Database ", statusChip(status), " ", size, time),
    columns.length && RAN.includes(status) ? answerTable(columns, rows) : null);
}

function answerTable(columns, rows) {
  const head = el("tr", {}, columns.map((name) => el("th", { scope: "col" }, el("bdi", {}, name))));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows of the answer" },
    el("table", { class: "rows" }, el("thead", {}, head),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cellView))))));
}

/** NULL and bytes are told from text that looks like them. */
function cellView(cell) {
  if (cell === null) return el("td", {}, el("i", {}, "NULL"));
  if (typeof cell === "object") return el("td", {}, el("i", {}, `x'${cell.hex}'`));
  return el("td", { class: typeof cell === "number" ? "number" : null }, el("bdi", {}, cell));
}
