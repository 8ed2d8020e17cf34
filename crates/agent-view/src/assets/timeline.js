// Timelines: what ran when. Pauses without activity are shortened.

const WIDTH = 900;
const MOST_BARS = 3000;

/** Returns a function from times to positions. Gaps between the spans get at most a fiftieth of the width each. */
function scale(spans) {
  const sorted = spans.filter(([a, z]) => z >= a).sort((x, y) => x[0] - y[0]);
  const merged = [];
  for (const [a, z] of sorted) {
    const last = merged[merged.length - 1];
    if (last && a <= last[1]) last[1] = Math.max(last[1], z);
    else merged.push([a, z]);
  }
  const busy = merged.reduce((total, [a, z]) => total + z - a, 0) || 1;
  const most = busy / 50;
  const knots = [];
  const gaps = [];
  let at = 0;
  merged.forEach(([a, z], n) => {
    if (n) {
      const gap = a - merged[n - 1][1];
      const shown = Math.min(gap, most);
      if (gap > shown * 1.5) gaps.push([at + shown / 2, gap]);
      at += shown;
    }
    knots.push([a, at], [z, at + z - a]);
    at += z - a;
  });
  const unit = WIDTH / (at || 1);
  const x = (time) => {
    let low = 0;
    let high = knots.length - 1;
    if (high < 0 || time <= knots[0][0]) return 0;
    if (time >= knots[high][0]) return WIDTH;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle][0] <= time) low = middle;
      else high = middle;
    }
    const [t0, x0] = knots[low];
    const [t1, x1] = knots[high];
    return (x0 + ((time - t0) / (t1 - t0 || 1)) * (x1 - x0)) * unit;
  };
  return { x, gaps: gaps.map(([place, gap]) => [place * unit, gap]), busy };
}

function bar(kind, x0, x1, y, height, label, go) {
  const rect = svg('rect', { class: kind, x: x0.toFixed(1), y, width: Math.max(x1 - x0, 1.5).toFixed(1), height, rx: 2, 'data-go': go || null },
    svg('title', {}, label));
  if (go) rect.addEventListener('click', () => { location.hash = go; });
  return rect;
}

function axis(s, spans, height) {
  const first = spans.reduce((least, span) => Math.min(least, span[0]), Infinity);
  const last = spans.reduce((most, span) => Math.max(most, span[1]), 0);
  return [
    svg('line', { class: 'axis', x1: 0, x2: WIDTH, y1: height - 16, y2: height - 16 }),
    svg('text', { x: 0, y: height - 3 }, clock(first)),
    svg('text', { x: WIDTH, y: height - 3, 'text-anchor': 'end' }, clock(last)),
    ...s.gaps.slice(0, 200).map(([place, gap]) => svg('line', { class: 'gap', x1: place.toFixed(1), x2: place.toFixed(1), y1: 0, y2: height - 16 }, svg('title', {}, 'nothing for ' + duration(gap)))),
  ];
}

function legend(...entries) {
  return h('div', { class: 'legend' }, entries.map(([kind, text]) => h('span', {}, h('i', { class: kind }), text)));
}

