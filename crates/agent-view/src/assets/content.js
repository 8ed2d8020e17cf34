// Renders messages, calls, results and notes.

const MOST_TEXT = 12000;
const MOST_LINES = 400;

/** The lines of the other side of a comparison; `null` outside of one. */
let otherLines = null;

/** Returns an element that opens the rest of a long text. */
function moreButton(label, then) {
  const button = h('button', { class: 'more-button', type: 'button' }, label);
  button.addEventListener('click', () => then(button));
  button.dataset.more = '';
  return button;
}

/** Returns lines as nodes. In a comparison, lines that the other side lacks are marked. */
function lines(text) {
  if (!otherLines) return [text];
  const out = [];
  text.split('\n').forEach((line, at) => {
    if (at) out.push('\n');
    if (line.trim() && !otherLines.has(line)) out.push(h('span', { class: 'only' }, line));
    else out.push(line);
  });
  // A marked line is a block, which needs no line end behind it.
  return out.filter((node, at) => node !== '\n' || !(out[at - 1] instanceof Node));
}

/** A text without form. A long one is cut, with a button. */
function plain(text) {
  const pre = h('pre', { dir: 'auto' });
  fill(pre, text, (part) => lines(part));
  return pre;
}

function fill(el, text, render) {
  if (text.length <= MOST_TEXT * 1.2) {
    el.append(...render(text));
    return;
  }
  el.append(...render(text.slice(0, MOST_TEXT)));
  el.append(moreButton('… show all ' + number(text.length) + ' characters', () => el.replaceChildren(...render(text))));
}

/** A text of a person or a model: code, headings and emphasis of Markdown get a style, and nothing becomes a link. */
function prose(text) {
  const el = h('div', { class: 'text', dir: 'auto' });
  fill(el, text, markdown);
  return el;
}

function markdown(text) {
  // A text with a line that the other side lacks is shown line by line.
  if (otherLines && text.split('\n').some((line) => line.trim() && !otherLines.has(line))) return lines(text);
  const out = [];
  const parts = text.split(/^[ \t]*(```+|~~~+)[^\n]*\n?/m);
  // Text, fence, text, fence, ...; the text between two equal fences is code.
  let fence = null;
  parts.forEach((part, at) => {
    if (at % 2) {
      if (fence === null) fence = part;
      else if (part === fence) fence = null;
      else out.push(part + '\n');
    } else if (fence !== null) {
      if (part) out.push(h('pre', {}, part.replace(/\n$/, '')));
    } else {
      const trimmed = at > 0 ? part.replace(/^\n/, '') : part;
      for (const line of trimmed.split(/(^#{1,6} [^\n]*$\n?)/m)) {
        if (/^#{1,6} /.test(line)) out.push(h('h4', {}, ...inline(line.replace(/^#+ /, '').replace(/\n$/, ''))));
        else out.push(...inline(line));
      }
    }
  });
  return out;
}

function inline(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part, at) => {
    if (at % 2 === 0) return part;
    return part[0] === '`' ? h('code', {}, part.slice(1, -1)) : h('strong', {}, part.slice(2, -2));
  });
}

