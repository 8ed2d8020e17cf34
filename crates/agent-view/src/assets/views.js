// The overview, and the conversation through a loop.

const main = $('main');

/** What the main part shows: `path` is the conversation, of which the loops from `first` to `last` are in the document. */
const view = { kind: null, path: [], first: 0, last: -1, wanted: 0 };

/** Builds a turn when it comes near the screen. */
const nearTurns = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) buildTurn(entry.target);
}, { root: main, rootMargin: '1200px 0px' });

/** Adds the next loop of the conversation when the end of the last one comes near. */
const nearEnd = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting)) appendLoop();
}, { root: main, rootMargin: '800px 0px' });

/** Functions that build an element when it comes near the screen. */
const builders = new WeakMap();

function later(el, build) {
  builders.set(el, build);
  nearTurns.observe(el);
}

function buildTurn(el) {
  const build = builders.get(el);
  if (!build) return;
  builders.delete(el);
  nearTurns.unobserve(el);
  build();
}

function tile(label, value, more) {
  return h('div', { class: 'tile' }, h('div', { class: 'label' }, label), h('div', { class: 'value' }, value), more ? h('div', { class: 'more' }, more) : null);
}

function tiles(s) {
  return h('div', { class: 'tiles' },
    tile('Cost', money(s.c), s.c === null ? 'no prices recorded' : Array.isArray(s.c) ? 'some prices are unknown' : null),
    tile('Tokens in', tokens(prompt(s.u)), tokens(s.u[0] + s.u[3]) + ' not from a cache'),
    tile('Tokens out', tokens(s.u[1]), s.u[4] ? tokens(s.u[4]) + ' for thinking' : null),
    tile('Cache hits', percent(s.u[2], prompt(s.u)), tokens(s.u[2]) + ' read, ' + tokens(s.u[3]) + ' written'),
    tile('Time', duration(s.busy), duration(s.model) + ' model, ' + duration(s.tool) + ' tools' + (s.wait > 1000 ? ', and ' + duration(s.wait) + ' waiting' : '')),
    tile('Tool calls', number(s.calls), s.errors ? number(s.errors) + ' failed' : s.calls ? 'none failed' : null));
}

function table(columns, rows) {
  return h('table', {}, h('thead', {}, h('tr', {}, columns.map(([name, isNumber]) => h('th', { class: isNumber ? 'num' : null, scope: 'col' }, name)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, at) => h('td', { class: columns[at][1] ? 'num' : null }, cell))))));
}

function sessionFacts(session) {
  const head = session.path[session.path.length - 1];
  return facts([
    ['session', session.id], ['agent', session.agent], ['created', date(session.created)], ['last active', date(session.active)],
    ['begun', session.formation || '–'], ['scope', session.scope],
    session.forked ? ['forked from', 'session ' + session.forked[0] + ', loop ' + session.forked[1]] : null,
    session.parent ? ['started by', 'call ' + (session.parent[2] || '(open)') + ' of ' + (session.parent[3] || 'a tool') + ' in session ' + session.parent[0]] : null,
    head === undefined ? null : ['continues from', h('a', { href: link(head) }, visible(cut(titleOf(loops[head]), 80)))],
  ].filter(Boolean));
}

const MOST_EVENTS = 300;

function eventsPanel(list) {
  const found = [];
  let left = 0;
  for (const n of list) {
    const loop = loops[n];
    const all = (loop.n || []).filter((entry) => entry[1] !== 'other').map((entry) => [entry[0], KINDS[entry[1]], entry[3]]);
    if (loop.why) all.push([loop.tt.length ? loop.tt.length - 1 : null, [loop.st, loop.st === 'failed' || loop.st === 'rejected' ? 'bad' : 'warn'], loop.why]);
    for (const entry of all) {
      if (found.length >= MOST_EVENTS) left++;
      else found.push([n, ...entry]);
    }
  }
  if (!found.length) return null;
  return h('div', { class: 'panel' }, h('h2', {}, 'Notable events', h('span', { class: 'dim' }, number(found.length + left) + (left ? ', the first ' + MOST_EVENTS + ' are shown' : ''))),
    h('ul', { class: 'events' }, found.map(([n, turn, [name, tone], text]) => h('li', {},
      h('a', { href: link(n, turn) }, h('span', { class: 'tag ' + tone }, name), h('span', { class: 'what' }, bdi(cut(text, 240))), h('span', { class: 'dim num' }, turn === null ? '' : 'turn ' + (turn + 1)))))));
}

