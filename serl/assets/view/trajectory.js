"use strict";
// The trajectories of training: their table, one of them turn by turn, and the samples of a question side by side.

const VERDICTS = {
  correct: { mark: "✓", word: "correct", tone: "good" },
  corrected: { mark: "↻", word: "corrected", tone: "good" },
  wrong: { mark: "✗", word: "wrong", tone: "bad" },
  lost: { mark: "?", word: "lost", tone: "plain" },
};
const VERDICT_NAMES = {
  correct: "correct at once", corrected: "corrected after a failure", wrong: "wrong", lost: "lost by the sandbox",
};

function verdictChip(verdict) {
  const { mark, word, tone } = VERDICTS[verdict];
  return el("span", { class: `chip ${tone}` }, `${mark} ${word}`);
}

/** The trajectories of the index as rows that know their group and question. */
function trajectoryRows(index) {
  const rows = rowsOf(index.columns);
  const seen = new Map();
  let first = 0;
  index.groups.forEach((group, n) => {
    group.rows = rows.slice(first, first + group.size);
    group.right = group.rows.filter((row) => RIGHT.includes(row.verdict)).length;
    group.lost = group.rows.filter((row) => row.verdict === "lost").length;
    first += group.size;
    const { question, ...asked } = { ...index.questions[group.question] };
    const name = `${group.step}:${asked.id}`;
    const drawn = seen.get(name) ?? 0; // a step may draw a question twice
    seen.set(name, drawn + 1);
    group.rows.forEach((row, place) => Object.assign(row, asked, {
      group, groupNumber: n, place, step: group.step, question, key: `${name}${"+".repeat(drawn)}:${row.sample}`,
      words: [asked.id, asked.db, question, asked.evidence, row.sql ?? ""].join(" ").toLowerCase(),
    }));
  });
  return rows;
}

const TRAJECTORY_COLUMNS = [
  column("step", "step", (row) => row.step, { class: "number" }),
  column("db", "database", (row) => row.db, { class: "db least" }),
  column("question", "question", (row) => row.question,
    { class: "wide", cell: (row) => el("bdi", {}, row.question) }),
  column("sample", "sample", (row) => row.sample, { class: "number minor" }),
  column("turns", "turns", (row) => row.turns, { class: "number less" }),
  column("verdict", "outcome", (row) => row.verdict, { cell: (row) => verdictChip(row.verdict) }),
  column("status", "database's answer", (row) => row.status, { class: "minor", cell: (row) => statusChip(row.status) }),
  column("reward", "reward", (row) => row.reward, { class: "number", cell: (row) => short(row.reward) }),
  column("advantage", "A", (row) => row.advantage,
    { class: "number least", title: "Advantage", cell: (row) => number(row.advantage, 2, true) }),
  column("gap", "mean Δ", (row) => row.gap,
    { class: "number minor", title: "Mean evidence of hindsight, in nats", cell: (row) => number(row.gap, 3, true) }),
  column("reach", "|ω−1|", (row) => row.reach,
    { class: "number minor", title: "The largest |ω − 1| of its tokens", cell: (row) => number(row.reach, 3) }),
  column("tokens", "tokens", (row) => row.tokens, { class: "number minor", title: "Sampled tokens" }),
];

const RIGHT = ["correct", "corrected"];

const TRAJECTORY_FILTERS = [
  { id: "find", label: "Search", hint: "question, SQL, id", text: (row) => row.words },
  { id: "db", label: "Database", choice: (row) => row.db },
  { id: "outcome", label: "Outcome", choice: (row) => row.verdict, names: VERDICT_NAMES },
  { id: "answer", label: "Database's answer", choice: (row) => row.status },
  { id: "stop", label: "Ended by", choice: (row) => row.stop },
  { id: "group", label: "Its group", cases: [
    { id: "mixed", label: "right and wrong",
      test: ({ group }) => group.right > 0 && group.right + group.lost < group.size },
    { id: "right", label: "all right", test: ({ group }) => group.right === group.size },
    { id: "wrong", label: "all wrong", test: ({ group }) => group.right === 0 && group.lost === 0 },
  ] },
  { id: "step", label: "Step", range: (row) => row.step },
  { id: "turns", label: "Turns", range: (row) => row.turns },
  { id: "reward", label: "Reward", range: (row) => row.reward },
];

/** The explorer of a run's trajectories. */
function trajectoryExplorer(index) {
  const archive = new Archive("groups", index.starts);
  const settings = { colouring: "gap", open: new Set(), index };
  const explorer = new Explorer({
    name: "trajectories", label: "Trajectories", rows: trajectoryRows(index), columns: TRAJECTORY_COLUMNS,
    filters: TRAJECTORY_FILTERS,
    views: {
      trajectory: async (row) => trajectoryView(await archive.at(row.groupNumber), row, settings, explorer),
      group: async (row) => groupView(await archive.at(row.groupNumber), row, explorer),
    },
  });
  return explorer;
}

