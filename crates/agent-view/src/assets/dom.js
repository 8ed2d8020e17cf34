// Elements and texts. Everything that comes from a session enters the document as a text node or an attribute of a fixed name.

/** Creates an element. Children are nodes or texts; `null` and `false` are left out. */
function h(name, props, ...children) {
  const el = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'on') for (const [type, listener] of Object.entries(value)) el.addEventListener(type, listener);
    else if (key === 'css') for (const [property, text] of Object.entries(value)) el.style.setProperty(property, text);
    else if (key === 'class') el.className = value;
    else el.setAttribute(key, value === true ? '' : String(value));
  }
  el.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== ''));
  return el;
}

/** Creates an SVG element. */
function svg(name, props, ...children) {
  const el = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(props || {})) if (value !== null && value !== undefined) el.setAttribute(key, String(value));
  el.append(...children.flat());
  return el;
}

const $ = (id) => document.getElementById(id);

/** Shows characters that are invisible, or that change the direction of a line, as escapes. */
function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb]/g,
    (c) => '\\u{' + c.charCodeAt(0).toString(16) + '}');
}

/** Returns a text in an element that its direction cannot leave. */
const bdi = (text) => h('bdi', {}, visible(text));

function cut(text, length) {
  return text.length > length ? text.slice(0, length) + '…' : text;
}

function plural(count, word) {
  return number(count) + ' ' + word + (count === 1 ? '' : 's');
}

const number = (value) => Number(value).toLocaleString('en-US');

function tokens(value) {
  if (value < 10000) return number(value);
  if (value < 1e6) return (value / 1000).toFixed(value < 1e5 ? 1 : 0) + 'k';
  return (value / 1e6).toFixed(value < 1e7 ? 2 : 1) + 'M';
}

function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return Math.round(ms) + ' ms';
  const s = ms / 1000;
  if (s < 60) return s.toFixed(s < 10 ? 2 : 1) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor((s % 86400) / 3600) + ' h';
}

/** An amount is `null` if it is unknown, micro-units, or a list with micro-units that are not all. */
function money(amount) {
  if (amount === null || amount === undefined) return '–';
  const micros = Array.isArray(amount) ? amount[0] : amount;
  const sum = micros / 1e6;
  return (Array.isArray(amount) ? '≥ ' : '') + '$' + (sum === 0 ? '0' : sum < 0.01 ? sum.toFixed(5) : sum < 1 ? sum.toFixed(4) : sum.toFixed(2));
}

function add(a, b) {
  if (b === null || b === undefined) return a;
  if (a === null || a === undefined) return b;
  const sum = (Array.isArray(a) ? a[0] : a) + (Array.isArray(b) ? b[0] : b);
  return Array.isArray(a) || Array.isArray(b) ? [sum] : sum;
}

const prompt = (u) => u[0] + u[2] + u[3];

function percent(part, whole) {
  if (!whole) return '–';
  const value = (100 * part) / whole;
  return (value > 0 && value < 1 ? '< 1' : value > 99 && value < 100 ? '> 99' : Math.round(value)) + ' %';
}

function date(ms) {
  const time = new Date(ms);
  if (!ms || Number.isNaN(time.getTime())) return '–';
  return time.toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
}

function clock(ms) {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? '–' : time.toISOString().slice(11, 19);
}

function announce(text) {
  $('status').textContent = text;
}
