// Search in everything that the page contains, in small portions of time.

const MOST_HITS = 200;
const PORTION_MS = 25;

const search = { run: 0, hits: [], at: -1, timer: 0 };

/** The texts of an item: what is searched, and what the hit shows. */
function* textsOf(item) {
  for (const b of item.c || []) {
    if (b.x) yield b.x;
    if (b.k === 'call') yield b.name + ' ' + b.args;
    for (const cite of b.cites || []) yield [cite.title, cite.url, cite.quote].filter(Boolean).join(' ');
    if (b.k === 'file') yield [b.title, b.url, b.context, ...(b.parts || [])].filter(Boolean).join(' ');
    if (b.k === 'opaque') yield JSON.stringify(b.data);
  }
  if (item.err && typeof item.err === 'string') yield item.err;
  if (item.k === 'result') {
    yield item.name;
    if (item.details !== undefined) yield JSON.stringify(item.details);
  }
  if (item.k === 'extension') yield item.kind + ' ' + JSON.stringify(item.data);
  if (item.k === 'note') {
    yield [item.title, item.text, ...(item.facts || []).map(([, value]) => value), ...(item.call || [])].filter(Boolean).join(' ');
    for (const inner of item.inserted || []) yield* textsOf(inner);
  }
}

const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

function startSearch(query) {
  clearTimeout(search.timer);
  const run = ++search.run;
  search.hits = [];
  search.at = -1;
  const results = $('results');
  if (!query) {
    results.hidden = true;
    results.replaceChildren();
    return;
  }
  const pattern = new RegExp(literal(query), 'iu');
  // The text of the data has the same escapes as this.
  const raw = new RegExp(literal(JSON.stringify(query).slice(1, -1).replaceAll('<', '\\u003c')), 'iu');
  const state = h('div', { class: 'state', role: 'status' }, 'Searching …');
  results.replaceChildren(state);
  results.hidden = false;
  let n = 0;
  const begun = performance.now();
  const step = () => {
    if (run !== search.run) return;
    const until = performance.now() + PORTION_MS;
    while (n < loops.length && search.hits.length < MOST_HITS && performance.now() < until) {
      const text = contentText(n);
      if (text === null) break;
      const before = search.hits.length;
      const name = [titleOf(loops[n]), loops[n].id].find((text) => pattern.test(text));
      if (name !== undefined) addHit(results, n, null, name, pattern);
      if (raw.test(text)) searchLoop(results, n, pattern);
      if (search.hits.length > before) state.textContent = plural(search.hits.length, 'place');
      n++;
    }
    if (n < loops.length && search.hits.length < MOST_HITS) {
      search.timer = setTimeout(step, 0);
      return;
    }
    const took = ' · ' + duration(performance.now() - begun);
    state.textContent = search.hits.length >= MOST_HITS ? 'The first ' + MOST_HITS + ' places' + took : search.hits.length ? plural(search.hits.length, 'place') + took : 'Nothing found';
    state.dataset.done = '';
    announce(state.textContent);
  };
  step();
}

function searchLoop(results, n, pattern) {
  const value = content(n);
  const lists = [[null, value.before || []], ...value.turns.map((turn, at) => [at, turn.i])];
  for (const [turn, list] of lists) {
    for (const item of list) {
      for (const text of textsOf(item)) {
        if (search.hits.length >= MOST_HITS) return;
        if (pattern.test(text)) {
          addHit(results, n, turn, text, pattern);
          break;
        }
      }
    }
  }
}

function addHit(results, n, turn, text, pattern) {
  const found = pattern.exec(text);
  const from = Math.max(0, found.index - 60);
  const to = found.index + found[0].length;
  const hit = h('a', { href: link(n, turn), 'data-hit': search.hits.length },
    h('div', { class: 'where' }, bdi(cut(titleOf(loops[n]), 80)), turn === null ? '' : ' · turn ' + (turn + 1)),
    h('div', { class: 'hit' }, h('bdi', {}, (from ? '…' : '') + visible(text.slice(from, found.index).replace(/\s+/g, ' ')), h('mark', {}, visible(found[0])), visible(text.slice(to, to + 140).replace(/\s+/g, ' ')))));
  search.hits.push(hit);
  results.append(hit);
}

function moveInHits(by) {
  if (!search.hits.length) return;
  if (search.hits[search.at]) search.hits[search.at].classList.remove('on');
  search.at = (search.at + by + search.hits.length) % search.hits.length;
  search.hits[search.at].classList.add('on');
  search.hits[search.at].scrollIntoView({ block: 'nearest' });
}

function closeSearch() {
  search.run++;
  $('results').hidden = true;
}