function trajectoryView(document, row, settings, explorer) {
  const shown = document.trajectories[row.place];
  const { index, open } = settings;
  const scales = Object.fromEntries(COLOURINGS.map(({ id }) => [id, scaleOf(id, index.reach)]));
  const turns = shown.turns.map((turn, n) => el("li", {},
    el("h4", {}, `Turn ${n + 1} `, el("span", { class: "chip plain" }, turn.kind)),
    tokenView(turn, n + 1, settings.colouring, scales[settings.colouring]),
    folded(`Token by token (${turn.tokens.length})`, "tokens", open, () => tokenTable(turn, scales)),
    answerView(turn.answer),
    turn.told ? folded("What the agent was told", "told", open, () => el("pre", {}, turn.told.trim())) : null,
    turn.hindsight ? folded("Hindsight, which the teacher read", "hindsight", open,
      () => el("pre", {}, turn.hindsight.trim())) : null));
  return [
    ...questionHead(row, [
      verdictChip(row.verdict), ` step ${row.step} · sample ${row.sample} · ended by ${row.stop}`]),
    groupStrip(row, explorer), rewardLine(row, shown.terms),
    colourChoice(settings, explorer), el("div", { class: "legend-line" }, scales[settings.colouring].legend()),
    gapNote(shown, row, index),
    el("ol", { class: "turns" }, turns),
    el("h4", {}, "Gold"), el("pre", { class: "code" }, sqlView(row.gold, row.sql)),
    row.sql && row.verdict === "wrong" ? el("p", { class: "note" }, "Marked: what the final SQL does not have.") : null,
    folded(`Prompt (${count(shown.prompt_tokens, "token")})`, "prompt", open,
      () => el("pre", {}, document.prompts[shown.prompt])),
  ];
}

/** The question with its evidence and facts, above every view. */
function questionHead(row, facts) {
  const about = [row.db, row.difficulty, `question ${row.id}`].filter(Boolean).join(" · ");
  return [
    el("h3", {}, el("bdi", {}, row.question)),
    row.evidence ? el("p", { class: "evidence" },
      el("span", { class: "label" }, "Evidence"), el("bdi", {}, row.evidence)) : null,
    el("p", { class: "facts" }, facts, ` · ${about}`),
  ];
}

/** The samples of the same question as buttons, this one marked. */
function groupStrip(row, explorer) {
  const buttons = row.group.rows.map((other) => {
    const { mark, word, tone } = VERDICTS[other.verdict];
    return el("button", {
      type: "button", class: `sample ${tone}`, "aria-current": other === row ? "true" : null,
      "aria-label": `Sample ${other.sample}: ${word}, reward ${short(other.reward)}`,
      onclick: () => explorer.open(other, { kind: "trajectory", push: true }),
    }, `${other.sample} ${mark} `, el("small", {}, short(other.reward)));
  });
  return el("div", { class: "strip", role: "group", "aria-label": "Samples of this question" },
    el("span", { class: "label" }, `${row.group.size} samples`), buttons);
}

function rewardLine(row, terms) {
  const parts = Object.entries(terms).map(([name, value]) =>
    el("li", {}, el("span", {}, name), " ", el("strong", {}, short(value, true))));
  return el("div", { class: "rewards" },
    el("span", {}, el("span", { class: "label" }, "Reward"), el("strong", {}, short(row.reward))),
    parts.length ? el("ul", { class: "terms", "aria-label": "Reward terms" }, parts) : null,
    el("span", {}, el("span", { class: "label" }, "Advantage"), el("strong", {}, number(row.advantage, 3, true))));
}

function colourChoice(settings, explorer) {
  const options = COLOURINGS.map(({ id, label, title }) => {
    const input = el("input", { type: "radio", name: "colouring", value: id, checked: id === settings.colouring,
      onchange: () => { settings.colouring = id; explorer.refresh(); } });
    return el("label", { title }, input, el("span", {}, label));
  });
  return el("fieldset", { class: "colouring" }, el("legend", {}, "Colour tokens by"), options);
}

/** Why there are no numbers, or what Δ is in an old run. */
function gapNote(shown, row, index) {
  const scored = shown.turns.some((turn) => turn.student.some((value) => value !== null));
  if (!scored && row.advantage === 0) {
    return el("p", { class: "note" }, "Not scored: every sample of the group has the same reward, so its advantage " +
      "is 0 and nothing was learned from it. Only the sampler's log-probs are known.");
  }
  if (index.gaps_recorded) return null;
  return el("p", { class: "note" },
    "Δ is teacher − student here: an older version recorded this run, and did not keep the evidence itself.");
}
