"use strict";
// A table with filters beside a pane for what is open. Its whole state stands in the page's address, so that a view can
// be bookmarked, sent to others, and left with the browser's Back.

class Explorer {
  /** `rows` have a unique `key`; `views` maps a kind of view to `render(row)`, the first being what a row opens. */
  constructor({ name, label, rows, columns, filters, views }) {
    Object.assign(this, { name, rows, views });
    this.byKey = new Map(rows.map((row) => [row.key, row]));
    this.filters = new Filters(filters, rows, () => { this.list(); this.save(); });
    this.grid = new Grid({
      name: label, columns, onOpen: (row) => this.open(row, { push: true }),
      onSort: () => { this.list(); this.save(); },
    });
    this.bar = el("div", { class: "toolbar", role: "toolbar", "aria-label": "What is open" });
    this.content = el("div");
    this.pane = el("article", { class: "pane", tabindex: -1, hidden: true }, this.bar, this.content);
    this.split = el("div", { class: "split" }, this.grid.element, this.pane);
    this.root = document.getElementById(name);
    this.root.replaceChildren(this.filters.form, this.split);
    this.viewed = null; // {row, kind}
    this.list();
  }

  list() {
    const passed = this.filters.pass(this.rows);
    this.split.classList.toggle("nothing", passed.length === 0);
    this.grid.show(passed);
  }

  /** Show a row in the pane. `kind` is a view's name; the one that is open stays by default. */
  async open(row, { kind = this.viewed?.kind ?? Object.keys(this.views)[0], focus = false, push = false } = {}) {
    const viewed = { row, kind };
    this.viewed = viewed;
    this.grid.chosen = row;
    this.grid.activate(this.grid.rows.indexOf(row));
    this.save(push);
    const content = await this.views[kind](row);
    if (this.viewed !== viewed) return; // another one was opened meanwhile
    this.fill(kind, content);
    this.pane.scrollTop = 0;
    this.pane.hidden = false;
    this.split.classList.add("opened");
    this.grid.draw();
    const covered = getComputedStyle(this.grid.element).display === "none";
    if (focus || covered) this.pane.focus();
  }

  /** Put content into the pane. The focus stays at what it was at, where the new content has the like. */
  fill(kind, content) {
    readout.hide();
    const { activeElement } = document;
    const like = activeElement?.name === "colouring" ? "[name=colouring]:checked" : ".sample[aria-current]";
    const inside = this.content.contains(activeElement);
    this.content.replaceChildren(...content.flat(Infinity).filter(Boolean));
    if (inside) (this.content.querySelector(like) ?? this.pane).focus({ preventScroll: true });
    if (this.bar.dataset.kind !== kind) this.fillToolbar(kind);
  }

  fillToolbar(kind) {
    const button = (label, title, action) => el("button", { type: "button", title, onclick: action }, label);
    const others = Object.keys(this.views).filter((other) => other !== kind);
    this.bar.dataset.kind = kind;
    this.bar.replaceChildren(
      button("← Previous", "k", () => this.move(-1)), button("Next →", "j", () => this.move(1)),
      ...others.map((other) => button(`Show ${other}`, other[0], () => this.turnTo(other))),
      el("span", { class: "grow" }), button("Close", "Escape", () => this.close()));
  }

  /** Make what is open again, after a setting of the view has changed. */
  refresh() {
    const { scrollTop } = this.pane;
    return this.open(this.viewed.row).then(() => { this.pane.scrollTop = scrollTop; });
  }

  close() {
    this.viewed = null;
    this.grid.chosen = null;
    this.pane.hidden = true;
    this.content.replaceChildren();
    this.split.classList.remove("opened");
    this.grid.reveal();
    this.grid.table.focus();
    this.save();
  }

  /** Show what is open in another view. */
  turnTo(kind) {
    if (this.viewed && this.views[kind]) this.open(this.viewed.row, { kind, focus: true, push: true });
  }

  /** Go `steps` rows on; what is open follows. */
  move(steps) {
    if (!this.grid.rows.length) return;
    const place = this.grid.activate(this.grid.active + steps);
    if (this.viewed) this.open(this.grid.rows[place]);
  }

  /** A key that is meant for the table; whether it was one. */
  listKey(key) {
    const page = this.grid.page;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[key];
    const row = this.grid.rows[this.grid.active];
    if (steps !== undefined) this.move(steps);
    else if (key === "Enter" && row) this.open(row, { focus: true, push: true });
    else return false;
    return true;
  }

  /** Write the state into the address; `push` makes it a step that Back returns from. */
  save(push = false) {
    const parameters = new URLSearchParams(this.filters.values());
    const { column, down } = this.grid.sort;
    if (column) parameters.set("sort", `${down ? "-" : ""}${column.id}`);
    if (this.viewed) parameters.set(this.viewed.kind, this.viewed.row.key);
    const address = `#${this.name}${parameters.size ? `?${parameters}` : ""}`;
    if (address !== location.hash) history[push ? "pushState" : "replaceState"](null, "", address);
    document.querySelector(`.tabs a[data-view="${this.name}"]`).href = address;
  }

  /** Show what an address says. */
  restore(parameters) {
    this.filters.restore(parameters);
    const [, down, id] = (parameters.get("sort") ?? "").match(/^(-?)(.*)$/);
    this.grid.sort = { column: this.grid.columns.find((column) => column.id === id) ?? null, down: down === "-" };
    this.list();
    const kind = Object.keys(this.views).find((each) => this.byKey.has(parameters.get(each)));
    if (kind) this.open(this.byKey.get(parameters.get(kind)), { kind });
    else if (this.viewed) this.close();
  }
}
