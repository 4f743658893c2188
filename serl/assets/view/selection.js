"use strict";
// The candidates of an evaluation: which result each selector picked, and whether it was right.

/** The questions of the index as rows; `picked` maps a selector to true, false or null (it picked nothing). */
function selectionRows(index) {
  return rowsOf(index.columns).map((row, n) => Object.assign(row, {
    n, key: `${row.stage}:${row.id}`, where: row.seen ? "seen" : "unseen",
    picked: Object.fromEntries(index.selectors.map((name, place) => [name, row.picks[place]])),
    words: [row.id, row.db, row.question].join(" ").toLowerCase(),
  }));
}

function pickMark(right) {
  if (right === null) return el("span", { title: "picked nothing" }, "–");
  const [mark, tone, word] = right ? ["✓", "good", "right"] : ["✗", "bad", "wrong"];
  return el("span", { class: `mark ${tone}`, title: word }, mark);
}

function selectionColumns(selectors) {
  return [
    column("stage", "stage", (row) => row.stage, { class: "stage" }),
    column("db", "database", (row) => row.db, { class: "db least" }),
    column("question", "question", (row) => row.question,
      { class: "wide", cell: (row) => el("bdi", {}, row.question) }),
    column("difficulty", "difficulty", (row) => row.difficulty, { class: "minor" }),
    column("right", "right", (row) => row.right / row.size,
      { class: "number", title: "Right samples of all samples", cell: (row) => `${row.right}/${row.size}` }),
    column("agree", "agree", (row) => row.agree / row.size, {
      class: "number minor", title: "Samples with the most frequent result", cell: (row) => `${row.agree}/${row.size}`,
    }),
    ...selectors.map((name) => column(name, name, (row) => Number(row.picked[name] ?? -1),
      { class: "pick", cell: (row) => pickMark(row.picked[name]) })),
  ];
}

function selectionFilters(selectors) {
  const missed = selectors.filter((name) => name !== "oracle").map((name) => ({
    id: `missed-${name}`, label: `${name} wrong, a sample right`, test: (row) => !row.picked[name] && row.right > 0,
  }));
  return [
    { id: "find", label: "Search", hint: "question, id", text: (row) => row.words },
    { id: "stage", label: "Stage", choice: (row) => row.stage },
    { id: "where", label: "Databases", choice: (row) => row.where },
    { id: "db", label: "Database", choice: (row) => row.db },
    { id: "difficulty", label: "Difficulty", choice: (row) => row.difficulty },
    { id: "case", label: "Case", cases: [
      ...missed,
      { id: "all", label: "every sample right", test: (row) => row.right === row.size },
      { id: "none", label: "no sample right", test: (row) => row.right === 0 },
      { id: "gold", label: "gold did not run", test: (row) => !RAN.includes(row.gold) },
    ] },
    { id: "right", label: "Right samples", range: (row) => row.right },
  ];
}

/** The explorer of an evaluation's candidates. */
function selectionExplorer(index) {
  const archive = new Archive("questions", index.starts);
  const [open, rows] = [new Set(), selectionRows(index)];
  const selectors = index.selectors.filter((name) => rows.some((row) => row.picked[name] !== null));
  return new Explorer({
    name: "selection", label: "Questions", rows,
    columns: selectionColumns(selectors), filters: selectionFilters(selectors),
    views: { question: async (row) => selectionView(await archive.at(row.n), row, open) },
  });
}

function selectionView(document, row, open) {
  const asked = { ...row, evidence: document.evidence };
  const results = sameResults(document);
  return [
    ...questionHead(asked, [`${row.stage} · ${row.right} of ${row.size} samples right · ${row.where} database`]),
    picksTable(document, row, results),
    el("h4", {}, "Gold"), el("pre", { class: "code" }, sqlView(document.gold)),
    answerView(document.gold_answer),
    el("h4", {}, "Results, the most frequent first"),
    results.map((result, n) => resultCard(result, n, document, row, open)),
    el("p", { class: "note" },
      "Marked: what gold does not have. The greedy answer is shown beside the samples, and does not vote."),
  ];
}

/** Candidates with one result stand together; those without any, by how they failed. */
function sameResults({ candidates }) {
  const byKey = new Map();
  candidates.forEach((candidate, place) => {
    const key = candidate.result_key ?? `status ${candidate.status}`;
    byKey.set(key, [...(byKey.get(key) ?? []), { ...candidate, place }]);
  });
  const votes = (same) => same.filter(({ place }) => place > 0).length;
  return [...byKey.values()].map((same) => ({ same, votes: votes(same) }))
    .sort((left, right) => right.votes - left.votes);
}

function picksTable({ picks }, row, results) {
  const lines = Object.entries(picks).map(([name, place]) => {
    const letter = results.findIndex(({ same }) => same.some((each) => each.place === place));
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, pickMark(row.picked[name])),
      el("td", {}, place === null ? "nothing" : `${candidateName(place)}, result ${resultName(letter)}`));
  });
  return el("table", { class: "picks", "aria-label": "What each selector picked" }, el("tbody", {}, lines));
}

function resultName(n) {
  return n < 26 ? String.fromCharCode(65 + n) : String(n + 1);
}

function candidateName(place) {
  return place === 0 ? "the greedy answer" : `sample ${place - 1}`;
}

function resultCard({ same, votes }, n, document, row, open) {
  const [first] = same;
  const pickers = Object.entries(document.picks).filter(([, place]) => same.some((each) => each.place === place));
  const result = document.results[first.result_key];
  const statements = [...new Set(same.map(({ sql }) => sql))];
  return el("section", { class: "card" },
    el("p", { class: "facts" }, el("strong", {}, `${resultName(n)} · ${count(votes, "sample")}`), " ",
      el("span", { class: `chip ${first.correct ? "good" : "bad"}` }, first.correct ? "✓ right" : "✗ wrong"), " ",
      statusChip(first.status), " ",
      pickers.map(([name]) => [el("span", { class: "chip picker" }, `picked by ${name}`), " "])),
    statements.map((sql) => statementView(sql, same.filter((each) => each.sql === sql), document.gold)),
    result ? answerView(result) : null,
    folded("What was said", "said", open, () => el("div", {}, same.map((each) =>
      [el("p", { class: "label" }, candidateName(each.place)), el("pre", {}, each.text)]))));
}

const CANDIDATE_FACTS = [["mean_logprob", "mean log p"], ["sql_logprob", "SQL's log p"], ["verified", "P(Yes)"]];

function statementView(sql, same, gold) {
  const facts = same.map((each) => {
    const known = CANDIDATE_FACTS.filter(([name]) => typeof each[name] === "number");
    return [candidateName(each.place), count(each.turns, "turn"),
      ...known.map(([name, label]) => `${label} ${number(each[name], 3)}`)].join(", ");
  });
  return el("div", {}, finalSql(sql, gold), el("p", { class: "facts" }, facts.join("; ")));
}
