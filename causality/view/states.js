// What each process does, where the clocks are across and the trace says how long calls lasted: a bar for each call,
// and a pale one for what is between two of them.
Object.assign(LIGHT, { computing: '#e3e7e9', sending: '#90caf9', waiting: '#ffcc80', gathering: '#a5d6a7', words: '#37474f' });
Object.assign(DARK, { computing: '#2a3237', sending: '#1e5a8a', waiting: '#8a5a1c', gathering: '#2f6b33', words: '#dde3e6' });
const took = Float64Array.from(D.took || []);
const hasStates = D.byTime && took.some(each => each > 0);
const STATES = ['sending', 'waiting', 'gathering'];
const stateOf = e => kind(e) === SEND || kind(e) === POST ? 0 : kind(e) === COLLECTIVE ? 2 : 1;
const callBegin = e => stateOf(e) === 0 ? x[e] : x[e] - took[e], callEnd = e => stateOf(e) === 0 ? x[e] + took[e] : x[e];
const callName = e => placeOf[e] > 0 ? D.places[placeOf[e]].split(' ')[0] : '';
const barHeight = () => Math.max(2, Math.min(16, scaleY * 0.45));

// Bars that are narrower than a pixel share it: it gets the colour of the longest, the paler the less of it is filled.
const SHADES = 4;
function drawStates(p0, p1, from, to) {
  if (!hasStates || !byId('showStates').checked) return;
  const high = barHeight(), paths = new Map();
  const path = (state, shade) => {
    const key = state * 8 + shade;
    if (!paths.has(key)) paths.set(key, new Path2D());
    return paths.get(key);
  };
  const words = [];
  g.fillStyle = C.computing;
  for (let p = p0; p <= p1; ++p) {
    if (first[p] === first[p + 1]) continue;
    const y = toY(p) - high / 2, begun = Math.max(MARGIN, toX(callBegin(first[p])));
    g.fillRect(begun, y, Math.min(width, toX(callEnd(first[p + 1] - 1))) - begun, high);
    let pixel = -1, run = null;
    const filled = [0, 0, 0];
    const flushRun = () => { if (run) path(run.state, run.shade).rect(run.at, y, run.wide, high); run = null; };
    const flushPixel = () => {
      const all = filled[0] + filled[1] + filled[2];
      if (pixel < 0 || all <= 0) return;
      const state = filled.indexOf(Math.max(...filled)), shade = Math.max(1, Math.min(SHADES, Math.ceil(all * SHADES)));
      if (run && run.state === state && run.shade === shade && run.at + run.wide === pixel) ++run.wide;
      else { flushRun(); run = { at: pixel, wide: 1, state, shade }; }
      filled.fill(0);
    };
    // The call before the first event in sight may reach into it, and one that ends out of sight as well.
    for (let e = Math.max(first[p], firstAt(p, from) - 1); e < first[p + 1]; ++e) {
      const begin = callBegin(e), end = callEnd(e);
      if (begin > to) break;
      if (took[e] <= 0) continue;
      const a = Math.max(MARGIN - 4, toX(begin)), b = Math.min(width, toX(end));
      if (b <= a) continue;
      if (b - a < 2) {
        if (Math.floor(a) !== pixel) { flushPixel(); pixel = Math.floor(a); }
        filled[stateOf(e)] += b - a;
        continue;
      }
      flushPixel(); flushRun(); pixel = -1;
      path(stateOf(e), SHADES).rect(a, y, b - a, high);
      const last = e + 1 === first[p + 1] || !(flags[e + 1] & JOINED);  // of its call
      if (last && high >= 12 && b - a > 40) words.push([e, a, b, p]);
    }
    flushPixel(); flushRun();
  }
  for (const [key, each] of paths) {
    g.fillStyle = C[STATES[key >> 3]];
    g.globalAlpha = (key & 7) / SHADES;
    g.fill(each);
  }
  g.globalAlpha = 1;
  g.fillStyle = C.words; g.font = '10px sans-serif';
  for (const [e, a, b, p] of words) {
    const name = callName(e), wide = name ? g.measureText(name).width : 0;
    if (wide > 0 && wide < b - a - 9) g.fillText(name, Math.max(a, MARGIN) + 5, toY(p) + 3.5);
  }
}
unders.push(drawStates);

if (hasStates) LEGEND.push(['computing', 'computing'], ['sending', 'sending'], ['waiting', 'waiting'], ['gathering', 'in a collective']);
byId('showStates').parentElement.style.display = hasStates ? '' : 'none';
byId('showStates').addEventListener('change', () => { dirty = true; });

