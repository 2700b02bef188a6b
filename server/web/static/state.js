// Parts of the page of a job without a chart: they are refreshed after each event.

import { follow } from "./live.js";

const job = document.getElementById("job").dataset;
if (["queued", "running", "paused"].includes(job.state)) follow(job, () => {});
