// A link into a closed <details> opens it; not every browser does so by itself.
function reveal() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = place && place.closest("details");
  if (folded && !folded.open) { folded.open = true; place.scrollIntoView(); }
}
addEventListener("hashchange", reveal);
reveal();

// Choosing: whatever carries the name of something that is not wanted is hidden.
const form = document.getElementById("choose");
function choose() {
  const off = new Set([...form.querySelectorAll("input:not(:checked)")].map(x => x.value));
  const gone = e => e.dataset.k.split("|").some(key => off.has(key));
  for (const e of document.querySelectorAll("[data-k]:not(th)")) e.hidden = gone(e);
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.querySelectorAll("thead th[data-k]")];
    const hidden = heads.map(gone);
    heads.forEach((th, i) => { th.hidden = hidden[i]; });
    for (const tr of table.tBodies.length ? table.querySelectorAll("tbody tr") : [])
      hidden.forEach((no, i) => { if (tr.cells.length > hidden.length) tr.cells[i + 1].hidden = no; });
    let at = 0;
    for (const th of table.querySelectorAll("thead th.group")) {
      const size = th.dataset.size = th.dataset.size || th.colSpan;
      const left = hidden.slice(at, at += +size).filter(no => !no).length;
      th.hidden = !left;
      th.colSpan = left || 1;
    }
  }
}
if (form.querySelector("input")) {
  form.hidden = false;
  form.open = innerWidth >= 1280;
  form.addEventListener("change", choose);
  choose();
}

// What a cell's title tells, at once and for touch and keyboard, too.
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
tip.setAttribute("role", "status");
function tell(event) {
  const cell = event.target.closest && event.target.closest("td[title], td[data-told]");
  tip.hidden = !cell || event.key === "Escape";
  if (tip.hidden) return;
  if (cell.title) { cell.dataset.told = cell.title; cell.removeAttribute("title"); }
  tip.textContent = cell.dataset.told;
  const box = cell.getBoundingClientRect();
  const wide = document.documentElement.clientWidth - tip.offsetWidth - 8;
  const above = box.bottom + tip.offsetHeight + 8 > innerHeight;
  tip.style.left = Math.max(8, Math.min(box.left, wide)) + "px";
  tip.style.top = (above ? Math.max(8, box.top - tip.offsetHeight - 4) : box.bottom + 4) + "px";
}
tip.hidden = true;
for (const kind of ["mouseover", "focusin", "click", "keydown"]) document.addEventListener(kind, tell);
addEventListener("scroll", () => { tip.hidden = true; }, true);
