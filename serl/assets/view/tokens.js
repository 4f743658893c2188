"use strict";
// Sampled tokens: as text coloured by a value, with all values of the token under the pointer or the cursor; and one
// by one, with the log-probs of student and teacher side by side.

const BAR_NATS = 5; // a bar of full length

/** The tokens of a turn. Those without a colour that carry no token credit (tags, thinking) are dimmed. */
function tokenView(turn, number, colouring, scale) {
  const syntax = tokenSyntax(turn);
  const spans = turn.tokens.map((token, n) => {
    const value = colouring === "none" ? null : turn[colouring][n];
    const shown = scale.level(value) || (turn.acts[n] === "1" ? null : "aside");
    return el("span", { class: shown, "data-n": n }, syntax.get(n) ?? token);
  });
  const block = el("pre", {
    class: `tokens${colouring === "none" ? " plain" : ""}`, dir: "ltr", tabindex: 0, role: "group",
    "aria-label": `Sampled tokens of turn ${number}: left and right arrow keys step through their values`,
  }, spans);
  listen(block, turn, spans);
  return block;
}

/** For the tokens of the SQL body, their text with the SQL's words told apart. */
function tokenSyntax(turn) {
  const parts = new Map();
  if (turn.sql === null) return parts;
  const [first, last] = turn.sql;
  const pieces = lexemes(turn.tokens.slice(first, last).join(""));
  let [start, piece] = [0, 0];
  for (let n = first; n < last; n += 1) {
    const end = start + turn.tokens[n].length;
    const children = [];
    while (piece < pieces.length && pieces[piece].start < end) {
      const { kind, text, start: begins, end: ends } = pieces[piece];
      const shown = text.slice(Math.max(0, start - begins), end - begins);
      children.push(["space", "sign", "name"].includes(kind) ? shown : el("span", { class: kind }, shown));
      if (ends > end) break; // the next token goes on with it
      piece += 1;
    }
    parts.set(n, children);
    start = end;
  }
  return parts;
}

/** Shows the values of the token under the pointer, or under the cursor that arrow keys move. */
function listen(block, turn, spans) {
  let cursor = -1;
  const show = (n) => {
    spans[cursor]?.classList.remove("cursor");
    cursor = n;
    spans[n].classList.add("cursor");
    readout.show(spans[n], turn, n);
  };
  const leave = () => {
    spans[cursor]?.classList.remove("cursor");
    readout.hide();
  };
  block.addEventListener("mouseover", (event) => {
    const span = event.target.closest("[data-n]");
    if (span) show(Number(span.dataset.n));
  });
  block.addEventListener("mouseleave", leave);
  block.addEventListener("blur", leave);
  block.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !spans.length) return;
    event.preventDefault();
    show(Math.min(spans.length - 1, Math.max(0, cursor + step)));
    spans[cursor].scrollIntoView({ block: "nearest" });
  });
}

/** The one box that tells a token's values. */
const readout = {
  box: el("div", { class: "readout", role: "status", hidden: true }),

  show(anchor, turn, n) {
    const values = [["Δ", number(turn.gap[n], 3, true)], ["ω", number(turn.weight[n], 4)],
      ["student", number(turn.student[n], 3)], ["teacher", number(turn.teacher[n], 3)],
      ["sampler", number(turn.sampler[n], 3)]];
    this.box.replaceChildren(el("code", { dir: "ltr" }, spelled(turn.tokens[n])),
      el("dl", {}, values.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
    if (!this.box.isConnected) document.body.append(this.box);
    this.box.hidden = false;
    const place = anchor.getClientRects()[0] ?? anchor.getBoundingClientRect();
    const size = this.box.getBoundingClientRect();
    const below = place.bottom + 6 + size.height < innerHeight;
    this.box.style.left = `${Math.max(6, Math.min(place.left, innerWidth - size.width - 6))}px`;
    this.box.style.top = `${below ? place.bottom + 6 : Math.max(6, place.top - size.height - 6)}px`;
  },

  hide() {
    this.box.hidden = true;
  },
};

/** A token with its spaces and line ends to be seen. */
function spelled(token) {
  return token.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "(rest of a character)";
}

/** One row a token; the bars of student and teacher stand back to back, so that a difference is seen at once. */
function tokenTable(turn, scales) {
  const head = ["token", "student log p", "", "teacher log p", "Δ", "ω"];
  const rows = turn.tokens.map((token, n) => el("tr", { class: turn.acts[n] === "1" ? null : "aside" },
    el("th", { scope: "row" }, el("code", { dir: "ltr" }, spelled(token))),
    el("td", {}, number(turn.student[n], 3)),
    el("td", { class: "bars" }, bar(turn.student[n], "left"), bar(turn.teacher[n], "right")),
    el("td", { class: "teacher" }, number(turn.teacher[n], 3)),
    el("td", {}, el("span", { class: scales.gap.level(turn.gap[n]) || null }, number(turn.gap[n], 3, true))),
    el("td", {}, el("span", { class: scales.weight.level(turn.weight[n]) || null }, number(turn.weight[n], 4)))));
  return el("div", { class: "tall", tabindex: 0, role: "region", "aria-label": "Values of each token" },
    el("table", { class: "token-table" },
      el("caption", {}, `Bars: −log p, full at ${BAR_NATS} nats or more. A longer bar is a less expected token.`),
      el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)));
}

function bar(logprob, side) {
  const node = el("i", { class: side, "aria-hidden": "true" });
  if (logprob !== null) node.style.width = `${50 * Math.min(1, -logprob / BAR_NATS)}%`;
  return node;
}