function showOverview() {
  clear('overview');
  if (isComparison) return showComparison();
  const own = [];
  const children = [];
  loops.forEach((loop, n) => (index.sessions[loop.s].part === 'child' ? children : own).push(n));
  const session = index.sessions[0];
  const s = sum(own.map((n) => loops[n]));
  const list = own.concat(children);
  main.append(h('div', { class: 'page' },
    h('h2', { class: 'title' }, bdi(index.title)),
    h('div', { class: 'sub' }, h('span', {}, plural(s.loops, 'loop') + ', ' + plural(s.turns, 'turn')), h('span', {}, date(session.created) + ' to ' + date(session.active)), h('span', { class: 'mono' }, bdi(session.id))),
    tiles(s),
    children.length ? h('p', { class: 'dim' }, 'The figures do not include the sub-agents: ' + plural(children.length, 'loop') + ', ' + money(sum(children.map((n) => loops[n])).c) + '.') : null,
    sessionTimeline(list),
    eventsPanel(list),
    h('div', { class: 'columns' }, modelsPanel(session), toolsPanel(session)),
    h('div', { class: 'panel' }, h('h2', {}, 'Session'), sessionFacts(session))));
  if (!own.length) main.firstChild.append(h('p', { class: 'dim' }, 'The session has no loops.'));
}

function modelsPanel(session) {
  if (!session.models.length) return null;
  return h('div', { class: 'panel' }, h('h2', {}, 'Models'), table(
    [['model'], ['replies', 1], ['in', 1], ['cached', 1], ['out', 1], ['cost', 1]],
    session.models.map((m) => [bdi(m.name || '–'), number(m.calls), tokens(prompt(m.u)), percent(m.u[2], prompt(m.u)), tokens(m.u[1]), money(m.c)])));
}

function toolsPanel(session) {
  if (!session.tools.length) return null;
  const tools = [...session.tools].sort((a, b) => b.ms - a.ms || b.calls - a.calls);
  return h('div', { class: 'panel' }, h('h2', {}, 'Tools', tools.length > 50 ? h('span', { class: 'dim' }, 'the 50 slowest of ' + number(tools.length)) : null), table(
    [['tool'], ['calls', 1], ['failed', 1], ['time', 1], ['longest', 1]],
    tools.slice(0, 50).map((t) => [h('span', { class: 'mono' }, bdi(t.name)), number(t.calls), t.errors ? number(t.errors) : '–', duration(t.ms), duration(t.longest)])));
}

function clear(kind) {
  nearTurns.disconnect();
  nearEnd.disconnect();
  otherLines = null;
  view.kind = kind;
  view.wanted++;
  view.path = [];
  view.first = 0;
  view.last = -1;
  main.replaceChildren();
  main.scrollTop = 0;
}

/** Shows a loop within its conversation, and a turn of it if one is named. */
function showLoop(n, turn) {
  const section = $('s-' + n);
  if (view.kind !== 'loop' || !section) {
    clear('loop');
    view.path = pathOf(n);
    view.first = view.path.indexOf(n);
    view.last = view.first - 1;
    main.append(h('div', { class: 'page' }));
    if (view.first > 0) main.firstChild.append(previousButton());
    main.firstChild.append(h('div', { id: 'end' }));
    appendLoop();
  }
  // At the start of the page, the turns are there when the content has arrived.
  const wanted = ++view.wanted;
  withContent(n, () => {
    if (view.wanted === wanted) goTo((turn !== null && turnElement(n, turn)) || $('s-' + n));
  });
}

function turnElement(n, turn) {
  const el = $('t-' + n + '-' + turn);
  if (!el) return null;
  // The turns around it, so that the place does not move when they are built.
  for (const near of [el.previousElementSibling, el, el.nextElementSibling]) if (near) buildTurn(near);
  return el;
}

function goTo(el) {
  if (!el) return;
  setCurrent(el.classList.contains('turn') || el.classList.contains('pair') ? el : null);
  el.scrollIntoView({ block: 'start' });
  // Parts that were built while scrolling may have moved it.
  requestAnimationFrame(() => requestAnimationFrame(() => el.isConnected && el.scrollIntoView({ block: 'start' })));
}

