// The data of the page: an index that is read at once, and the content of each loop, which is read when it is shown.

const index = JSON.parse($('index').textContent);
const loops = index.loops;
const isComparison = Boolean(index.pairs);

/** Loops by session and id, for links. */
const byId = new Map();
for (let n = loops.length - 1; n >= 0; n--) {
  byId.set(loops[n].s + ' ' + loops[n].id, n);
}

/** The contents that were read last. */
const contents = new Map();
const MOST_CONTENTS = 60;

/** The text of a loop's content; `null` while the document is still arriving. */
function contentText(n) {
  const el = $('l' + n);
  // An element that is being read has no next sibling.
  if (!el || (document.readyState === 'loading' && !el.nextSibling)) return null;
  return el.textContent;
}

function content(n) {
  const known = contents.get(n);
  if (known) return known;
  const text = contentText(n);
  if (text === null) return null;
  const value = JSON.parse(text);
  if (contents.size >= MOST_CONTENTS) contents.delete(contents.keys().next().value);
  contents.set(n, value);
  return value;
}

/** Calls back with the content as soon as it has arrived. */
function withContent(n, then) {
  const value = content(n);
  if (value) return then(value);
  setTimeout(() => withContent(n, then), 30);
}

/** The loops of the path that leads to a loop and goes on behind it. */
function pathOf(n) {
  const before = [];
  const seen = new Set();
  for (let at = n; at !== undefined && !seen.has(at) && loops[at].s === loops[n].s; at = loops[at].p) {
    seen.add(at);
    before.push(at);
  }
  const path = before.reverse();
  for (let at = loops[n].nx; at !== undefined && !seen.has(at); at = loops[at].nx) {
    seen.add(at);
    path.push(at);
  }
  return path;
}

/** Sums figures over loops. */
function sum(list) {
  const out = { u: [0, 0, 0, 0, 0], c: null, turns: 0, calls: 0, errors: 0, model: 0, tool: 0, wait: 0, busy: 0, loops: 0, notes: {}, unpriced: false };
  for (const loop of list) {
    out.loops++;
    for (let i = 0; i < 5; i++) out.u[i] += loop.u[i];
    out.c = add(out.c, loop.c);
    if (loop.c === null && loop.u[0] + loop.u[1] > 0) out.unpriced = true;
    for (const turn of loop.tt) {
      out.turns++;
      out.calls += turn.k;
      out.errors += turn.e;
      const [model, wait, tool] = shares(turn);
      out.model += model;
      out.wait += wait;
      out.tool += tool;
    }
    for (const note of loop.n || []) out.notes[note[1]] = (out.notes[note[1]] || 0) + 1;
  }
  if (out.unpriced && out.c !== null && !Array.isArray(out.c)) out.c = [out.c];
  out.busy = out.model + out.tool;
  return out;
}

/** The parts of a turn in milliseconds: the model, waiting between the reply and the first tool, and the tools. */
function shares(turn) {
  const between = (time, low, high) => Math.min(Math.max(time, low), high);
  const end = turn.z === null ? Math.max(turn.a, turn.m || 0, turn.f || 0) : turn.z;
  const first = turn.f === null ? end : between(turn.f, turn.a, end);
  const reply = turn.m === null ? first : between(turn.m, turn.a, first);
  // Without a tool that ran, the rest of the turn belongs to nothing.
  return [reply - turn.a, turn.f === null ? 0 : first - reply, end - first];
}

const KINDS = {
  cache: ['cache break', 'warn'],
  compaction: ['compaction', 'accent'],
  retry: ['retry', 'warn'],
  route: ['fallback', 'warn'],
  question: ['question', 'accent'],
  budget: ['budget', 'bad'],
  error: ['error', 'bad'],
  other: ['note', ''],
};

/** The kind of a loop in words; empty for an ordinary continuation. */
function kindOf(loop) {
  if (loop.kind === 'branch') return 'branch ' + ((loop.branch || 0) + 1);
  if (loop.kind === 'first' || loop.kind === 'continuation') return loop.fork ? 'fork' : '';
  return loop.kind;
}

function titleOf(loop) {
  return loop.kind === 'judge' ? 'Judge of the branches' : loop.t || '(no prompt)';
}

function link(n, turn) {
  const loop = loops[n];
  const side = index.sessions[loop.s].part === 'main' ? '' : '@' + loop.s + '/';
  return '#loop/' + side + encodeURIComponent(loop.id) + (turn === undefined || turn === null ? '' : '/' + (turn + 1));
}

/** Reads the address of a loop and a turn. */
function place(hash) {
  const match = /^#loop\/(?:@(\d+)\/)?([^/]+)(?:\/(\d+))?$/.exec(hash);
  if (!match) return null;
  let id;
  try {
    id = decodeURIComponent(match[2]);
  } catch {
    return null;
  }
  const session = match[1] === undefined ? 0 : Number(match[1]);
  let n = byId.get(session + ' ' + id);
  // A link that was made without the number of the session.
  for (let s = 0; n === undefined && match[1] === undefined && s < index.sessions.length; s++) n = byId.get(s + ' ' + id);
  if (n === undefined) return null;
  return { n, turn: match[3] === undefined ? null : Math.max(0, Number(match[3]) - 1) };
}