function chart(height, label, children) {
  return svg('svg', { class: 'time', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': label, preserveAspectRatio: 'xMinYMin meet' }, children);
}

/** The times of a turn in which the model or a tool was active. Waiting for an answer is a pause. */
function active(turn) {
  const [model, wait, tool] = shares(turn);
  const spans = [[turn.a, turn.a + model]];
  if (tool > 0) spans.push([turn.a + model + wait, turn.a + model + wait + tool]);
  return spans;
}

/** The timeline of a loop: a lane for the model, and lanes for its tools. */
function loopTimeline(n, loopContent) {
  const loop = loops[n];
  const spans = loop.tt.flatMap(active);
  if (!spans.length) return null;
  const s = scale(spans);
  const bars = [];
  const lanes = [];
  loop.tt.slice(0, MOST_BARS).forEach((turn, at) => {
    const [model, wait] = shares(turn);
    const name = 'turn ' + (at + 1) + ': ';
    if (wait > 0) bars.push(bar('wait', s.x(turn.a + model), s.x(turn.a + model + wait), 6, 8, name + 'waiting, ' + duration(wait), link(n, at)));
    bars.push(bar(turn.z === null ? 'open' : 'model', s.x(turn.a), s.x(turn.a + model), 2, 16, name + 'model, ' + duration(model), link(n, at)));
    const results = loopContent.turns[at] ? loopContent.turns[at].i.filter((item) => item.k === 'result' && item.ms !== null && item.t !== undefined && item.t !== null) : [];
    for (const result of results.slice(0, 200)) {
      const [from, to] = [result.t - result.ms, result.t];
      let lane = lanes.findIndex((end) => end <= from);
      if (lane < 0) lane = lanes.length < 6 ? lanes.push(0) - 1 : 5;
      lanes[lane] = to;
      bars.push(bar(result.err ? 'fail' : 'tool', s.x(from), s.x(to), 22 + lane * 12, 10, name + visible(result.name) + ', ' + duration(result.ms), link(n, at)));
    }
  });
  const height = 24 + Math.max(lanes.length, 1) * 12 + 18;
  return h('div', { class: 'panel' }, h('h2', {}, 'Timeline', h('span', { class: 'dim' }, duration(s.busy) + ' by the clock')),
    chart(height, 'Timeline of the loop: model and tools', [...axis(s, spans, height), ...bars]),
    legend(['model', 'model, with retries'], ['tool', 'tool'], ['fail', 'failed tool'], ['wait', 'waiting for an answer']));
}

/** The timeline of a session: a bar for each turn; loops that ran at the same time are below each other. */
function sessionTimeline(list) {
  const spans = [];
  for (const n of list) for (const turn of loops[n].tt) spans.push(...active(turn));
  if (!spans.length) return null;
  const s = scale(spans);
  const lanes = [];
  const bars = [];
  let left = 0;
  for (const n of list) {
    const loop = loops[n];
    if (!loop.tt.length) continue;
    const from = loop.tt[0].a;
    const to = loop.tt[loop.tt.length - 1].z || from;
    let lane = lanes.findIndex((end) => end <= from);
    if (lane < 0) lane = lanes.length < 8 ? lanes.push(0) - 1 : 7;
    lanes[lane] = Math.max(lanes[lane], to);
    loop.tt.forEach((turn, at) => {
      if (bars.length >= MOST_BARS) { left++; return; }
      const [model, wait, tool] = shares(turn);
      const y = 2 + lane * 16;
      const name = titleOf(loop).slice(0, 60) + ', turn ' + (at + 1) + ': ';
      bars.push(bar('model', s.x(turn.a), s.x(turn.a + model), y, 12, name + 'model, ' + duration(model), link(n, at)));
      if (wait > 0) bars.push(bar('wait', s.x(turn.a + model), s.x(turn.a + model + wait), y + 4, 4, name + 'waiting, ' + duration(wait), link(n, at)));
      if (tool > 0) bars.push(bar(turn.e ? 'fail' : 'tool', s.x(turn.a + model + wait), s.x(turn.a + model + wait + tool), y, 12, name + 'tools, ' + duration(tool), link(n, at)));
    });
  }
  const height = 4 + lanes.length * 16 + 20;
  return h('div', { class: 'panel' }, h('h2', {}, 'Timeline', h('span', { class: 'dim' }, duration(s.busy) + ' by the clock; pauses are shortened' + (left ? '; ' + number(left) + ' later turns are not drawn' : ''))),
    chart(height, 'Timeline of the session: model and tools', [...axis(s, spans, height), ...bars]),
    legend(['model', 'model, with retries'], ['tool', 'tools'], ['fail', 'tools, with a failure'], ['wait', 'waiting for an answer']));
}