/** An address as text; a link only if it leads to the web, and it is followed only if it is clicked. */
function address(text) {
  let url = null;
  try {
    url = new URL(text);
  } catch {
    return bdi(text);
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return bdi(text);
  return h('a', { href: url.href, rel: 'noopener noreferrer nofollow', target: '_blank' }, visible(text));
}

function json(value) {
  return plain(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
}

/** A part that is shown to its first lines until it is opened. */
function clip(node) {
  const box = h('div', { class: 'clip' }, node);
  const button = moreButton('Show more', () => {
    const open = box.style.maxHeight === 'none';
    box.style.maxHeight = open ? '' : 'none';
    box.classList.toggle('cut', open);
    button.textContent = open ? 'Show more' : 'Show less';
  });
  const whole = h('div', {}, box);
  // The height is known when the part is in the document.
  requestAnimationFrame(() => {
    if (box.scrollHeight > box.clientHeight + 4) {
      box.classList.add('cut');
      whole.append(button);
    }
  });
  return whole;
}

function block(b) {
  switch (b.k) {
    case 'text': return [b.x ? prose(b.x) : null, b.cites ? cites(b.cites) : null];
    case 'thinking': return thinking(b);
    case 'image': return h('img', { class: 'picture', src: 'data:' + b.mime + ';base64,' + b.data, alt: 'Image of type ' + b.mime, loading: 'lazy', decoding: 'async' });
    case 'file': return file(b);
    case 'opaque': return h('details', { class: 'fold' }, h('summary', {}, 'Block of the provider: ', bdi(b.kind)), json(b.data));
    default: return null;
  }
}

function thinking(b) {
  if (!b.x) return h('p', { class: 'dim' }, b.hidden ? 'Thinking, withheld by the provider.' : 'Thinking without a text.');
  return h('details', { class: 'think' }, h('summary', {}, 'Thinking · ' + cut(b.x.replace(/\s+/g, ' '), 90)), prose(b.x));
}

function file(b) {
  const facts = [b.mime && visible(b.mime), b.bytes && size(b.bytes), b.id && 'id ' + visible(b.id)].filter(Boolean).join(' · ');
  return h('div', { class: 'file' },
    h('div', {}, h('b', {}, b.what[0].toUpperCase() + b.what.slice(1)), ' ', b.title ? bdi(b.title) : null, ' ', h('span', { class: 'dim' }, facts)),
    b.url ? h('div', {}, address(b.url)) : null,
    b.context ? h('div', { class: 'dim' }, bdi(b.context)) : null,
    (b.parts || []).length ? clip(h('div', {}, b.parts.map((part) => prose(part)))) : null);
}

function size(bytes) {
  return bytes < 1024 ? bytes + ' B' : bytes < 1048576 ? (bytes / 1024).toFixed(1) + ' KiB' : (bytes / 1048576).toFixed(1) + ' MiB';
}

function cites(list) {
  return h('ol', { class: 'cites', 'aria-label': 'Sources' }, list.map((cite) => h('li', {},
    cite.title ? [bdi(cite.title), ' · '] : null, bdi(cite.from), cite.url ? [' · ', address(cite.url)] : null,
    cite.part ? h('div', {}, 'for ', h('q', {}, bdi(cut(cite.part, 200)))) : null,
    cite.quote ? h('div', {}, 'cites ', h('q', {}, bdi(cut(cite.quote, 400)))) : null)));
}

/** Arguments of a call: one line for each member, with texts as they are. */
function argumentsOf(text) {
  let value;
  try {
    value = JSON.parse(text || '{}');
  } catch {
    return h('div', {}, h('span', { class: 'tag bad' }, 'not JSON'), plain(visible(text)));
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return json(value);
  const members = Object.entries(value);
  if (!members.length) return h('span', { class: 'dim' }, 'no arguments');
  return h('dl', { class: 'args' }, members.map(([name, member]) => [
    h('dt', {}, bdi(name)), h('dd', {}, plain(visibleText(typeof member === 'string' ? member : JSON.stringify(member, null, 2))))]));
}

/** As `visible`, but keeps line ends and tabs. */
function visibleText(text) {
  return visible(text.replace(/\r\n/g, '\n'));
}

function brief(args) {
  let value;
  try {
    value = JSON.parse(args || '{}');
  } catch {
    return cut(visible(args), 160);
  }
  if (value === null || typeof value !== 'object') return cut(visible(String(value)), 160);
  const first = Object.values(value).find((member) => typeof member === 'string') ?? (Object.keys(value).length ? JSON.stringify(value) : '');
  return cut(visible(first.replace(/\s+/g, ' ')), 160);
}

/** A call with its result. */
function call(b, result, at) {
  const failed = result && result.err;
  const plan = result && result.details && result.details.plan && planOf(result.details.plan);
  const changes = result && result.details && Array.isArray(result.details.changes) ? result.details.changes.map(diffOf).filter(Boolean) : [];
  const child = result && at.children.find((c) => c.call === b.id);
  const args = h('div', { class: 'in' }, clip(argumentsOf(b.args)));
  return h('section', { class: 'call' + (failed ? ' failed' : ''), 'aria-label': 'Call of ' + visible(b.name) },
    h('div', { class: 'top' },
      h('span', { class: 'tool' }, bdi(b.name)),
      h('span', { class: 'brief' }, plan ? '' : brief(b.args)),
      result && result.handle ? h('span', { class: 'tag accent' }, 'continues in the background') : null,
      result && result.details && Number.isInteger(result.details.exit_code) && result.details.exit_code !== 0 ? h('span', { class: 'num dim' }, 'exit code ' + result.details.exit_code) : null,
      h('span', { class: 'tag ' + (failed ? 'bad' : result ? 'good' : 'warn') }, failed ? 'error' : result ? 'ok' : 'no result'),
      h('span', { class: 'num dim' }, result ? (result.ms === null ? 'did not run' : duration(result.ms)) : '')),
    changes.length || plan ? h('details', { class: 'in fold' }, h('summary', {}, 'Arguments'), args.firstChild) : args,
    plan, changes.length ? h('div', { class: 'out' }, changes) : null,
    result ? resultBody(result, changes.length || plan) : null,
    child ? h('div', { class: 'out' }, 'Sub-agent: ', child.n === undefined
      ? h('span', { class: 'mono' }, bdi(child.id), ' in session ', bdi(child.session))
      : h('a', { href: link(child.n) }, visible(titleOf(loops[child.n])))) : null);
}

function resultBody(result, isShown) {
  const details = result.details !== undefined && Object.keys(Object(result.details)).some((key) => key !== 'changes' && key !== 'plan')
    ? h('details', { class: 'fold' }, h('summary', {}, 'Details'), json(result.details)) : null;
  const parts = result.c.map((b) => (b.k === 'text' ? [b.x ? plain(b.x) : null, b.cites ? cites(b.cites) : null] : block(b)));
  const empty = !result.c.some((b) => b.k !== 'text' || b.x);
  const body = empty ? h('span', { class: 'dim' }, 'no content') : isShown
    ? h('details', { class: 'fold' }, h('summary', {}, 'Result for the model'), parts) : clip(h('div', {}, parts));
  return h('div', { class: 'out' }, body, details);
}

/** A change of a file, from the details of a file tool; `null` for another form. */
function diffOf(change) {
  if (!change || typeof change.path !== 'string' || typeof change.diff !== 'string') return null;
  const pre = h('pre', {});
  const all = change.diff.replace(/\n$/, '').split('\n');
  const others = otherLines;
  const kind = (line) => (line[0] === '+' ? 'add' : line[0] === '-' ? 'del' : line.startsWith('@@') ? 'hunk' : 'same');
  const show = (list) => pre.replaceChildren(...list.map((line) => h('span', { class: kind(line) + (others && !others.has(line) ? ' only' : '') }, visible(line) || ' ')));
  show(all.slice(0, MOST_LINES));
  const more = all.length > MOST_LINES ? moreButton('Show all ' + number(all.length) + ' lines', (button) => { show(all); button.remove(); }) : null;
  return h('div', { class: 'diff' },
    h('div', { class: 'top' }, h('span', {}, bdi(change.path), typeof change.moved_to === 'string' ? [' → ', bdi(change.moved_to)] : null),
      h('span', { class: 'dim' }, visible(String(change.kind || ''))),
      h('span', { class: 'num' }, '+' + Number(change.added || 0) + ' −' + Number(change.removed || 0)),
      change.truncated ? h('span', { class: 'tag warn' }, 'not complete') : null),
    change.diff ? pre : null, more);
}

function planOf(plan) {
  if (!Array.isArray(plan.steps)) return null;
  const marks = { completed: '✓', in_progress: '▸', pending: '○' };
  return h('div', { class: 'out' },
    h('ul', { class: 'plan' }, plan.steps.slice(0, 200).map((step) => {
      const state = Object.hasOwn(marks, String(step && step.status)) ? step.status : 'pending';
      return h('li', { class: state }, h('span', { 'aria-hidden': 'true' }, marks[state]), bdi(String((step && step.step) || '')), h('span', { class: 'hidden' }, state.replace('_', ' ')));
    })),
    typeof plan.explanation === 'string' ? h('p', { class: 'dim' }, bdi(plan.explanation)) : null);
}

function facts(list) {
  return list && list.length ? h('dl', { class: 'facts' }, list.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value instanceof Node || Array.isArray(value) ? value : bdi(value))])) : null;
}

