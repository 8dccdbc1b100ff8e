// Keeps the page fresh: asks for it again, swaps the lists in, and says so plainly when the inbox does not answer.
"use strict";

const root = document.documentElement;
const freshness = document.getElementById("freshness");
const period = Number(root.dataset.refreshSeconds) * 1000;

// The server writes UTC for readers without JavaScript; people read their own clock.
function localTimes(scope) {
  const today = new Date().toDateString();
  for (const element of scope.querySelectorAll("time")) {
    const moment = new Date(element.dateTime);
    const day = moment.toDateString() === today ? "" : moment.toLocaleDateString() + " ";
    element.title = element.textContent;
    element.textContent = day + moment.toLocaleTimeString(undefined, { hour12: false });
  }
}

function same(one, other) {
  return one.innerHTML === other.innerHTML;
}

async function refresh() {
  try {
    const reply = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!reply.ok) throw new Error("status " + reply.status);
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    localTimes(fresh);
    const [shown, next] = [document.getElementById("alerts"), fresh.getElementById("alerts")];
    if (!same(shown, next)) shown.replaceWith(document.adoptNode(next)); // what a reader has selected stays otherwise
    freshness.replaceChildren(...fresh.getElementById("freshness").childNodes);
    freshness.className = "";
    document.title = fresh.title;
  } catch (error) {
    if (freshness.className !== "lost") freshness.prepend("The inbox does not answer; this is ");
    freshness.className = "lost";
  }
  setTimeout(refresh, period);
}

localTimes(document);
setTimeout(refresh, period);
