(() => {
  "use strict";
  const TAB = {key: "open-loop", title: "Open loop"};
  const SHOW_MILLISECONDS = 1000;
  const args = window.templateArgs;  // Locust's page reads them after this script
  const panel = document.getElementById("open-loop");
  const refused = document.getElementById("tailboard-refused");
  const account = document.getElementById("tailboard-account");
  document.body.prepend(document.getElementById("tailboard"));  // above all, where it covers no button

  // The values in force go into the form: Locust would offer those of the command line, and an edit would post them.
  const values = JSON.parse(document.getElementById("tailboard-values").textContent);
  for (const [name, value] of Object.entries(values)) {
    if (args.extra_options[name]) args.extra_options[name].default_value = value;
  }
  args.extended_tabs = [...(args.extended_tabs || []), TAB];

  // Locust's dialog closes without a word when an edit was refused.
  const plain = window.fetch;
  window.fetch = async (...given) => {
    const reply = await plain(...given);
    if (new URL(reply.url).pathname.endsWith("/swarm")) {
      const said = await reply.clone().json();
      refused.textContent = said.success ? "" : said.message;
      if (!said.success) refused.scrollIntoView();
    }
    return reply;
  };

  // Locust's page knows the tab, but not what is in it: the panel goes below the tabs while it is the chosen one.
  const place = () => {
    const tab = [...document.querySelectorAll("[role=tab]")].find(each => each.textContent.trim() === TAB.title);
    if (!tab) {
      panel.hidden = true;
      return;
    }
    const tabs = tab.closest("[role=tablist]");
    const bar = (tab.closest(".MuiTabs-root") || tabs).parentElement;
    if (bar.nextSibling !== panel) bar.after(panel);
    panel.hidden = tab.getAttribute("aria-selected") !== "true";
    const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    panel.dataset.theme = red + green + blue < 384 ? "dark" : "light";
  };
  let placing = false;
  new MutationObserver(() => {
    if (placing) return;
    placing = true;
    requestAnimationFrame(() => {
      placing = false;
      place();
    });
  }).observe(document.getElementById("root"),
    {childList: true, subtree: true, attributes: true, attributeFilter: ["aria-selected"]});

  const digits = number => number >= 99.95 ? number.toFixed(0) : number >= 9.995 ? number.toFixed(1) : number.toFixed(2);
  const seconds = value =>
    value === 0 ? "0 s"
    : value < 0.0009995 ? `${digits(value * 1e6)} µs`
    : value < 0.9995 ? `${digits(value * 1000)} ms`
    : `${digits(value)} s`;
  const count = number => number.toLocaleString("en");
  const percent = share => {
    const small = 100 * Math.min(share, Math.abs(1 - share));
    return `${+(100 * share).toFixed(small > 1e-9 ? Math.max(0, 1 - Math.floor(Math.log10(small))) : 0)}%`;
  };

  const told = now => {
    const run = now.run, slo = now.slo, late = now.dispatch_lateness_seconds;
    const lost = run.failed + run.dropped + run.unfinished;
    const known = run.completed + lost > 0;
    const percentile = slo.percentile_seconds !== null ? seconds(slo.percentile_seconds) : known ? "∞" : "–";
    const judged = ["PASS", "FAIL", "INVALID"].includes(now.verdict);
    const used = slo.allowed_bad ? slo.bad / slo.allowed_bad : slo.bad ? Infinity : 0;
    return {
      verdict: judged ? `${now.verdict} so far` : now.verdict,
      first_reason: now.reasons[0],
      target_rate: `${now.target_rate.toFixed(1)}/s`,
      offered: count(run.offered), started: count(run.started), completed: count(run.completed),
      failed: count(run.failed), dropped: count(run.dropped), in_flight: count(now.in_flight),
      oldest: now.in_flight ? seconds(now.oldest_in_flight_seconds) : "–",
      slo: slo.ratio === null
        ? `${percent(slo.objective)} of all arrivals are to be answered 2xx within ${seconds(slo.threshold_seconds)}.`
        : `${count(slo.good)} good, ${count(slo.bad)} bad (${percent(slo.ratio)} good, ` +
          `${percent(slo.objective)} asked for); ${count(slo.allowed_bad)} may be bad so far. ` +
          `${slo.percentile} over all arrivals is ${percentile}, the threshold ${seconds(slo.threshold_seconds)}.`,
      success_note: (lost ? `flatters: ${count(lost)} lost arrivals are left out` : "nothing was lost so far") +
        (now.success_latency_seconds.mean === null ? "" : `; mean ${seconds(now.success_latency_seconds.mean)}`),
      punctual: now.punctual ? "Yes so far" : "No",
      lateness: [late.p50, late.p99, late.max].map(each => each === null ? "–" : seconds(each)).join(" · "),
      lateness_limit: seconds(now.lateness_limit_seconds),
      cpu: `${(100 * now.generator.cpu_share).toFixed(0)}%`,
      workers_lost: count(now.generator.workers_lost),
      budget_label: `${used > 1 ? "more than all" : percent(used)} of the error budget is used`,
      budget_used: Math.min(used, 1),
      bad: {
        failed: run.failed > 0, dropped: run.dropped > 0, overdue: now.overdue > 0,
        late: late.p99 !== null && late.p99 > now.lateness_limit_seconds,
        starved: now.generator.starved, lost_workers: now.generator.workers_lost > 0,
      },
      spent: used > 1,
      percentile, known,
    };
  };

  const fill = now => {
    const said = told(now);
    panel.querySelector(".verdict").dataset.verdict = now.verdict;
    for (const place of panel.querySelectorAll("[data-text]")) {
      if (place.textContent !== said[place.dataset.text]) place.textContent = said[place.dataset.text];
    }
    panel.querySelector("[data-list]").replaceChildren(...now.reasons.slice(1).map(reason => {
      const item = document.createElement("li");
      item.textContent = reason;
      return item;
    }));
    for (const tile of panel.querySelectorAll("[data-bad]")) tile.classList.toggle("bad", said.bad[tile.dataset.bad]);
    const budget = panel.querySelector(".budget");
    budget.setAttribute("aria-label", said.budget_label);
    budget.title = said.budget_label;
    budget.classList.toggle("spent", said.spent);
    budget.firstElementChild.style.width = `${100 * said.budget_used}%`;
    for (const first of panel.querySelectorAll("[data-row]")) {
      const times = now[first.dataset.row];
      const lost = first.dataset.row === "latency_seconds" && said.known;
      const cells = ["p50", "p90", "p95", "p99", "p999", "max"].map(name =>
        times[name] !== null ? seconds(times[name]) : lost ? "∞" : "–");
      while (first.parentElement.cells.length < cells.length + 1) first.parentElement.insertCell();
      cells.forEach((text, index) => { first.parentElement.cells[index + 1].textContent = text; });
    }
    account.textContent = `Now ${said.target_rate} · ${said.verdict} · ${now.slo.percentile} ${said.percentile} · ` +
      `${said.dropped} dropped · ${said.in_flight} in flight` + (now.in_flight ? `, oldest ${said.oldest}` : "");
  };

  const show = async () => {
    let now = null;
    try {
      now = await (await plain("load")).json();
    } catch (error) {
      account.textContent = "Locust does not answer.";
      panel.querySelector(".verdict").dataset.verdict = "";
      panel.querySelector(".word").textContent = "Locust does not answer";
    }
    setTimeout(show, SHOW_MILLISECONDS);
    if (now) fill(now);
  };
  show();
})();