function setCurrent(el) {
  for (const old of main.querySelectorAll('.current')) old.classList.remove('current');
  if (el) el.classList.add('current');
}

function previousButton() {
  const n = view.path[view.first - 1];
  return h('button', { class: 'neighbour', type: 'button', id: 'previous', on: { click: () => prependLoop() } }, '↑ ' + visible(titleOf(loops[n])));
}

function prependLoop() {
  if (view.first <= 0) return;
  const before = main.scrollHeight;
  const top = main.scrollTop;
  $('previous').remove();
  view.first--;
  const section = loopSection(view.path[view.first]);
  main.firstChild.prepend(section);
  if (view.first > 0) main.firstChild.prepend(previousButton());
  main.scrollTop = top + main.scrollHeight - before;
  section.scrollIntoView({ block: 'end' });
}

function appendLoop() {
  const end = $('end');
  if (!end) return;
  nearEnd.unobserve(end);
  const n = view.path[view.last + 1];
  if (n === undefined) return;
  view.last++;
  end.before(loopSection(n));
  // Observed anew, so that it is reported also if it is still near.
  requestAnimationFrame(() => end.isConnected && nearEnd.observe(end));
}

function loopSection(n) {
  const loop = loops[n];
  const session = index.sessions[loop.s];
  const s = sum([loop]);
  const word = kindOf(loop);
  const body = h('div', {}, h('p', { class: 'dim' }, 'The content is being read …'));
  const section = h('section', { class: 'loop', id: 's-' + n, 'data-loop': n, 'aria-label': 'Loop: ' + visible(titleOf(loop)) },
    h('h2', { class: 'title' }, bdi(titleOf(loop))),
    h('div', { class: 'sub' },
      h('span', {}, h('span', { class: 'dot ' + loop.st, 'aria-hidden': 'true', css: { display: 'inline-block', 'margin-right': '6px' } }), loop.st),
      word ? h('span', { class: 'tag accent' }, word) : null,
      loop.sel ? h('span', { class: 'tag good' }, 'selected') : null,
      h('span', {}, bdi(loop.model || '–')),
      h('span', {}, date(loop.a)),
      loop.z ? h('span', {}, duration(loop.z - loop.a)) : null,
      session.part === 'main' ? null : h('span', {}, (session.part === 'child' ? 'sub-agent, session ' : 'session '), bdi(session.id)),
      h('span', { class: 'mono' }, bdi(loop.id))),
    loop.p !== undefined && loops[loop.p] ? h('div', { class: 'sub' }, h('span', {}, loop.kind === 'sub-agent' ? 'started by ' : 'after ', h('a', { href: link(loop.p, loop.pt) }, visible(cut(titleOf(loops[loop.p]), 80))),
      loop.pt === undefined || loop.pt + 1 === loops[loop.p].tt.length ? '' : ', turn ' + (loop.pt + 1))) : null,
    loop.pid ? h('div', { class: 'sub' }, h('span', {}, 'after loop ', bdi(loop.pid), ', which is not in this page')) : null,
    loop.tt.length > 1 || loop.tu ? tiles(s) : null,
    loop.tu ? h('p', { class: 'dim' }, 'Tools of this loop, such as sub-agents, used ' + tokens(prompt(loop.tu)) + ' tokens in and ' + tokens(loop.tu[1]) + ' out, which are not included.') : null,
    loop.why ? h('div', { class: 'why ' + loop.st }, bdi(loop.why)) : null,
    body);
  withContent(n, (loopContent) => body.replaceChildren(...loopBody(n, loopContent)));
  return section;
}

