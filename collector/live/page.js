
'use strict';
(() => {
  const none = '–';
  const $ = id => document.getElementById(id);
  const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

  // set writes a text; what a server or a client chose is only ever written here.
  const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const hide = (node, hidden) => { if (node.hidden !== hidden) node.hidden = hidden; };
  const element = (name, parent, className) => {
    const e = document.createElement(name);
    if (className) e.className = className;
    if (parent) parent.append(e);
    return e;
  };
  const drawing = (name, parent, attributes) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    parent.append(e);
    return e;
  };

  // Figures with their units. null is no value.
  const count = x => x === null ? none : number.format(x);
  const fixed = digits => x => x === null ? none : x.toFixed(digits);
  const rate = x => x === null ? none : x === 0 ? '0' : x >= 100 ? number.format(x) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
  const seconds = x => {
    if (x === null) return none;
    if (x === 0) return '0 ms';
    if (x >= 99.95) return number.format(x) + ' s';
    if (x >= 0.9995) return x.toFixed(x < 9.995 ? 2 : 1) + ' s';
    const ms = x * 1000;
    return (ms >= 99.95 ? ms.toFixed(0) : ms >= 9.995 ? ms.toFixed(1) : ms.toFixed(2)) + ' ms';
  };
  const share = x => x === null ? none : (x * 100).toFixed(1) + ' %';
  const plural = (n, one, many) => number.format(n) + ' ' + (n === 1 ? one : many);
  const clock = ms => {
    const t = new Date(ms), two = n => String(n).padStart(2, '0');
    const time = two(t.getHours()) + ':' + two(t.getMinutes()) + ':' + two(t.getSeconds());
    if (t.toDateString() === new Date().toDateString()) return time;
    return t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate()) + ' ' + time;
  };

  // pool makes all rows of a table once; its result shows a list in them.
  const pool = (table, length, make) => {
    const body = table.tBodies[0];
    const rows = [];
    for (let i = 0; i < length; i++) {
      const tr = element('tr', body);
      tr.hidden = true;
      rows.push([tr, make(tr)]);
    }
    return (list, fill) => {
      hide(table, list.length === 0);
      hide($(table.id + '-none'), list.length !== 0);
      rows.forEach(([tr, cells], i) => {
        hide(tr, i >= list.length);
        if (i < list.length) fill(cells, list[i], i);
      });
    };
  };

  // A chart: its parts are made once, a redraw moves them.
  const steps = 120, height = 150, left = 52, right = 8, top = 8, bottom = 20;
  const makeChart = (name, series, format, least, from) => {
    const figure = document.querySelector('[data-chart=' + name + ']');
    const key = element('p', figure, 'key');
    const values = series.map((label, i) => {
      const item = element('span', key);
      if (series.length > 1) {
        const sample = drawing('svg', item, { viewBox: '0 0 26 8', 'aria-hidden': 'true' });
        drawing('path', sample, { class: 's' + i, d: 'M1 4h24' });
        item.append(label + ' ');
      }
      return element('span', item);
    });
    const readout = element('span', key);
    const svg = drawing('svg', figure, { class: 'plot', role: 'img' });
    const lines = [0, 1, 2].map(() => [drawing('line', svg, { class: 'grid' }), drawing('text', svg, { 'text-anchor': 'end', x: left - 6 })]);
    const times = ['10 min ago', '5 min ago', 'now'].map((text, i) => {
      const t = drawing('text', svg, { y: height - 4, 'text-anchor': ['start', 'middle', 'end'][i] });
      t.textContent = text;
      return t;
    });
    const paths = series.map((_, i) => drawing('path', svg, { class: 's' + i }));
    const mark = drawing('line', svg, { class: 'mark', y1: top, y2: height - bottom, visibility: 'hidden' });
    let data = series.map(() => []), width = 0, pointed = -1;

    const scale = max => {
      if (!(max > from)) return least;
      const need = Math.max(max, least) - from;
      const unit = Math.pow(10, Math.floor(Math.log10(need)));
      return from + unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find(m => m * unit >= need * 0.999999);
    };
    const x = i => left + (width - left - right) * i / (steps - 1);
    const point = () => {
      const on = pointed >= 0 && data[0].length > 0;
      mark.setAttribute('visibility', on ? 'visible' : 'hidden');
      if (!on) { set(readout, ''); return; }
      mark.setAttribute('x1', x(pointed));
      mark.setAttribute('x2', x(pointed));
      const ago = (steps - 1 - pointed) * 5;
      set(readout, Math.floor(ago / 60) + ':' + String(ago % 60).padStart(2, '0') + ' ago: ' + data.map(d => format(d[pointed])).join(', '));
    };
    const draw = () => {
      if (width === 0) return;
      const known = data.flat().filter(v => v !== null);
      const high = scale(Math.max(...known, from));
      const y = v => height - bottom - (height - top - bottom) * (v - from) / (high - from);
      lines.forEach(([line, text], i) => {
        const v = from + (high - from) * i / 2;
        line.setAttribute('x1', left);
        line.setAttribute('x2', width - right);
        line.setAttribute('y1', y(v));
        line.setAttribute('y2', y(v));
        text.setAttribute('y', y(v) + 4);
        set(text, format(v));
      });
      times.forEach((t, i) => t.setAttribute('x', [left, x((steps - 1) / 2), width - right][i]));
      data.forEach((d, s) => {
        let path = '', open = false;
        d.forEach((v, i) => {
          if (v === null) { open = false; return; }
          const at = x(i).toFixed(1) + ' ' + y(v).toFixed(1);
          path += open ? 'L' + at : 'M' + at + 'h.01';
          open = true;
        });
        paths[s].setAttribute('d', path);
      });
      point();
    };
    new ResizeObserver(() => {
      width = svg.clientWidth;
      svg.setAttribute('viewBox', '0 0 ' + Math.max(width, 1) + ' ' + height);
      draw();
    }).observe(svg);
    svg.addEventListener('pointermove', e => {
      const i = Math.round((e.offsetX - left) / (width - left - right) * (steps - 1));
      pointed = Math.min(Math.max(i, 0), steps - 1);
      point();
    });
    svg.addEventListener('pointerleave', () => { pointed = -1; point(); });
    const title = figure.querySelector('figcaption').textContent;
    return (now, lists) => {
      data = lists;
      values.forEach((v, i) => set(v, series.length > 1 ? format(now[i]) : ''));
      const words = lists.map((d, i) => {
        const known = d.filter(v => v !== null);
        const name = series.length > 1 ? series[i] + ' ' : '';
        return known.length === 0 ? name + 'no value' :
          name + 'lowest ' + format(Math.min(...known)) + ', highest ' + format(Math.max(...known)) + ', latest ' + format(known[known.length - 1]);
      });
      svg.setAttribute('aria-label', title + ', last ten minutes: ' + words.join('; '));
      draw();
    };
  };
  const charts = {
    al: makeChart('acceptance_length', ['AL'], fixed(2), 2, 1),
    requests: makeChart('requests_per_second', ['requests'], x => x === null ? none : rate(x) + '/s', 1, 0),
    tokens: makeChart('output_tokens_per_second', ['tokens'], x => x === null ? none : rate(x) + '/s', 10, 0),
    ttft: makeChart('ttft', ['p50', 'p99'], seconds, 0.001, 0),
    tpot: makeChart('time_per_output_token', ['p50', 'p99'], seconds, 0.001, 0),
  };

  const showPositions = pool($('positions'), 32, tr => {
    const head = element('th', tr);
    head.scope = 'row';
    return { head, bar: element('div', element('div', element('td', tr), 'track'), 'bar'), recent: element('td', tr), total: element('td', tr) };
  });
  const columns = ['Ended', 'Model', 'Route', 'Outcome', 'TTFT', 'Duration', 'Tokens', 'AL', 'Point'];
  const showRecent = pool($('recent'), 50, tr => {
    tr.setAttribute('role', 'row');
    return columns.map((label, i) => {
      const td = element('td', tr, i >= 4 && i <= 7 ? 'n' : '');
      td.setAttribute('role', 'cell');
      td.dataset.label = label;
      return td;
    });
  });
  const kindCells = tr => {
    const td = element('td', tr);
    return { name: element('span', td), why: element('small', td), count: element('td', tr, 'n'), last: element('td', tr, 'n') };
  };
  const showErrors = pool($('errors'), 32, kindCells);
  const showUnmeasured = pool($('unmeasured'), 32, kindCells);

  const errorWords = new Map(Object.entries({
    client_gone: 'the client left before the end of the answer',
    upstream_refused: 'no connection to the engine',
    upstream_reset: 'the engine closed the connection before it answered',
    upstream_timeout: 'the engine took no connection, or did not answer, within the limit',
    upstream_protocol: 'what the engine sent is not HTTP',
    truncated: 'the answer broke off',
    stalled: 'no event within SPECTAP_STALL_TIMEOUT',
    drained: 'the proxy was stopped before the end',
    in_band_error: 'an error event after status 200',
    http_status: 'the engine answered with status 400 or above',
    not_finished: 'the answer ended without a finish reason',
    request_rejected: 'refused by spectap: malformed or too large',
    internal: 'a panic in spectap, recovered',
  }));
  const missingWords = new Map(Object.entries({
    stop_string: 'vLLM leaves statistics out when a stop string ends the reply',
    several_choices: 'n above 1, or several prompts',
    no_usage_event: 'a stream without the usage event that carries statistics; SPECTAP_MEASURE=usage asks for it',
    error: 'the engine answered with an error',
    client_gone: 'the client left before the end of the answer',
    truncated: 'the answer broke off',
    not_reported: 'a whole answer without statistics; vLLM sends them with --per-request-spec-decode-metrics summary',
    not_measured: 'a route or content that spectap does not read',
    unbelieved: 'statistics whose counts cannot be',
  }));
  const fillKind = words => (cells, k) => {
    set(cells.name, k.kind || none);
    set(cells.why, words.get(k.kind) || '');
    set(cells.count, count(k.count));
    set(cells.last, clock(k.last_ms));
  };

  // where tells how a client reaches the data port from where this page is read.
  const where = listen => {
    if (listen.startsWith('unix:')) return { socket: listen.slice(5) };
    const colon = listen.lastIndexOf(':');
    let host = listen.slice(0, Math.max(colon, 0));
    const port = colon < 0 ? '8000' : listen.slice(colon + 1);
    if (host === '' || host === '[::]' || host === '0.0.0.0') host = location.hostname || '127.0.0.1';
    return { base: 'http://' + host + ':' + port };
  };
  const showEmpty = s => {
    hide($('empty'), s.total.requests > 0 || s.state.in_flight > 0);
    if ($('empty').hidden) return;
    const to = where(s.state.listen), ask = '/v1/chat/completions -H "Content-Type: application/json" -d \'{"model": "MODEL", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}\'';
    set($('empty-engine'), s.state.not_ready
      ? 'The engine at ' + s.state.upstream + ' is not ready (' + s.state.not_ready + '). Start it, or set --upstream (SPECTAP_UPSTREAM) to where it listens.'
      : 'The engine at ' + s.state.upstream + ' is ready' + (s.state.engine ? ' (' + s.state.engine + ').' : '.'));
    hide($('empty-http'), to.base === undefined);
    hide($('empty-unix'), to.base !== undefined);
    if (to.base === undefined) {
      set($('empty-socket'), 'curl --unix-socket ' + to.socket + ' http://localhost' + ask);
      return;
    }
    set($('empty-env'), 'export OPENAI_BASE_URL=' + to.base + '/v1');
    set($('empty-models'), 'curl ' + to.base + '/v1/models');
    set($('empty-curl'), 'curl ' + to.base + ask);
    set($('empty-sweep'), 'spectap sweep --url ' + to.base + ' --mtbench question.jsonl --temperature 0 1 --concurrency 1 8 32 --save_dir results');
  };

  const showState = s => {
    const st = s.state;
    set($('fact-engine'), st.engine || 'not known yet');
    set($('fact-upstream'), st.upstream || none);
    set($('fact-measure'), st.measure || none);
    set($('fact-version'), st.version || none);
    set($('fact-started'), clock(s.started_ms));
    hide($('notice-draining'), !st.draining);
    hide($('notice-engine'), !st.not_ready || st.draining || s.total.requests === 0);
    set($('notice-engine'), 'The engine at ' + st.upstream + ' is not ready (' + st.not_ready + ').');
    const lost = [];
    if (st.sink_drops_total) lost.push(plural(st.sink_drops_total, 'record was', 'records were') + ' dropped: a sink could not keep up or could not write.');
    if (st.telemetry_drops_total) lost.push(plural(st.telemetry_drops_total, 'span was', 'spans were') + ' lost: the collector did not take what was sent, or a queue was full.');
    hide($('notice-drops'), lost.length === 0);
    set($('notice-drops'), lost.join(' '));
    set($('total-refused'), count(st.refused_total));
    set($('total-drops'), count(st.sink_drops_total));
    set($('total-telemetry'), count(st.telemetry_drops_total));
    set($('total-panics'), count(st.panics_total));
    set($('tile-flight'), count(st.in_flight));
  };
  const showFigures = s => {
    const m = s.minute, t = s.total;
    set($('tile-rate'), rate(m.requests_per_second));
    set($('tile-rate-more'), number.format(m.requests) + ' ended, ' + number.format(m.failed) + ' failed');
    set($('tile-tokens'), rate(m.output_tokens_per_second));
    set($('tile-tokens-more'), 'of requests that ended');
    set($('tile-al'), fixed(3)(m.acceptance_length));
    set($('tile-al-more'), plural(m.verify_steps, 'verify step', 'verify steps'));
    set($('tile-ttft'), seconds(m.ttft_p50_s));
    set($('tile-ttft-more'), 'p99 ' + seconds(m.ttft_p99_s));
    set($('tile-tpot'), seconds(m.time_per_output_token_p50_s));
    set($('tile-tpot-more'), 'p99 ' + seconds(m.time_per_output_token_p99_s));
    set($('total-requests'), count(t.requests));
    set($('total-failed'), count(t.failed));
    set($('total-measured'), count(t.with_verify_steps));
    set($('total-tokens'), count(t.output_tokens));
    set($('total-steps'), count(t.verify_steps));
    set($('total-accepted'), count(t.accepted_tokens));
    set($('total-al'), t.acceptance_length === null ? none : t.acceptance_length.toFixed(3) + ' tokens/step');
    const c = s.chart;
    charts.al([], [c.acceptance_length]);
    charts.requests([], [c.requests_per_second]);
    charts.tokens([], [c.output_tokens_per_second]);
    charts.ttft([m.ttft_p50_s, m.ttft_p99_s], [c.ttft_p50_s, c.ttft_p99_s]);
    charts.tpot([m.time_per_output_token_p50_s, m.time_per_output_token_p99_s], [c.time_per_output_token_p50_s, c.time_per_output_token_p99_s]);
  };
  const showTables = s => {
    showPositions(s.positions.total, (cells, total, i) => {
      const recent = s.positions.chart[i];
      set(cells.head, String(i + 1));
      set(cells.recent, share(recent));
      set(cells.total, share(total));
      const width = (recent === null ? 0 : recent * 100).toFixed(1) + '%';
      if (cells.bar.style.width !== width) cells.bar.style.width = width;
    });
    showRecent(s.recent, (cells, r) => {
      const failed = r.error !== '';
      const texts = [clock(r.ended_ms), r.model || none, r.route || none,
        (failed ? 'failed: ' + r.error : 'ok') + (r.status ? ' ' + r.status : ''),
        seconds(r.ttft_s), seconds(r.duration_s), count(r.output_tokens), fixed(2)(r.acceptance_length), r.point || none];
      cells.forEach((td, i) => set(td, texts[i]));
      cells[3].classList.toggle('failed', failed);
    });
    showErrors(s.errors, fillKind(errorWords));
    showUnmeasured(s.unmeasured, fillKind(missingWords));
  };

  // The stream. A hidden page closes it: browsers allow six connections to a host.
  const silence = 15000, again = 3000;
  let source = null, heardAt = Date.now(), page = '', timer = 0;
  const say = (state, text) => {
    const node = $('connection');
    if (node.dataset.state !== state) node.dataset.state = state;
    document.body.toggleAttribute('data-stale', state === 'off');
    set($('connection-text'), text);
  };
  const heard = () => { heardAt = Date.now(); say('on', 'Live'); };
  const lost = () => say('off', page === '' ? 'Not connected; trying again' : 'Disconnected since ' + clock(heardAt) + '; trying again');
  const disconnect = () => {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  };
  const connect = () => {
    disconnect();
    source = new EventSource('live');
    source.onmessage = e => {
      const s = JSON.parse(e.data);
      if (page !== '' && page !== s.page) { location.reload(); return; }
      page = s.page;
      heard();
      showState(s);
      showEmpty(s);
      showFigures(s);
      showTables(s);
    };
    source.addEventListener('alive', heard);
    source.onerror = () => {
      lost();
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(connect, again);
    };
  };
  setInterval(() => {
    if (source && Date.now() - heardAt > silence) { lost(); connect(); }
  }, silence / 3);
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { disconnect(); say('wait', 'Paused while hidden'); } else { connect(); }
  });
  if (!document.hidden) connect();
})();
