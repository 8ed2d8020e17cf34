// Addresses, keys, theme and print.

const app = $('app');

function route() {
  const target = place(location.hash);
  if (target) {
    $('overview').removeAttribute('aria-current');
    showLoop(target.n, target.turn);
    selectRow(tree.rowOf.has(target.n) ? tree.rowOf.get(target.n) : -1);
    document.title = cut(titleOf(loops[target.n]), 60) + ' · ' + index.title;
    return;
  }
  const row = /^#row\/(\d+)$/.exec(location.hash);
  if (view.kind !== 'overview' || !row) showOverview();
  if (row) goTo($('p-' + (Number(row[1]) - 1)));
  $('overview').setAttribute('aria-current', 'page');
  selectRow(-1);
  document.title = index.title;
}

/** The loop and the turn at the top of the screen. */
function stops() {
  return [...main.querySelectorAll(view.kind === 'overview' ? '.pair' : '.turn')];
}

function moveTurn(by) {
  const list = stops();
  if (!list.length) {
    if (view.kind === 'overview' && !isComparison && by > 0 && index.sessions[0].path.length) location.hash = link(index.sessions[0].path[0]);
    return;
  }
  const top = main.getBoundingClientRect().top + 20;
  let at = list.findIndex((el) => el.classList.contains('current'));
  const seen = at >= 0 && Math.abs(list[at].getBoundingClientRect().top - top) < main.clientHeight;
  if (!seen) {
    const below = list.findIndex((el) => el.getBoundingClientRect().top > top - 10);
    at = by > 0 ? (below < 0 ? list.length - 1 : below) : (below < 0 ? list.length : below) - 1;
  } else at += by;
  const el = list[at];
  if (!el) {
    if (by < 0 && view.kind === 'loop' && view.first > 0) prependLoop();
    return;
  }
  for (const near of [el.previousElementSibling, el, el.nextElementSibling]) if (near) buildTurn(near);
  goTo(el);
  const match = /^t-(\d+)-(\d+)$/.exec(el.id);
  if (match) {
    replaceHash(link(Number(match[1]), Number(match[2])));
    const row = tree.rowOf.get(Number(match[1]));
    if (row !== undefined && row !== tree.at) selectRow(row);
  } else if (el.dataset.pair) replaceHash('#row/' + (Number(el.dataset.pair) + 1));
}

/** Changes the address without an entry in the history. */
function replaceHash(hash) {
  try {
    history.replaceState(null, '', hash);
  } catch {
    // A document without an address of its own, for example in a frame.
  }
}

function moveLoop(by) {
  const rows = index.rows;
  let at = tree.at < 0 ? (by > 0 ? -1 : rows.length) : tree.at;
  do at += by; while (rows[at] && rows[at][0] !== 0);
  if (rows[at]) location.hash = link(rows[at][1]);
  else if (at < 0) location.hash = '#overview';
}

function setSide(open) {
  app.classList.toggle('closed', !open);
  $('toggle').setAttribute('aria-expanded', String(open));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('looptree-theme', theme);
  } catch {
    // Not every address has a storage.
  }
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(dark ? 'light' : 'dark');
}

/** Opens or closes all foldable parts that are in the document. */
function toggleAll() {
  const all = [...main.querySelectorAll('details')];
  const open = all.some((el) => !el.open);
  for (const el of all) el.open = open;
  for (const button of main.querySelectorAll('.clip + .more-button')) if ((button.textContent === 'Show more') === open) button.click();
}

const MOST_ALL = 500;

/** Adds the whole conversation to the document, for printing. */
function showAll() {
  if (view.kind !== 'loop') return;
  while (view.first > 0 && view.last - view.first < MOST_ALL) prependLoop();
  let guard = 0;
  while (view.last + 1 < view.path.length && guard++ < MOST_ALL) appendLoop();
  buildAll();
  announce('The whole conversation is shown');
}

