"use strict";
// The page: which of its views is shown, the keys, and the start.

const makers = new Map(); // name of an explorer → makes it
const explorers = new Map(); // those that have been shown

function explorerOf(name) {
  if (!explorers.has(name) && makers.has(name)) explorers.set(name, makers.get(name)());
  return explorers.get(name);
}

/** Show what the address says: an explorer with its state, or the overview at one of its sections. */
function route() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  document.body.dataset.view = document.getElementById(name)?.matches(".explorer") ? name : "overview";
  for (const tab of document.querySelectorAll(".tabs a")) {
    if (tab.dataset.view === document.body.dataset.view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  readout.hide();
  if (document.body.dataset.view === "overview") document.getElementById(name)?.scrollIntoView();
  else explorerOf(name)?.restore(new URLSearchParams(query));
}

/** Keys that work anywhere in an explorer, but where text is typed. */
function onKey(event) {
  const explorer = explorers.get(document.body.dataset.view);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input[type=search], input[type=number], select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") document.getElementById("keys").showModal();
  else if (!explorer) return;
  else if (event.key === "j") explorer.move(1);
  else if (event.key === "k") explorer.move(-1);
  else if (event.key === "g") explorer.turnTo("group");
  else if (event.key === "t") explorer.turnTo("trajectory");
  else if (event.key === "c") nextColouring(explorer);
  else if (event.key === "/") explorer.filters.inputs.get("find").focus();
  else if (event.key === "Escape" && explorer.viewed) explorer.close();
  else if (![document.body, explorer.grid.table].includes(event.target) || !explorer.listKey(event.key)) return;
  event.preventDefault();
}

function nextColouring(explorer) {
  const options = [...explorer.pane.querySelectorAll("[name=colouring]")];
  const next = options[(options.findIndex((option) => option.checked) + 1) % options.length];
  next?.click();
}

async function start() {
  if (!("DecompressionStream" in window)) {
    document.body.classList.add("old-browser");
    return;
  }
  const [index] = await unpack("index-0");
  if (index.trajectories.groups.length) makers.set("trajectories", () => trajectoryExplorer(index.trajectories));
  if (index.selection.starts.length) makers.set("selection", () => selectionExplorer(index.selection));
  document.querySelector("#keys-button").addEventListener("click", () => document.getElementById("keys").showModal());
  addEventListener("popstate", route); // also when a link changes the address behind #
  document.addEventListener("keydown", onKey);
  document.body.classList.add("ready");
  route();
  performance.mark("serl-ready");
}

start();
