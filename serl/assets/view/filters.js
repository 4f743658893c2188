"use strict";
// The form above a table. A filter is one of
//   {id, label, text(row)}              words, all of which must be in the text
//   {id, label, choice(row), names}     one value of those that the rows have; `names` says them in words
//   {id, label, cases}                  one of the cases {id, label, test(row)}
//   {id, label, range(row)}             from … to
// Values are texts, "" for any, so that a page's address can hold them.

class Filters {
  constructor(filters, rows, onChange) {
    this.filters = filters.filter((filter) => !filter.choice || new Set(rows.map(filter.choice)).size > 1);
    this.inputs = new Map(); // parameter → its input
    const fields = this.filters.map((filter) => this.field(filter, rows));
    this.counter = el("output", { class: "count", "aria-live": "polite" });
    const reset = el("button", { type: "reset", class: "quiet" }, "Reset");
    this.form = el("form", { class: "filters", role: "search" }, fields, reset, this.counter);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", onChange);
    this.form.addEventListener("reset", () => setTimeout(onChange)); // after the browser has emptied the inputs
  }

  field(filter, rows) {
    const { id, label } = filter;
    if (filter.text) return this.labelled(id, label, el("input", { type: "search", placeholder: filter.hint }));
    if (filter.range) return this.rangeField(filter, rows);
    filter.tests = filter.cases ?? choices(filter, rows);
    const options = filter.tests.map(({ id, label, test }) =>
      el("option", { value: id }, `${label} (${rows.filter(test).length.toLocaleString("en")})`));
    return this.labelled(id, label, el("select", {}, el("option", { value: "" }, "any"), options));
  }

  labelled(id, label, input) {
    this.inputs.set(id, input);
    return el("label", { class: "field" }, el("span", {}, label), input);
  }

  rangeField(filter, rows) {
    const values = rows.map(filter.range).filter((value) => value !== null);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const ends = ["from", "to"].map((end) => {
      const input = el("input", {
        type: "number", step: "any", placeholder: values.length ? short(end === "from" ? least : most) : "",
        "aria-label": `${filter.label} ${end}`,
      });
      this.inputs.set(`${filter.id}-${end}`, input);
      return input;
    });
    return el("fieldset", { class: "field" }, el("legend", {}, filter.label), ends[0], "–", ends[1]);
  }

  /** The rows that pass every filter. */
  pass(rows) {
    const tests = this.filters.map((filter) => this.test(filter)).filter(Boolean);
    const passed = rows.filter((row) => tests.every((test) => test(row)));
    this.counter.value = `${passed.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    return passed;
  }

  /** What a filter lets through; null when it lets everything through. */
  test(filter) {
    const given = (id) => this.inputs.get(id).value.trim();
    if (filter.range) {
      const [from, to] = ["from", "to"].map((end) => given(`${filter.id}-${end}`));
      if (from === "" && to === "") return null;
      const [low, high] = [from === "" ? -Infinity : Number(from), to === "" ? Infinity : Number(to)];
      return (row) => filter.range(row) !== null && filter.range(row) >= low && filter.range(row) <= high;
    }
    if (given(filter.id) === "") return null;
    if (!filter.text) return filter.tests.find((each) => each.id === given(filter.id))?.test;
    const words = given(filter.id).toLowerCase().split(/\s+/);
    return (row) => words.every((word) => filter.text(row).includes(word));
  }

  /** The filters that are set, as [parameter, value]. */
  values() {
    return Array.from(this.inputs, ([id, input]) => [id, input.value.trim()]).filter(([, value]) => value !== "");
  }

  /** Set the filters to what an address says. */
  restore(parameters) {
    for (const [id, input] of this.inputs) input.value = parameters.get(id) ?? "";
  }
}

/** A case for each value of a filter that the rows have. */
function choices({ choice, names = {} }, rows) {
  return Array.from(new Set(rows.map(choice))).sort().map((value) => (
    { id: String(value), label: names[value] ?? String(value), test: (row) => choice(row) === value }));
}
