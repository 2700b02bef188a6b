// Reload the page, and replace its changed parts ([data-part]).

import { copyable } from "./copy.js";

export async function refresh() {
  const reply = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (reply.redirected) location.reload(); // the key is no longer valid
  if (!reply.ok) throw new Error(`status ${reply.status}`);
  // A parsed document runs no scripts, and the server has escaped its content.
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  copyable(fresh); // as the parts of the page are
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = fresh.getElementById(part.id);
    if (next === null || next.isEqualNode(part)) continue;
    for (const opened of part.querySelectorAll("details[id]")) {
      const same = next.querySelector(`#${opened.id}`);
      if (same !== null) same.open = opened.open;
    }
    for (const ticked of part.querySelectorAll("input[type=checkbox]:checked")) {
      const same = next.querySelector(`#${ticked.id}`);
      if (same !== null) same.checked = true;
    }
    if (!next.isEqualNode(part)) part.replaceChildren(...document.adoptNode(next).childNodes);
  }
}

const own = document.querySelector("script[data-every]");
if (own !== null) {
  setInterval(() => {
    if (!document.hidden) refresh().catch(() => {}); // the next refresh may succeed
  }, 1000 * Number(own.dataset.every));
}