function buildAll() {
  for (const el of main.querySelectorAll('.turn, .pair')) buildTurn(el);
}

const KEYS = {
  j: ['next turn', () => moveTurn(1)],
  k: ['turn before', () => moveTurn(-1)],
  n: ['next loop of the tree', () => moveLoop(1)],
  p: ['loop before', () => moveLoop(-1)],
  o: ['overview', () => { location.hash = '#overview'; }],
  '/': ['search; then ↑ ↓ Enter', () => $('query').focus()],
  e: ['open or close all details', toggleAll],
  a: ['show the whole conversation, for example to print it', showAll],
  s: ['show or hide the list of loops', () => setSide(app.classList.contains('closed'))],
  t: ['light or dark', switchTheme],
  '?': ['this help', () => showKeys()],
};

function showKeys() {
  const dialog = $('keys');
  dialog.replaceChildren(
    h('h2', { id: 'keys-title' }, 'Keyboard'),
    h('dl', {}, Object.entries(KEYS).map(([key, [text]]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)]),
      h('dt', {}, h('kbd', {}, 'Esc')), h('dd', {}, 'closes the search and this help')),
    h('button', { class: 'button', type: 'button', on: { click: () => dialog.close() } }, 'Close'));
  if (!dialog.open) dialog.showModal();
}

function startKeys() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') {
      closeSearch();
      if (document.activeElement === $('query')) main.focus();
      return;
    }
    if (event.target.closest('input, textarea, select, dialog')) return;
    const key = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
    if (!key) return;
    event.preventDefault();
    key[1]();
  });
  const query = $('query');
  let timer = 0;
  query.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => startSearch(query.value.trim()), 120);
  });
  query.addEventListener('focus', () => { if (query.value.trim() && search.hits.length) $('results').hidden = false; });
  query.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      moveInHits(event.key === 'ArrowDown' ? 1 : -1);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const hit = search.hits[Math.max(0, search.at)];
      if (hit) hit.click();
    }
  });
  $('results').addEventListener('click', (event) => {
    const hit = event.target.closest('a');
    if (!hit) return;
    closeSearch();
    if (hit.getAttribute('href') === location.hash) route();
    main.focus();
  });
}

function totals() {
  const own = loops.filter((loop) => index.sessions[loop.s].part === 'main');
  const s = sum(own);
  const part = (value, name) => h('span', {}, h('b', {}, value), ' ' + name);
  $('totals').append(...(isComparison ? [] : [
    s.c === null ? null : part(money(s.c), 'cost'), part(tokens(prompt(s.u)), 'in'), part(tokens(s.u[1]), 'out'),
    part(percent(s.u[2], prompt(s.u)), 'cached'), part(duration(s.busy), 'active'), part(number(s.turns), s.turns === 1 ? 'turn' : 'turns'),
  ].filter(Boolean)));
}

function start() {
  try {
    const theme = localStorage.getItem('looptree-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Not every address has a storage.
  }
  $('heading').append(bdi(index.title));
  $('heading').title = visible(index.title);
  totals();
  $('overview').addEventListener('click', () => {
    location.hash = '#overview';
    if (matchMedia('(max-width: 860px)').matches) setSide(false);
  });
  $('theme').addEventListener('click', switchTheme);
  $('help').addEventListener('click', showKeys);
  $('toggle').addEventListener('click', () => setSide(app.classList.contains('closed')));
  if (matchMedia('(max-width: 860px)').matches) setSide(false);
  startTree();
  startKeys();
  window.addEventListener('hashchange', route);
  // A link to the address that is shown already.
  document.addEventListener('click', (event) => {
    const target = event.target.closest('a[href^="#"]');
    if (target && target.getAttribute('href') === location.hash) route();
  });
  window.addEventListener('beforeprint', () => {
    buildAll();
    for (const el of main.querySelectorAll('details.think')) el.open = true;
  });
  route();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
