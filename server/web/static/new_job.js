// Form of a new job: the server checks it while it is filled; a dropped file is stored as a model.

const AFTER_MS = 400;
const form = document.getElementById("new-job");
const drop = document.getElementById("drop");
const file = document.getElementById("file");
const uploaded = document.getElementById("uploaded");
const model = document.getElementById("model");
let pending = null;
let newest = 0;

async function check() {
  const number = ++newest;
  const body = new URLSearchParams(new FormData(form));
  body.set("check", "yes");
  const reply = await fetch("/jobs/new", { method: "POST", body });
  if (number !== newest) return; // a later check is on its way
  if (reply.redirected) location.reload(); // the key is no longer valid
  // A parsed document runs no scripts, and the server has escaped its content.
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const id of ["checked", "sizes"]) {
    const part = document.getElementById(id);
    const next = fresh.getElementById(id);
    if (next === null) continue;
    const names = (node) => [...node.querySelectorAll("input")].map((one) => one.name).join();
    if (id === "sizes" && names(part) === names(next)) continue; // the cursor may be in a field
    part.replaceChildren(...document.adoptNode(next).childNodes);
  }
}

function checkSoon() {
  clearTimeout(pending);
  pending = setTimeout(() => check().catch(() => {}), AFTER_MS); // the next change may succeed
}

async function store(chosen) {
  if (!crypto.subtle) {
    uploaded.textContent = "This page needs https for uploads; `ansorpy models push` needs none.";
    return;
  }
  uploaded.textContent = `Reads ${chosen.name}`;
  const bytes = await chosen.arrayBuffer();
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const digest = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const place = `/v1/models/${digest}?name=${encodeURIComponent(chosen.name.slice(-128))}`;
  const reply = await fetch(place, { method: "PUT", body: bytes, headers: { "Content-Type": "application/octet-stream" } });
  const told = await reply.json();
  if (!reply.ok) {
    uploaded.textContent = told.detail;
    return;
  }
  if (![...model.options].some((one) => one.value === digest)) model.append(new Option(chosen.name, digest));
  model.value = digest;
  uploaded.textContent = `${chosen.name}: ${told.node_count} nodes`;
  checkSoon();
}

drop.hidden = false;
form.addEventListener("input", checkSoon);
file.addEventListener("change", () => file.files[0] && store(file.files[0]).catch((error) => { uploaded.textContent = error.message; }));
drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  const [chosen] = event.dataTransfer.files;
  if (chosen) store(chosen).catch((error) => { uploaded.textContent = error.message; });
});
