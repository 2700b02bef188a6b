// Live page of a job: every event of its stream, and a refreshed page after a new one.

import { refresh } from "./refresh.js";

const REFRESH_MS = 1500;
const KINDS = ["state", "derived", "baseline", "preflight", "too_short", "no_trials", "slots", "round", "improved", "racing", "kernel", "finished", "divided", "answered", "estimate", "bundle"];
const TOLD = { queued: "Waits for a worker.", running: "Live.", paused: "Paused." };
export const ENDED = ["succeeded", "failed", "cancelled"];

// Call `take(event)` with every event of the job whose facts are in `job`, from the first one on.
export function follow(job, take) {
  let state = job.state;
  let pending = null;
  const refreshSoon = () => {
    pending ??= setTimeout(() => {
      pending = null;
      refresh().catch(() => say("The page could not be refreshed; the charts continue.", false));
    }, REFRESH_MS);
  };
  const tellState = () => say(TOLD[state] ?? "", state === "running");
  const stream = new EventSource(`/v1/jobs/${job.id}/events`);
  const arrived = (message) => {
    const event = JSON.parse(message.data);
    if (event.kind === "state") state = event.state;
    take(event);
    if (event.kind === "state" && ENDED.includes(state)) stream.close();
    if (event.at_s < Number(job.now)) return; // the page already shows this event
    tellState();
    refreshSoon();
  };
  for (const kind of KINDS) stream.addEventListener(kind, arrived);
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) say("The event stream has ended; reload the page.", false);
    else say("The connection was lost; reconnecting.", false);
  };
  tellState();
}

function say(text, on) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("on", on);
}
