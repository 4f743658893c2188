"use strict";
// The page's data blocks: gzipped JSON in base64 (see serl/view/packed.py).

/** The document of the block with this id. */
async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let place = 0; place < packed.length; place += 1) bytes[place] = packed.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** A list of documents in blocks, of which only those in use are unpacked. */
class Archive {
  constructor(name, starts, keep = 6) {
    this.name = name;
    this.starts = starts;
    this.keep = keep;
    this.open = new Map(); // block → promise of its documents, the least recently used first
  }

  /** Document number `n`. */
  async at(n) {
    const block = this.starts.findLastIndex((start) => start <= n);
    const documents = this.open.get(block) ?? unpack(`${this.name}-${block}`);
    this.open.delete(block);
    this.open.set(block, documents);
    if (this.open.size > this.keep) this.open.delete(this.open.keys().next().value);
    return (await documents)[n - this.starts[block]];
  }
}

/** Columns of equal length as one object a row. */
function rowsOf(columns) {
  const names = Object.keys(columns);
  const length = names.length ? columns[names[0]].length : 0;
  return Array.from({ length }, (_, n) => Object.fromEntries(names.map((name) => [name, columns[name][n]])));
}
