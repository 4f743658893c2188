"use strict";
// SQL for reading: its words told apart, and those marked in which two queries differ.

const SQL_WORDS = new Set(
  ("ABS ALL AND ANY AS ASC AVG BETWEEN BY CASE CAST COALESCE COLLATE COUNT CROSS CURRENT_DATE DATE DENSE_RANK DESC " +
    "DISTINCT ELSE END ESCAPE EXCEPT EXISTS FALSE FETCH FILTER FIRST FOLLOWING FROM FULL GLOB GROUP GROUP_CONCAT " +
    "HAVING IFNULL IIF ILIKE IN INNER INSTR INTEGER INTERSECT INTERVAL IS JOIN JULIANDAY LAST LATERAL LEFT LENGTH " +
    "LIKE LIMIT LOWER MAX MIN NATURAL NOT NTILE NULL NULLIF NULLS NUMERIC OFFSET ON OR ORDER OUTER OVER PARTITION " +
    "PRECEDING RANGE RANK REAL RECURSIVE REPLACE RIGHT ROUND ROW ROWS ROW_NUMBER SELECT STRFTIME SUBSTR SUBSTRING " +
    "SUM TEXT THEN TOTAL TRIM TRUE UNBOUNDED UNION UPPER USING VALUES WHEN WHERE WINDOW WITH").split(" "));

const SQL_LEXEME = new RegExp(
  [
    "(?<comment>--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$))",
    "(?<string>'(?:[^']|'')*(?:'|$))",
    '(?<name>"(?:[^"]|"")*(?:"|$)|`[^`]*(?:`|$)|\\[[^\\]]*(?:\\]|$))',
    "(?<number>\\b\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\b)",
    "(?<word>[\\p{L}_][\\p{L}\\p{N}_$]*)",
    "(?<space>\\s+)",
    "(?<sign><>|<=|>=|!=|\\|\\||[\\s\\S])",
  ].join("|"), "gu");

/** The pieces of an SQL text, which cover it: {kind, text, start, end}; a word is a `keyword` or a `name`. */
function lexemes(sql) {
  return Array.from(sql.matchAll(SQL_LEXEME), (match) => {
    let kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (kind === "word") kind = SQL_WORDS.has(match[0].toUpperCase()) ? "keyword" : "name";
    return { kind, text: match[0], start: match.index, end: match.index + match[0].length };
  });
}

/** `sql` as code. With `against`, what of it that other query does not have is marked. */
function sqlView(sql, against = null) {
  const pieces = lexemes(sql);
  const marked = against === null ? new Set() : differing(pieces, lexemes(against));
  return el("code", { class: "sql", dir: "ltr" }, pieces.map((piece, n) => {
    const plain = ["space", "sign", "name"].includes(piece.kind) && !marked.has(n);
    if (plain) return piece.text;
    return el(marked.has(n) ? "mark" : "span", { class: piece.kind }, piece.text);
  }));
}

/** Numbers of the pieces that are outside of a longest common subsequence with `others`. */
function differing(pieces, others) {
  const meant = (list) => list.map((piece, n) => ({ n, text: sense(piece) })).filter((piece) => piece.text !== "");
  const [left, right] = [meant(pieces), meant(others)];
  if (left.length * right.length > 4e6) return new Set(); // two texts of thousands of words: not worth the wait
  const width = right.length + 1;
  const common = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = left[i].text === right[j].text ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const marked = new Set();
  let j = 0;
  for (let i = 0; i < left.length; i += 1) {
    while (j < right.length && left[i].text !== right[j].text
           && common[i * width + j + 1] >= common[(i + 1) * width + j]) j += 1;
    if (j < right.length && left[i].text === right[j].text) j += 1;
    else marked.add(left[i].n);
  }
  return marked;
}

/** What a piece means: words in any case and quoted names are alike; "" for spaces, comments and the last semicolon. */
function sense(piece) {
  if (piece.kind === "space" || piece.kind === "comment" || piece.text === ";") return "";
  if (piece.kind === "keyword") return piece.text.toUpperCase();
  if (piece.kind === "name") return piece.text.toLowerCase().replace(/^["`[](.*)["`\]]$/s, "$1");
  return piece.text;
}