const lasted = microseconds => axisText(microseconds, microseconds >= 1e6 ? 1e6 : microseconds >= 1e3 ? 1e3 : 1);
// From the end of the call before: what a call with several events has in between is no computing.
function computedBefore(e) {
  if (e === first[proc[e]] || flags[e] & JOINED) return 0;
  let before = e - 1, end = callEnd(before);
  while (flags[before] & JOINED && before > first[proc[e]]) end = Math.max(end, callEnd(--before));
  return Math.max(0, callBegin(e) - end);
}
tips.push(e => hasStates && took[e] > 0 ? `in the call for ${lasted(took[e])}` : '');
tellers.push((e, add) => {
  if (!hasStates) return;
  if (took[e] > 0) add('in the call', lasted(took[e]));
  if (computedBefore(e) > 0) add('computed before', lasted(computedBefore(e)));
  const p = proc[e];
  add(`all of rank ${p}`, `computes ${share(p, 3)} %, waits ${share(p, 1)} %, in collectives ${share(p, 2)} %, sends ${share(p, 0)} %`);
});
// What each rank does in all: microseconds in each of the states, and the last, computing.
const totals = [];
for (let p = 0; p < N && hasStates; ++p) {
  const sum = [0, 0, 0, 0];
  for (let e = first[p], left = -1; e < first[p + 1]; ++e) {
    if (left >= 0) sum[3] += Math.max(0, callBegin(e) - left);
    // Events of one call share its time.
    sum[stateOf(e)] += Math.max(0, callEnd(e) - Math.max(callBegin(e), left));
    left = Math.max(left, callEnd(e));
  }
  totals.push(sum);
}
const share = (p, ...states) => {
  const all = totals[p].reduce((a, b) => a + b, 0);
  return all > 0 ? Math.round(100 * states.reduce((sum, state) => sum + totals[p][state], 0) / all) : 0;
};
labels.push((p0, p1) => {
  if (!hasStates || !byId('showStates').checked || scaleY < 30) return;
  g.fillStyle = C.axis; g.font = '9px sans-serif';
  for (let p = p0; p <= p1; ++p) if (totals[p][0] + totals[p][1] + totals[p][2] > 0) g.fillText(`computes ${share(p, 3)} %`, 8, toY(p) + 15);
});
// A bar under the mouse is its call's event.
finders.push((px, py) => {
  const p = Math.round(fromY(py));
  if (!hasStates || !byId('showStates').checked || p < 0 || p >= N || Math.abs(toY(p) - py) > barHeight() / 2) return -1;
  const at = fromX(px);
  for (let e = Math.max(first[p], firstAt(p, at) - 1); e < first[p + 1] && callBegin(e) <= at; ++e)
    if (took[e] > 0 && at <= callEnd(e)) return e;
  return -1;
});

function checkStates(check) {
  if (!hasStates) return null;
  let longest = 0;
  for (let e = 0; e < E; ++e) if (took[e] > took[longest]) longest = e;
  fit(); choose(-1);
  scaleX = 300 / took[longest]; left = callBegin(longest) - 100 / scaleX;
  scaleY = 60; top_ = proc[longest] - height / 2 / scaleY;
  draw();
  const middle = Math.round(toX(callBegin(longest) + took[longest] / 2)), row = Math.round(toY(proc[longest]) + barHeight() / 2 - 2);
  const dot = g.getImageData(middle * ratio, row * ratio, 1, 1).data, hex = '#' + [dot[0], dot[1], dot[2]].map(v => v.toString(16).padStart(2, '0')).join('');
  check(`the longest call has the colour ${hex}`, hex === C[STATES[stateOf(longest)]]);
  check('its bar leads to it', nearest(middle, row) === longest);
  check('it is said how long it took', text(longest).includes('in the call for'));
  byId('showStates').checked = false; draw();
  const bare = g.getImageData(middle * ratio, row * ratio, 1, 1).data;
  check('bars can be left out', bare[0] !== dot[0] || bare[1] !== dot[1] || bare[2] !== dot[2]);
  byId('showStates').checked = true;
  const p = proc[longest], spanned = callEnd(first[p + 1] - 1) - callBegin(first[p]);
  check('the times of all states are the whole time', Math.abs(totals[p].reduce((a, b) => a + b, 0) - spanned) <= spanned / 100 + 5);
  return took[longest];
}
