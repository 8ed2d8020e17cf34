// Two sessions side by side.

const onlyDifferent = { on: false };

const WORDS = [[1, 'prompt'], [2, 'reply'], [4, 'calls'], [8, 'results']];

function showComparison() {
  const [a, b] = [0, 1].map((s) => sum(loops.filter((loop) => loop.s === s)));
  const session = index.sessions;
  const difference = (x, y) => (x === y ? '=' : (y > x ? '+' : '−') + number(Math.abs(y - x)));
  const row = (name, show, value) => [name, show(a), show(b), difference(value(a), value(b))];
  const micros = (s) => (s.c === null ? 0 : Array.isArray(s.c) ? s.c[0] : s.c);
  const cost = micros(b) - micros(a);
  const counts = { same: 0, different: 0, a: 0, b: 0 };
  for (const pair of index.pairs) {
    if (!pair.a) counts.b++;
    else if (!pair.b) counts.a++;
    else if (pair.d) counts.different++;
    else counts.same++;
  }
  const filter = h('input', { type: 'checkbox', id: 'only-different', checked: onlyDifferent.on, on: { change: (event) => { onlyDifferent.on = event.target.checked; showOverview(); } } });
  const page = h('div', { class: 'page wide' },
    h('h2', { class: 'title' }, 'Two sessions side by side'),
    h('div', { class: 'sides' }, [0, 1].map((s) => h('div', { class: 'panel' }, h('h2', {}, s ? 'B' : 'A', h('span', { class: 'dim' }, bdi(session[s].id))), sessionFacts(session[s])))),
    h('div', { class: 'panel' }, h('h2', {}, 'Figures', h('span', { class: 'dim' }, 'of all loops')), table([['' ], ['A', 1], ['B', 1], ['B − A', 1]], [
      ['cost', money(a.c), money(b.c), a.c === null || b.c === null ? '–' : cost === 0 ? '=' : (cost > 0 ? '+' : '−') + money(Math.abs(cost))],
      row('tokens in', (s) => number(prompt(s.u)), (s) => prompt(s.u)),
      ['cache hits', percent(a.u[2], prompt(a.u)), percent(b.u[2], prompt(b.u)), ''],
      row('tokens out', (s) => number(s.u[1]), (s) => s.u[1]),
      ['time of the model', duration(a.model), duration(b.model), ''],
      ['time of tools', duration(a.tool), duration(b.tool), ''],
      row('loops', (s) => number(s.loops), (s) => s.loops),
      row('turns', (s) => number(s.turns), (s) => s.turns),
      row('tool calls', (s) => number(s.calls), (s) => s.calls),
      row('failed calls', (s) => number(s.errors), (s) => s.errors),
    ])),
    h('div', { class: 'panel' }, h('h2', {}, 'Turns on the paths to both heads', h('span', { class: 'dim' },
      number(counts.same) + ' the same, ' + number(counts.different) + ' different, ' + number(counts.a) + ' only in A, ' + number(counts.b) + ' only in B'),
    h('label', { class: 'switch' }, filter, 'only differences')),
    h('p', { class: 'dim' }, 'Turns with the same prompt and the same tools are aligned. A marked line is not in the turn of the other side.')));
  main.append(page);
  const shown = index.pairs.map((pair, at) => [pair, at]).filter(([pair]) => !onlyDifferent.on || !pair.a || !pair.b || pair.d);
  addPairs(page, shown, 0);
}

const PAIRS_AT_ONCE = 200;

/** Adds the rows in portions; the next one when the end of the last comes near. */
function addPairs(page, shown, from) {
  shown.slice(from, from + PAIRS_AT_ONCE).forEach(([pair, at]) => page.append(pairNode(pair, at)));
  if (from + PAIRS_AT_ONCE >= shown.length) return;
  const more = h('div', { class: 'dim' }, '…');
  page.append(more);
  later(more, () => {
    more.remove();
    addPairs(page, shown, from + PAIRS_AT_ONCE);
  });
}

function pairNode(pair, at) {
  const words = WORDS.filter(([bit]) => pair.d & bit).map(([, word]) => word);
  const state = !pair.a ? 'only in B' : !pair.b ? 'only in A' : words.length ? words.join(', ') + (words.length === 1 && words[0] !== 'calls' && words[0] !== 'results' ? ' differs' : ' differ') : 'same';
  const sides = h('div', { class: 'sides' }, h('div', { class: 'turn' }), h('div', { class: 'turn' }));
  const el = h('section', { class: 'pair ' + (state === 'same' ? 'same' : 'different'), id: 'p-' + at, 'data-pair': at, 'aria-label': 'Row ' + (at + 1) + ': ' + state },
    h('header', {}, h('b', {}, 'Row ' + (at + 1)), h('span', { class: 'tag ' + (state === 'same' ? 'good' : 'warn') }, state)), sides);
  later(el, () => buildPair(pair, sides));
  return el;
}

function buildPair(pair, sides) {
  const places = [pair.a, pair.b].filter(Boolean);
  const loaded = [];
  const finish = () => {
    if (loaded.length < places.length) return;
    const turns = [pair.a, pair.b].map((side) => side && content(side[0]).turns[side[1]]);
    sides.replaceChildren(...[pair.a, pair.b].map((side, at) => {
      if (!side) return h('div', { class: 'absent' }, 'No such turn');
      otherLines = turns[1 - at] && pair.d ? linesOf(turns[1 - at]) : null;
      const node = h('article', { class: 'turn', 'aria-label': (at ? 'B' : 'A') + ', turn ' + (side[1] + 1) },
        turnHead(side[0], side[1]), h('div', { class: 'body' }, items(turns[at].i, content(side[0]))));
      otherLines = null;
      return node;
    }));
  };
  if (!places.length) return;
  for (const side of places) withContent(side[0], () => { loaded.push(side); finish(); });
}

/** All lines of a turn as they are shown. */
function linesOf(turn) {
  const out = new Set();
  const addText = (text) => { for (const line of String(text).split('\n')) out.add(line); };
  for (const item of turn.i) {
    for (const b of item.c || []) {
      if (b.x) addText(b.x);
      if (b.k === 'call') {
        try {
          for (const member of Object.values(JSON.parse(b.args || '{}'))) addText(visibleText(typeof member === 'string' ? member : JSON.stringify(member, null, 2)));
        } catch {
          addText(visible(b.args));
        }
      }
    }
    if (item.details !== undefined) addText(JSON.stringify(item.details, null, 2));
    if (item.details && Array.isArray(item.details.changes)) for (const change of item.details.changes) addText((change && change.diff) || '');
  }
  return out;
}
