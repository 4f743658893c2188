"use strict";
// Elements made from text, never from markup: what a model or a database said cannot become HTML.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text as it is shown: control characters, and those that reorder or hide text, are made visible. */
function visible(text) {
  return text.replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** An element. `on…` properties are listeners, the others attributes; null and false ones are left out, and so are
 *  null and false children. A child that is no node becomes text. */
function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : visible(String(value)));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      node.append(child instanceof Node ? child : visible(String(child)));
    }
  }
  return node;
}

/** A number with a true minus sign: `signed` adds the plus; a dash where there is none. */
function number(value, digits, signed = false) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(digits);
  const zero = Number(text) === 0;
  return `${value < 0 && !zero ? "−" : signed && !zero ? "+" : ""}${text}`;
}

/** A number with no more digits than it needs, at most three behind the point. */
function short(value, signed = false) {
  if (value === null || value === undefined) return "–";
  return number(value, [0, 1, 2].find((digits) => Math.abs(value - Number(value.toFixed(digits))) < 5e-4) ?? 3, signed);
}

function count(amount, noun) {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

/** A part that is folded away. What it holds is made when it is first opened; `memory` keeps which kinds are open, so
 *  that they stay so from one trajectory to the next. */
function folded(title, kind, memory, make) {
  const part = el("details", { class: "folded" }, el("summary", {}, title));
  const fill = () => part.open && part.childElementCount === 1 && part.append(make());
  part.open = memory.has(kind);
  fill();
  part.addEventListener("toggle", () => {
    memory[part.open ? "add" : "delete"](kind);
    fill();
  });
  return part;
}