function note(item, at) {
  const [name] = KINDS[item.kind] || KINDS.other;
  return h('aside', { class: 'note ' + item.tone, 'aria-label': name },
    h('div', { class: 'head' }, bdi(item.title)),
    item.text ? h('p', {}, visibleText(item.text)) : null,
    item.call ? h('section', { class: 'call' }, h('div', { class: 'top' }, h('span', { class: 'tool' }, bdi(item.call[0]))), h('div', { class: 'in' }, clip(argumentsOf(item.call[1])))) : null,
    facts(item.facts),
    item.inserted ? h('details', { class: 'fold' }, h('summary', {}, plural(item.inserted.length, 'inserted message')), item.inserted.map((inner) => itemNode(inner, at))) : null,
    item.data !== undefined ? h('details', { class: 'fold' }, h('summary', {}, 'Data'), json(item.data)) : null);
}

/** Renders an item of a turn. `at` has what the item refers to: the results of the turn and the sub-agents of the loop. */
function itemNode(item, at) {
  switch (item.k) {
    case 'user': return h('div', { class: 'msg user' },
      h('div', { class: 'who' }, 'User', item.later ? [h('span', { class: 'tag accent' }, 'result of ', bdi(item.later.tool), ' · ' + item.later.state), h('span', { class: 'mono' }, bdi(item.later.call))] : null),
      h('div', { class: 'box' }, item.c.map(block), item.later && item.later.details && Array.isArray(item.later.details.changes) ? item.later.details.changes.map(diffOf) : null));
    case 'reply': return h('div', { class: 'msg reply' + (item.old ? ' old' : '') },
      h('div', { class: 'who' }, h('span', {}, bdi(item.model || 'model')),
        item.old ? h('span', { class: 'tag warn' }, 'discarded attempt') : null,
        item.stop === 'stop' || item.stop === 'tool use' ? null : h('span', { class: 'tag ' + (item.stop === 'error' ? 'bad' : 'warn') }, item.stop),
        item.vendor_calls ? h('span', { class: 'tag' }, plural(item.vendor_calls, 'call') + ' of tools of the vendor') : null),
      h('div', { class: 'box' },
        item.c.map((b) => (b.k === 'call' ? call(b, at.results.get(b.id), at) : block(b))),
        item.err ? h('div', { class: 'error' }, visibleText(item.err)) : null));
    // A result is shown with its call.
    case 'result': return at.calls.has(item.id) ? null : call({ id: item.id, name: item.name, args: '' }, item, at);
    case 'extension': return h('details', { class: 'msg fold' }, h('summary', {}, 'Note of the program: ', bdi(item.kind)), json(item.data));
    case 'note': return note(item, at);
    default: return null;
  }
}

/** What the items of a turn refer to. */
function context(items, loopContent) {
  const at = { results: new Map(), calls: new Set(), children: loopContent.children || [] };
  for (const item of items) {
    if (item.k === 'result') at.results.set(item.id, item);
    if (item.k === 'reply') for (const b of item.c) if (b.k === 'call') at.calls.add(b.id);
  }
  return at;
}

function items(list, loopContent) {
  const at = context(list, loopContent);
  return list.map((item) => itemNode(item, at)).filter(Boolean);
}
