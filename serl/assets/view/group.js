"use strict";
// The samples of one question side by side: what they answered, how often, and what each was given for it.

function groupView(document, row, explorer) {
  const { rows, step, right, size } = row.group;
  const rewards = rows.map((each) => each.reward).filter((reward) => reward !== null);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const spread = Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / rewards.length);
  const facts = rewards.length ? ` · reward ${short(mean)} ± ${short(spread)}` : "";
  return [
    ...questionHead(row, [`step ${step} · ${right} of ${size} right${facts}`]),
    groupStrip(row, explorer),
    rewardBars(rows),
    el("h4", {}, "Gold"), el("pre", { class: "code" }, sqlView(row.gold)),
    el("h4", {}, "Answers, the most frequent first"),
    answers(rows).map((same) => answerCard(same, document, row, explorer)),
    el("p", { class: "note" }, "Marked: what gold does not have."),
  ];
}

/** Samples with one final SQL stand together. */
function answers(rows) {
  const bySql = new Map();
  for (const row of rows) bySql.set(row.sql, [...(bySql.get(row.sql) ?? []), row]);
  return [...bySql.values()].sort((left, right) => right.length - left.length);
}

function answerCard(same, document, row, explorer) {
  const [first] = same;
  const last = document.trajectories[first.place].turns.findLast((turn) => turn.answer !== null);
  const samples = same.map((each) => el("button", {
    type: "button", class: "quiet", onclick: () => explorer.open(each, { kind: "trajectory", focus: true, push: true }),
  }, `sample ${each.sample} (${count(each.turns, "turn")})`));
  return el("section", { class: "card" },
    el("p", { class: "facts" },
      el("strong", {}, `${same.length} of ${row.group.size}`), " ", verdictChip(first.verdict),
      ` reward ${short(first.reward)} · A ${number(first.advantage, 2, true)} `, samples),
    finalSql(first.sql, row.gold),
    last && first.sql !== null ? answerView(last.answer) : null);
}

/** A final SQL, in which what gold does not have is marked. */
function finalSql(sql, gold) {
  if (sql === null) return el("p", { class: "note" }, "No final SQL.");
  return el("pre", { class: "code" }, sqlView(sql, gold));
}

/** Reward of each sample as a bar from zero, so that one outlier in a group is seen. */
function rewardBars(rows) {
  const rewards = rows.map((row) => row.reward ?? 0);
  const [low, high] = [Math.min(0, ...rewards), Math.max(0, ...rewards)];
  const place = (value) => (high > low ? (100 * (value - low)) / (high - low) : 0);
  const lines = rows.map((row) => {
    const node = el("i", { class: VERDICTS[row.verdict].tone });
    const ends = [place(0), place(row.reward ?? 0)].sort((left, right) => left - right);
    node.style.left = `${ends[0]}%`;
    node.style.width = `${Math.max(0.5, ends[1] - ends[0])}%`;
    return el("tr", {}, el("th", { scope: "row" }, `sample ${row.sample}`), el("td", {}, verdictChip(row.verdict)),
      el("td", { class: "reward-bar" }, node), el("td", { class: "number" }, short(row.reward)),
      el("td", { class: "number" }, number(row.advantage, 2, true)), el("td", { class: "number" }, row.turns),
      el("td", { class: "number" }, row.tokens));
  });
  const head = ["", "outcome", "", "reward", "A", "turns", "tokens"];
  return el("div", { class: "scroll" }, el("table", { class: "group-table" },
    el("thead", {}, el("tr", {},
      head.map((name, n) => el("th", { scope: "col", class: n > 2 ? "number" : null }, name)))),
    el("tbody", {}, lines)));
}
