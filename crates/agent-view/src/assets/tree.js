// The tree of loops. Only the rows that are visible are in the document.

const ROW = 48;

const tree = {
  el: $('tree'),
  rows: $('rows'),
  /** The number of the selected row. */
  at: -1,
  rowOf: new Map(),
  from: -1,
  to: -1,
};

function startTree() {
  index.rows.forEach(([kind, n], at) => {
    if (kind === 0) tree.rowOf.set(n, at);
  });
  tree.rows.style.height = index.rows.length * ROW + 'px';
  tree.el.addEventListener('scroll', drawTree, { passive: true });
  new ResizeObserver(drawTree).observe(tree.el);
  tree.el.addEventListener('keydown', (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    if (event.key in moves) {
      event.preventDefault();
      moveInTree(moves[event.key]);
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      openRow(tree.at);
    }
  });
  tree.rows.addEventListener('click', (event) => {
    const node = event.target.closest('.node');
    if (node) openRow(Number(node.dataset.row));
  });
  drawTree();
}

function openRow(at) {
  const row = index.rows[at];
  if (!row) return;
  const [kind, n] = row;
  if (kind === 0) location.hash = link(n);
  else if (kind === 1 && index.groups[n].selected !== undefined) location.hash = link(index.groups[n].selected);
  else if (kind === 2) location.hash = '#overview';
  if (matchMedia('(max-width: 860px)').matches) setSide(false);
}

/** Selects the next row that is a loop. */
function moveInTree(by) {
  const step = by < 0 ? -1 : 1;
  let at = Math.min(Math.max(tree.at + by, 0), index.rows.length - 1);
  while (index.rows[at] && index.rows[at][0] !== 0) at += step;
  if (!index.rows[at]) return;
  selectRow(at);
}

function selectRow(at) {
  tree.at = at;
  if (at >= 0) {
    const top = at * ROW;
    if (top < tree.el.scrollTop) tree.el.scrollTop = Math.max(0, top - ROW);
    else if (top + ROW > tree.el.scrollTop + tree.el.clientHeight) tree.el.scrollTop = top + 2 * ROW - tree.el.clientHeight;
  }
  tree.from = -1;
  drawTree();
}

function drawTree() {
  const height = tree.el.clientHeight || 800;
  const from = Math.max(0, Math.floor(tree.el.scrollTop / ROW) - 6);
  const to = Math.min(index.rows.length, Math.ceil((tree.el.scrollTop + height) / ROW) + 6);
  if (from === tree.from && to === tree.to) return;
  tree.from = from;
  tree.to = to;
  const nodes = [];
  for (let at = from; at < to; at++) nodes.push(rowNode(at));
  tree.rows.replaceChildren(...nodes);
  if (tree.at >= from && tree.at < to) tree.el.setAttribute('aria-activedescendant', 'row-' + tree.at);
  else tree.el.removeAttribute('aria-activedescendant');
}

function rowNode(at) {
  const [kind, n, depth] = index.rows[at];
  const css = { top: at * ROW + 'px', '--depth': Math.min(depth, 10) };
  const props = {
    id: 'row-' + at, role: 'treeitem', css, 'data-row': at,
    'aria-level': depth + 1, 'aria-setsize': index.rows.length, 'aria-posinset': at + 1, 'aria-selected': at === tree.at ? 'true' : 'false',
  };
  if (kind === 1) {
    const group = index.groups[n];
    return h('div', { ...props, class: 'node group', title: visible(group.reason || '') || null },
      h('div', { class: 'line' }, h('span', { class: 'name' }, number(group.n) + (group.n === 1 ? ' branch' : ' branches'))),
      h('div', { class: 'line meta' }, h('span', {}, group.selected === undefined ? 'none selected' : 'branch ' + ((loops[group.selected].branch || 0) + 1) + ' was selected')));
  }
  if (kind === 2) {
    const session = index.sessions[n];
    return h('div', { ...props, class: 'node session' },
      h('div', { class: 'line' }, h('span', { class: 'name' }, (session.part === 'main' ? 'A · ' : 'B · '), bdi(session.id))),
      h('div', { class: 'line meta' }, h('span', {}, date(session.created))));
  }
  const loop = loops[n];
  const word = kindOf(loop);
  const notes = {};
  for (const entry of loop.n || []) notes[entry[1]] = (notes[entry[1]] || 0) + 1;
  const errors = loop.tt.reduce((total, turn) => total + turn.e, 0);
  const marks = Object.entries(notes).filter(([name]) => name !== 'other' && name !== 'question').slice(0, 2);
  return h('div', { ...props, class: 'node', title: visible(titleOf(loop)) },
    h('div', { class: 'line' },
      h('span', { class: 'dot ' + loop.st, role: 'img', 'aria-label': loop.st, title: loop.st }),
      h('span', { class: 'name' }, bdi(titleOf(loop))),
      loop.sel ? h('span', { class: 'tag good' }, 'selected') : null,
      word ? h('span', { class: 'tag accent' }, word) : null),
    h('div', { class: 'line meta' },
      h('span', {}, plural(loop.tt.length, 'turn')),
      loop.z ? h('span', {}, duration(loop.z - loop.a)) : h('span', {}, loop.st),
      loop.c !== null ? h('span', {}, money(loop.c)) : null,
      marks.map(([name, count]) => h('span', { class: 'tag ' + KINDS[name][1] }, count > 1 ? count + ' × ' + KINDS[name][0] : KINDS[name][0])),
      errors ? h('span', { class: 'tag bad' }, plural(errors, 'failed call')) : null));
}