function loopBody(n, loopContent) {
  const loop = loops[n];
  const out = [];
  if (isElsewhere(loop, loopContent.base)) out.push(baseNote(loop, loopContent));
  out.push(configOf(loopContent));
  if (loop.tt.length > 1 || loop.tt.some((turn) => turn.k)) out.push(loopTimeline(n, loopContent));
  if (loopContent.before) out.push(...items(loopContent.before, loopContent));
  const siblings = loop.g === undefined ? [] : loops.map((_, at) => at).filter((at) => loops[at].g === loop.g && at !== n);
  if (siblings.length) {
    const group = index.groups[loop.g];
    out.push(h('aside', { class: 'note' }, h('div', { class: 'head' }, 'Parallel loops'),
      group.reason ? h('p', {}, bdi(group.reason)) : null,
      siblings.slice(0, 50).map((at) => h('div', {}, h('a', { href: link(at) }, kindOf(loops[at])), ' · ', bdi(loops[at].model), ' · ' + loops[at].st + (loops[at].sel ? ' · selected' : '')))));
  }
  loopContent.turns.forEach((turn, at) => {
    const el = h('article', { class: 'turn', id: 't-' + n + '-' + at, 'aria-label': 'Turn ' + (at + 1) });
    later(el, () => withContent(n, (fresh) => el.replaceChildren(turnHead(n, at, turn.by), h('div', { class: 'body' }, items(fresh.turns[at].i, fresh)))));
    out.push(el);
  });
  if (!loopContent.turns.length && !loopContent.before) out.push(h('p', { class: 'dim' }, 'The loop has no turns.'));
  return out.filter(Boolean);
}

/** Whether a loop does not simply continue after the last turn of the loop before it. */
function isElsewhere(loop, base) {
  if (!base || (base.after === undefined && !base.added.length)) return false;
  const parent = loop.p === undefined ? null : loops[loop.p];
  const isLast = parent && base.after === parent.id && loop.pt !== undefined && loop.pt + 1 === parent.tt.length;
  return !isLast || base.added.length > 0;
}

function baseNote(loop, loopContent) {
  const base = loopContent.base;
  const after = base.after === undefined ? undefined : byId.get(loop.s + ' ' + base.after);
  const where = base.after === undefined ? 'an empty conversation' : after === undefined ? 'loop ' + visible(base.after) : h('a', { href: link(after) }, visible(cut(titleOf(loops[after]), 80)));
  return h('aside', { class: 'note' }, h('div', { class: 'head' }, 'The loop begins at another place of the conversation'),
    h('p', {}, base.after === undefined ? 'It begins with ' : 'It keeps the first ' + plural(base.keep, 'message') + ' of the conversation after ', where,
      base.added.length ? ', and adds ' + plural(base.added.length, 'message') : '', '.'),
    base.added.length ? h('details', { class: 'fold' }, h('summary', {}, 'Added messages'), items(base.added, loopContent)) : null);
}

function configOf(loopContent) {
  const config = Object.entries(loopContent.config).filter(([, value]) => value !== null && value !== '');
  if (!config.length && loopContent.metadata === undefined) return null;
  const text = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));
  const list = config.map(([name, value]) => [name.replaceAll('_', ' '), text(value)]);
  if (loopContent.metadata !== undefined) list.push(['metadata', text(loopContent.metadata)]);
  return h('details', { class: 'fold' }, h('summary', {}, 'Configuration of the run'), facts(list));
}

function turnHead(n, at, by) {
  const turn = loops[n].tt[at];
  const [model, wait, tool] = shares(turn);
  const input = prompt(turn.u);
  const share = input ? Math.round((100 * turn.u[2]) / input) : 0;
  return h('header', {},
    h('a', { href: link(n, at), title: 'Link to this turn' }, 'Turn ' + (at + 1)),
    by && by !== 'user' && by !== 'continuation' ? h('span', {}, by) : null,
    h('span', { class: 'num' }, turn.z === null ? 'open' : 'model ' + duration(model) + (wait > 1000 ? ' · waiting ' + duration(wait) : '') + (turn.k ? ' · tools ' + duration(tool) : '')),
    input ? h('span', { class: 'num', title: number(turn.u[0]) + ' uncached, ' + number(turn.u[2]) + ' read from the cache, ' + number(turn.u[3]) + ' written to the cache' },
      h('span', { class: 'cachebar', 'aria-hidden': 'true' }, h('i', { css: { width: share + '%' } })), tokens(input) + ' in, ' + percent(turn.u[2], input) + ' cached') : null,
    turn.u[1] ? h('span', { class: 'num' }, tokens(turn.u[1]) + ' out') : null,
    turn.c !== null ? h('span', { class: 'num' }, money(turn.c)) : null,
    turn.e ? h('span', { class: 'tag bad' }, plural(turn.e, 'failed call')) : null,
    h('span', { class: 'spacer' }), h('span', { class: 'num' }, clock(turn.a)));
}
