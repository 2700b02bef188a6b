// List of jobs: buttons for the chosen ones, enabled if they apply to all of them.

const form = document.getElementById("choose");
const ENDED = ["succeeded", "failed", "cancelled"];

function tell() {
  const chosen = [...form.querySelectorAll("input[name=job]:checked")];
  const works = new Set(chosen.map((one) => one.dataset.same));
  const most = Number(form.dataset.most);
  const reason =
    chosen.length < 2 ? "Compare needs two jobs of equal workloads"
    : chosen.length > most ? `Compare takes at most ${most} jobs`
    : works.size > 1 ? "The workloads differ, so their times cannot be compared" : "";
  form.querySelector("[formaction]").disabled = reason !== "";
  const again = form.querySelector("[value=retry]");
  if (again) again.disabled = chosen.length === 0 || chosen.some((one) => !ENDED.includes(one.dataset.state));
  const asks = form.querySelector(".asks");
  if (asks) asks.hidden = chosen.length === 0;
  document.getElementById("why").textContent = chosen.length === 0 ? "" : reason;
}

if (form !== null) {
  form.addEventListener("change", tell);
  tell();
}
