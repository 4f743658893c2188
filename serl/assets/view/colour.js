"use strict";
// Colours of tokens. Δ and ω diverge: blue above, orange below, and an underline says the same without colour.
// Log-probs are one-sided: the less expected a token was, the stronger.

const GAP_BOUNDS = [0.02, 0.1, 0.3, 1, 3]; // nats; the same in every report, so that runs can be compared
const SURPRISE_BOUNDS = [0.05, 0.3, 1, 2, 4]; // nats of −log p

const COLOURINGS = [
  { id: "gap", label: "Δ", title: "Δ: the evidence of hindsight in nats, teacher's log-prob less the student's" },
  { id: "weight", label: "ω", title: "ω: the factor on the token's advantage" },
  { id: "student", label: "student", title: "The student's log-prob" },
  { id: "teacher", label: "teacher", title: "The teacher's log-prob, with hindsight" },
  { id: "sampler", label: "sampler", title: "The log-prob with which the token was drawn" },
  { id: "none", label: "SQL", title: "No values; SQL highlighted" },
];

/** How a colouring maps a value to its class, and the legend that says so. `reach` is the run's largest |ω − 1|. */
function scaleOf(colouring, reach) {
  if (colouring === "gap") return diverging(GAP_BOUNDS, 0, (bound) => short(bound, true), "Δ in nats");
  if (colouring === "weight") {
    const bounds = [0.1, 0.3, 0.5, 0.7, 0.9].map((part) => part * reach);
    return diverging(bounds, 1, (bound) => number(1 + bound, 3), "ω");
  }
  if (colouring === "none") return { level: () => "", legend: () => null };
  const level = (value) => (value === null ? "" : shade("low", -value, SURPRISE_BOUNDS));
  const legend = () => legendView("log p", SURPRISE_BOUNDS.map((bound, n) => [`low${n + 1}`, `≤ −${bound}`]));
  return { level, legend };
}

function diverging(bounds, middle, text, name) {
  const level = (value) => {
    if (value === null || value === middle || bounds[0] === 0) return "";
    return shade(value > middle ? "up" : "down", Math.abs(value - middle), bounds);
  };
  const legend = () => {
    if (bounds[0] === 0) {
      return el("p", { class: "note" }, "Every ω of this page is 1: hindsight changed no token's credit.");
    }
    const down = bounds.map((bound, n) => [`down${n + 1}`, `≤ ${text(-bound)}`]).reverse();
    const up = bounds.map((bound, n) => [`up${n + 1}`, `≥ ${text(bound)}`]);
    return legendView(name, [...down, ["", middle === 1 ? "1" : "0"], ...up]);
  };
  return { level, legend };
}

/** `up3`: the side, and how many of the bounds are reached. */
function shade(side, size, bounds) {
  const reached = bounds.filter((bound) => size >= bound).length;
  return reached ? `${side}${reached}` : "";
}

function legendView(name, steps) {
  const boxes = steps.map(([shadeClass, label]) =>
    el("li", {}, el("span", { class: `box ${shadeClass}` }, "ab"), el("small", {}, label)));
  return el("div", { class: "scale" }, el("span", { class: "label" }, name), el("ol", { class: "steps" }, boxes));
}
