'use strict';
(() => {
  const SVG = 'http://www.w3.org/2000/svg';
  const svg = (name, attributes, text) => {
    const e = document.createElementNS(SVG, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const html = (name, className, text) => {
    const e = document.createElement(name);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const parsed = new Map();
  const read = id => {
    if (!parsed.has(id)) parsed.set(id, JSON.parse(document.getElementById(id).textContent));
    return parsed.get(id);
  };
  const clamp = (v, low, high) => Math.min(high, Math.max(low, v));
  const at = (list, t) => list.filter(s => s.a <= t && t < Math.max(s.b, s.a + 0.05));
  const ms = v => v >= 1000 ? (v / 1000).toFixed(2) + ' s' : (v >= 100 ? v.toFixed(0) : v.toFixed(1)) + ' ms';

  // Labels are measured with the font they are drawn in.
  const ruler = document.createElement('canvas').getContext('2d');
  const wide = text => { ruler.font = '11.5px ' + getComputedStyle(document.body).fontFamily; return ruler.measureText(text).width; };
  const cut = (text, room) => {
    if (wide(text) <= room) return text;
    while (text && wide(text + '…') > room) text = text.slice(0, -1);
    return text.length > 2 ? text + '…' : '';
  };

  // ticks returns round steps that leave each label room.
  const ticks = (a, b, width) => {
    const rough = (b - a) / Math.max(2, width / 90);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(s => s >= rough);
    const found = [];
    for (let n = Math.ceil(a / step - 1e-9); n * step <= b + 1e-9; n++) found.push(n * step);
    return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
  };

  class Chart {
    constructor(root) {
      this.root = root;
      this.run = read(root.dataset.from);
      this.plot = root.querySelector('.plot');
      this.tip = root.querySelector('.tip');
      this.reset = root.querySelector('.reset');
      this.all = [0, Math.max(this.run.end, 0.1)];
      [this.a, this.b] = this.all;
      this.listen();
      new ResizeObserver(() => { if (this.plot.clientWidth !== this.width) this.draw(); }).observe(this.plot);
      this.draw();
    }
    x(t) { return this.left + (t - this.a) / (this.b - this.a) * this.span; }
    t(x) { return clamp(this.a + (x - this.left) / this.span * (this.b - this.a), this.a, this.b); }
    add(name, attributes, text) { return this.into.appendChild(svg(name, attributes, text)); }
    hover(e, text) { if (text) e.appendChild(svg('title', {}, text)); return e; }
    line(x1, y1, x2, y2, cls) { return this.add('line', { x1, y1, x2, y2, class: cls }); }
    rowName(text, y, cls) { this.names.appendChild(svg('text', { x: this.left - 12, y, 'text-anchor': 'end', class: cls }, cut(text, this.left - 16))); }

    draw() {
      this.tip.hidden = true;
      this.width = this.plot.clientWidth;
      if (!this.width) return;
      this.left = this.width < 820 ? 74 : 92;
      this.span = this.width - this.left - 14;
      this.canvas = svg('svg', { role: 'img', 'aria-label': 'Steps, actions, faults, machines, the host, client latency and quorum margin over time' });
      const clip = 'clip-' + this.root.dataset.from;
      const defs = this.canvas.appendChild(svg('defs', {}));
      this.hatch = 'hatch-' + this.root.dataset.from;
      const pattern = defs.appendChild(svg('pattern', { id: this.hatch, width: 7, height: 7, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }));
      pattern.appendChild(svg('line', { x1: 0, y1: 0, x2: 0, y2: 7, class: 'hatch' }));
      const mask = defs.appendChild(svg('clipPath', { id: clip }));
      this.back = this.canvas.appendChild(svg('g', {}));
      this.names = this.canvas.appendChild(svg('g', {}));
      this.into = this.canvas.appendChild(svg('g', { 'clip-path': `url(#${clip})` }));
      this.y = 26;
      this.moments = [];
      this.spans('steps', this.run.steps, 'step', 4);
      this.spans('actions', this.run.actions, 'action', 5);
      this.spans('findings', this.run.found, 'finding', 3);
      this.spans('faults', this.run.faults, 'fault', 3);
      this.lanes();
      this.host();
      this.latency();
      this.margin();
      for (const x of this.moments) this.line(x, 26, x, this.y, 'moment');
      this.axis();
      this.height = this.y + 22;
      mask.appendChild(svg('rect', { x: this.left - 1, y: 0, width: this.span + 2, height: this.height }));
      this.canvas.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
      this.canvas.setAttribute('height', this.height);
      this.cross = this.canvas.appendChild(svg('line', { y1: 22, y2: this.y, class: 'cross', visibility: 'hidden' }));
      this.select = this.canvas.appendChild(svg('rect', { y: 22, height: this.y - 22, class: 'select', visibility: 'hidden' }));
      this.plot.replaceChildren(this.canvas);
      this.reset.hidden = this.a === this.all[0] && this.b === this.all[1];
    }

    // spans packs labelled bars into rows so that no label meets another.
    spans(name, list, cls, most) {
      if (!list.length) return;
      const seen = list.filter(s => s.b >= this.a && s.a <= this.b);
      const rows = [], pitch = 19;
      for (const s of seen) {
        const from = Math.max(this.x(s.a), this.left), to = Math.min(Math.max(this.x(s.b), this.x(s.a) + 3), this.left + this.span);
        const label = wide(s.n), inside = to - from >= label + 10;
        const after = this.left + this.span - to - 6 >= label;
        const reach = inside || !after ? to : to + 6 + label;
        let row = rows.findIndex(end => end + 6 <= from);
        if (row < 0 && rows.length < most) row = rows.push(0) - 1;
        const crowded = row < 0;
        if (crowded) row = rows.indexOf(Math.min(...rows));
        rows[row] = Math.max(rows[row], crowded ? to : reach);
        if (cls === 'finding') this.moments.push(this.x(s.a));
        this.bar(s, cls, from, to, this.y + row * pitch, crowded ? 'none' : inside ? 'inside' : after ? 'after' : 'cut');
      }
      this.rowName(name, this.y + 12, 'row-kind');
      this.y += Math.max(rows.length, 1) * pitch + 7;
    }
    bar(s, cls, from, to, y, label) {
      const broken = s.s === 'failed' || s.s === 'halted';
      const tone = cls === 'fault' ? 'fault-bar' : cls === 'finding' ? 'finding-bar' : broken ? 'broken' : cls;
      const e = this.add('rect', { x: from, y, width: to - from, height: 16, rx: 2, class: tone });
      this.hover(e, `${s.n}, ${s.a.toFixed(2)}–${s.b.toFixed(2)} s, ${s.s}${s.x ? ': ' + s.x : ''}`);
      if (label === 'none') return;
      const ink = label === 'after' ? 'beside' : 'on-' + (broken && cls !== 'fault' ? 'broken' : cls);
      this.add('text', { x: label === 'after' ? to + 5 : from + 5, y: y + 12, class: ink, 'pointer-events': 'none' }, label === 'cut' ? cut(s.n, to - from - 10) : s.n);
    }

    lanes() {
      const pitch = 29, top = this.y;
      for (const lane of this.run.lanes) {
        this.rowName(lane.name, this.y + 17, 'row-name');
        let version = '';
        for (const s of lane.spans) {
          if (s.b < this.a || s.a > this.b) { if (s.v) version = s.v; continue; }
          version = this.stint(s, this.y + 4, version);
        }
        this.y += pitch;
      }
      const order = new Map(this.run.lanes.map((l, i) => [l.name, i]));
      for (const f of this.run.faults) for (const name of f.m || []) {
        if (order.has(name)) this.shade(f, top + order.get(name) * pitch + 1, pitch - 2);
      }
      this.run.lanes.forEach((lane, i) => lane.marks.forEach(m => this.mark(m, top + i * pitch + 4)));
      this.y += 8;
    }
    stint(s, y, version) {
      const from = Math.max(this.x(s.a), this.left - 2), to = Math.min(this.x(s.b), this.left + this.span + 2), width = Math.max(to - from, 1);
      const words = `${s.r}${s.l ? ', leader' : ''}${s.r === 'spare' || s.r === 'lost' || s.s ? '' : ', not serving'}${s.v ? ', ' + s.v : ''}${s.m ? ', ' + s.m : ''}, ${s.a.toFixed(2)}–${s.b.toFixed(2)} s`;
      if (s.r === 'spare' || s.r === 'lost') {
        this.hover(this.line(from, y + 10, to, y + 10, s.r), words);
        return version;
      }
      const tone = s.s ? s.r : 'absent' + (s.o ? ' off' : '');
      this.hover(this.add('rect', { x: from, y, width, height: 20, class: tone }), words);
      if (s.s && s.r === 'learner') this.add('rect', { x: from, y, width, height: 20, fill: `url(#${this.hatch})`, 'pointer-events': 'none' });
      if (s.l) this.add('rect', { x: from, y, width, height: 5, class: 'leader', 'pointer-events': 'none' });
      const label = s.s && s.v && s.v !== version ? s.v : !s.s && width > 90 ? 'not serving' : '';
      if (label && wide(label) + 14 <= width) {
        this.add('text', { x: from + 9, y: y + 15.5, class: 'on-' + (s.s ? s.r : 'absent'), 'pointer-events': 'none' }, label);
        if (s.s) version = s.v;
      }
      return version;
    }
    shade(f, y, height) {
      const from = this.x(f.a), to = Math.max(this.x(f.b), from + 2);
      this.add('rect', { x: from, y, width: to - from, height, class: 'shade', 'pointer-events': 'none' });
      this.line(from, y, from, y + height, 'shade-edge');
      if (f.s !== 'open') this.line(to, y, to, y + height, 'shade-end');
    }
    mark(m, y) {
      const x = this.x(m.t);
      if (x < this.left - 6 || x > this.left + this.span + 6) return;
      const shapes = {
        'process-started': ['start', `M${x} ${y + 13}l4.5 9h-9z`],
        'process-exited': ['exit', `M${x - 3.5} ${y + 14.5}l7 7m0 -7l-7 7`],
        'disk-replaced': ['disk', `M${x} ${y + 3.5}l6 6.5l-6 6.5l-6 -6.5z`],
      };
      const [cls, d] = shapes[m.k] || ['alarm', `M${x - 4} ${y + 6}h8v8h-8z`];
      this.hover(this.add('path', { d, class: cls }), `${m.k}, ${m.t.toFixed(2)} s${m.x ? ': ' + m.x : ''}`);
    }

    // host draws when the host kept the run waiting: the more of the time, the darker.
    host() {
      const stalls = this.run.host || [];
      if (!stalls.length) return;
      this.rowName('host', this.y + 10, 'row-kind');
      this.line(this.left, this.y + 7, this.left + this.span, this.y + 7, 'spare');
      for (const s of stalls) {
        const from = this.x(s.a), share = s.v / Math.max(s.b - s.a, 0.001);
        const e = this.add('rect', { x: from, y: this.y, width: Math.max(this.x(s.b) - from, 2), height: 14, class: 'stall', opacity: clamp(share, 0.2, 1) });
        this.hover(e, `the host stalled ${s.v.toFixed(2)} s of ${s.a.toFixed(2)}–${s.b.toFixed(2)} s`);
      }
      this.y += 24;
    }

    latency() {
      const rows = this.run.latency.filter(r => (r[0] + 1) * this.run.bucket >= this.a && r[0] * this.run.bucket <= this.b);
      const values = this.run.latency.flatMap(r => [r[1], r[3], r[7], r[8]]).filter(v => v > 0);
      if (!values.length) return;
      const low = Math.floor(Math.log10(Math.min(...values))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
      const top = this.y + 30, height = 150;
      const y = v => top + height * (1 - (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low));
      this.rowName('latency', top - 14, 'row-kind');
      for (let p = low; p <= high; p++) {
        this.back.appendChild(svg('line', { x1: this.left, y1: y(10 ** p), x2: this.left + this.span, y2: y(10 ** p), class: 'grid' }));
        this.names.appendChild(svg('text', { x: this.left - 12, y: y(10 ** p) + 4, 'text-anchor': 'end' }, p >= 3 ? 10 ** (p - 3) + ' s' : 10 ** p + ' ms'));
      }
      if (this.run.gap) this.gap(top, height);
      const mid = r => this.x((r[0] + 0.5) * this.run.bucket);
      for (const stretch of this.stretches(rows.filter(r => r[4]))) {
        const up = stretch.map(r => `${mid(r).toFixed(1)} ${y(r[2]).toFixed(1)}`), down = stretch.map(r => `${mid(r).toFixed(1)} ${y(r[1]).toFixed(1)}`);
        this.add('path', { class: 'band', d: 'M' + up.concat(down.slice().reverse()).join('L') + 'z' });
        this.add('path', { class: 'p50', d: 'M' + (down.length > 1 ? down : [down[0], down[0]]).join('L') });
      }
      for (const r of rows) {
        if (r[4]) this.add('circle', { cx: mid(r), cy: y(r[3]), r: 1.5, class: 'longest' });
      }
      for (const r of rows) {
        const x = mid(r), at = y(r[8]);
        if (r[5]) this.add('circle', { cx: x, cy: y(r[7]), r: 3.2, class: 'refused' });
        if (r[6]) this.add('path', { d: `M${x - 3.5} ${at - 3.5}l7 7m0 -7l-7 7`, class: 'unknown' });
      }
      const key = this.width < 820 ? 'line p50, band p99, dot longest, ✕ no answer, ○ refused' : 'line p50, band to p99, dot longest; ✕ no answer, ○ refused';
      this.names.appendChild(svg('text', { x: this.left + this.span, y: top - 14, 'text-anchor': 'end' }, key));
      if (this.gapText) this.into.appendChild(this.gapText);
      this.y = top + height + 8;
    }
    gap(top, height) {
      this.gapText = null;
      const [a, b] = this.run.gap;
      if (b < this.a || a > this.b) return;
      const from = Math.max(this.x(a), this.left), to = Math.min(this.x(b), this.left + this.span);
      this.add('rect', { x: from, y: top, width: Math.max(to - from, 2), height, class: 'gap' });
      const text = `longest gap ${(b - a).toFixed(2)} s`, right = to + 6 + wide(text) * 1.1 < this.left + this.span;
      this.gapText = svg('text', { x: right ? to + 6 : from - 6, y: top + 15, 'text-anchor': right ? 'start' : 'end', class: 'gap-text' }, text);
    }
    // stretches parts the buckets where clients got no answer for longer than three.
    stretches(rows) {
      const found = [];
      for (const r of rows) {
        const last = found[found.length - 1];
        if (last && r[0] - last[last.length - 1][0] <= 3) last.push(r); else found.push([r]);
      }
      return found;
    }

    margin() {
      const known = this.run.margin.filter(m => m.v !== null).map(m => m.v);
      if (!known.length) return;
      const low = Math.min(0, ...known), high = Math.max(1, ...known), top = this.y + 34, height = Math.max(44, 18 * (high - low));
      const y = v => top + height * (high - v) / (high - low);
      this.rowName('margin', top - 14, 'row-kind');
      this.names.appendChild(svg('text', { x: this.left + this.span, y: top - 14, 'text-anchor': 'end' }, 'voters serving − quorum: below 0 nothing commits'));
      for (let v = low; v <= high; v++) {
        if (v) this.back.appendChild(svg('line', { x1: this.left, y1: y(v), x2: this.left + this.span, y2: y(v), class: 'grid' }));
        this.names.appendChild(svg('text', { x: this.left - 12, y: y(v) + 4, 'text-anchor': 'end' }, v < 0 ? '−' + -v : v));
      }
      this.line(this.left, y(0), this.left + this.span, y(0), 'zero');
      let path = '', before = null;
      this.run.margin.forEach((m, i) => {
        const next = this.run.margin[i + 1], from = this.x(m.t), to = this.x(next ? next.t : this.run.end);
        if (m.v === null) { before = null; return; }
        const area = m.v < 0 ? 'margin-low' : 'margin-area';
        this.add('rect', { x: from, y: Math.min(y(m.v), y(0)), width: Math.max(to - from, 0), height: Math.abs(y(m.v) - y(0)), class: area });
        path += `${before === null ? 'M' : 'L'}${from} ${y(m.v)}H${to}`;
        before = m.v;
      });
      this.add('path', { d: path, class: 'margin' });
      this.y = top + height + 6;
    }

    axis() {
      const { found, digits } = ticks(this.a, this.b, this.span);
      for (const t of found) {
        const x = this.x(t), label = t.toFixed(digits) + ' s';
        this.back.appendChild(svg('line', { x1: x, y1: 20, x2: x, y2: this.y, class: 'grid' }));
        for (const y of [13, this.y + 16]) this.names.appendChild(svg('text', { x: Math.min(x, this.width - wide(label) / 2 - 1), y, 'text-anchor': 'middle' }, label));
      }
      this.back.appendChild(svg('line', { x1: this.left, y1: this.y, x2: this.left + this.span, y2: this.y, class: 'edge' }));
    }

    // say fills the tip with all that is known of the moment t.
    say(t) {
      const lines = [];
      for (const [name, list] of [['finding', this.run.found], ['step', this.run.steps], ['action', this.run.actions], ['fault', this.run.faults]]) {
        for (const s of at(list, t)) lines.push([name, [s.n, (s.m || []).join(', '), s.s === 'done' ? '' : s.s, s.x].filter(Boolean).join(' · '), name === 'fault' || s.s === 'failed']);
      }
      for (const lane of this.run.lanes) {
        const s = lane.spans.find(s => s.a <= t && t <= s.b);
        if (!s || s.r === 'spare') continue;
        const sick = !s.s || s.r === 'lost';
        lines.push([lane.name, [s.r, s.l && 'leader', s.r !== 'lost' && !s.s && 'not serving', s.v].filter(Boolean).join(' · '), sick]);
      }
      for (const s of at(this.run.host || [], t)) lines.push(['host', `stalled ${s.v.toFixed(2)} s of ${(s.b - s.a).toFixed(2)} s`, true]);
      const r = this.run.latency.find(r => r[0] === Math.floor(t / this.run.bucket + 1e-9));
      if (r && r[4]) lines.push(['latency', `p50 ${ms(r[1])} · p99 ${ms(r[2])} · ${r[4]} acked`]);
      if (r && (r[5] || r[6])) lines.push(['clients', [r[6] && r[6] + ' no answer', r[5] && r[5] + ' refused'].filter(Boolean).join(' · '), true]);
      const m = this.run.margin.filter(m => m.t <= t).pop();
      if (m && m.v !== null) lines.push(['margin', String(m.v).replace('-', '−'), m.v < 0]);
      const head = html('span', 'time', t.toFixed(2) + ' s');
      this.tip.replaceChildren(head, ...lines.slice(0, 18).map(([name, text, hot]) => {
        const p = html('p');
        p.append(html('b', '', name), html('span', hot ? 'hot' : '', text));
        return p;
      }));
    }
    point(t, y) {
      this.now = t;
      const x = this.x(t);
      this.cross.setAttribute('x1', x);
      this.cross.setAttribute('x2', x);
      this.cross.setAttribute('visibility', 'visible');
      this.say(t);
      this.tip.hidden = false;
      const box = this.plot.offsetTop, side = x + 18 + this.tip.offsetWidth < this.width ? x + 14 : x - 14 - this.tip.offsetWidth;
      this.tip.style.left = Math.max(0, side) + 'px';
      this.tip.style.top = box + clamp(y, 0, Math.max(0, this.height - this.tip.offsetHeight)) + 'px';
    }
    leave() {
      this.cross.setAttribute('visibility', 'hidden');
      this.tip.hidden = true;
    }
    zoom(a, b) {
      const least = 0.05;
      if (b - a < least) { a = (a + b - least) / 2; b = a + least; }
      this.a = Math.max(a, this.all[0]);
      this.b = Math.min(b, this.all[1]);
      this.leave();
      this.draw();
    }
    listen() {
      const place = e => { const box = this.plot.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
      let from = null;
      this.plot.addEventListener('pointerdown', e => { if (e.button === 0 && e.pointerType !== 'touch') { from = place(e)[0]; this.plot.setPointerCapture(e.pointerId); } });
      this.plot.addEventListener('pointermove', e => {
        const [x, y] = place(e);
        this.point(this.t(x), y + 14);
        if (from === null) return;
        const a = clamp(Math.min(from, x), this.left, this.left + this.span), b = clamp(Math.max(from, x), this.left, this.left + this.span);
        this.select.setAttribute('x', a);
        this.select.setAttribute('width', b - a);
        this.select.setAttribute('visibility', 'visible');
      });
      this.plot.addEventListener('pointerup', e => {
        if (from === null) return;
        const [x] = place(e), a = Math.min(from, x), b = Math.max(from, x);
        from = null;
        this.select.setAttribute('visibility', 'hidden');
        if (b - a > 6) this.zoom(this.t(a), this.t(b));
      });
      this.plot.addEventListener('pointercancel', () => { from = null; this.select.setAttribute('visibility', 'hidden'); });
      this.plot.addEventListener('pointerleave', () => this.leave());
      this.plot.addEventListener('blur', () => this.leave());
      this.plot.addEventListener('dblclick', () => this.zoom(...this.all));
      this.plot.addEventListener('keydown', e => this.key(e));
      this.reset.addEventListener('click', () => this.zoom(...this.all));
    }
    key(e) {
      const t = this.now ?? (this.a + this.b) / 2, step = (this.b - this.a) / (e.shiftKey ? 20 : 200), half = (this.b - this.a) / 4;
      const moves = { ArrowLeft: t - step, ArrowRight: t + step, Home: this.a, End: this.b };
      const zooms = { '+': [t - half, t + half], '=': [t - half, t + half], '-': [this.a - half, this.b + half], Escape: this.all };
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key in moves) this.point(clamp(moves[e.key], this.a, this.b), 30);
      else if (e.key in zooms) this.zoom(...zooms[e.key]);
      else return;
      e.preventDefault();
    }
  }

  // Events are listed when their list is opened.
  const bad = /(failed|halted|refused|missed|down|exited|alarm|landed)$/;
  const listEvents = details => {
    const run = read(details.dataset.from), body = details.querySelector('tbody'), input = details.querySelector('input'), status = details.querySelector('[role=status]');
    for (const [time, kind, where, what] of run.events) {
      const tr = html('tr', bad.test(kind) ? 'bad' : '');
      tr.append(html('td', 'n', time.toFixed(3)), html('td', '', kind), html('td', '', where), html('td', '', what));
      body.append(tr);
    }
    const left = run.omitted ? `, ${run.omitted} more in the history file` : '';
    sieve(input, [...body.rows], status, 'events' + left);
  };

  // sieve hides the rows that lack one of the words typed.
  const sieve = (input, rows, status, noun) => {
    const texts = rows.map(r => r.textContent.toLowerCase());
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((r, i) => { r.hidden = !words.every(w => texts[i].includes(w)); if (!r.hidden) shown++; });
      for (const body of document.querySelectorAll('.cells tbody')) {
        const of = [...body.querySelectorAll('tr.cell')];
        body.hidden = of.length > 0 && of.every(r => r.hidden);
      }
      status.textContent = shown === rows.length ? `${shown} ${noun}` : `${shown} of ${rows.length} ${noun}`;
    };
    input.addEventListener('input', apply);
    apply();
  };

  const once = (details, make) => {
    const open = () => { if (details.open && !details.dataset.made) { details.dataset.made = 'yes'; make(); } };
    details.addEventListener('toggle', open);
    open();
  };
  for (const cell of document.querySelectorAll('details.one')) {
    once(cell, () => cell.querySelectorAll('.chart').forEach(c => new Chart(c)));
  }
  for (const events of document.querySelectorAll('details.events')) once(events, () => listEvents(events));

  const rows = [...document.querySelectorAll('tr.cell')];
  sieve(document.getElementById('filter'), rows, document.getElementById('shown'), rows.length === 1 ? 'cell' : 'cells');

  // A link to a cell opens it.
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener('hashchange', follow);
  for (const a of document.querySelectorAll('tr.cell a')) a.addEventListener('click', () => setTimeout(follow));
  follow();
})();
