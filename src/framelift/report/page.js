"use strict";

// What a link leads to may be within something that is closed.
function reveal() {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let at = target; at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  target.scrollIntoView({ block: "center" });
  if (!target.hasAttribute("tabindex")) target.setAttribute("tabindex", "-1");
  target.focus({ preventScroll: true });
}
window.addEventListener("hashchange", reveal);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) reveal(); // which is no change
});
reveal();

for (const button of document.querySelectorAll("button.all")) {
  button.addEventListener("click", () => {
    const opens = button.textContent === "Expand all";
    const cards = document.querySelectorAll(`#${button.dataset.within} > details`);
    for (const card of cards) card.open = opens;
    button.textContent = opens ? "Collapse all" : "Expand all";
  });
}

// Pictures: the browser scrolls them, with fingers and arrow keys too; here is only how large they are.
for (const picture of document.querySelectorAll(".picture")) {
  const canvas = picture.querySelector(".canvas");
  const svg = canvas.querySelector("svg");
  const { width, height } = svg.viewBox.baseVal;
  const fitting = () => Math.min(1, canvas.clientWidth / width, 600 / height);
  let zoom = 1;
  const set = (to) => {
    const before = zoom;
    zoom = Math.min(4, Math.max(0.05, to));
    const x = (canvas.scrollLeft + canvas.clientWidth / 2) / before;
    const y = (canvas.scrollTop + canvas.clientHeight / 2) / before;
    svg.setAttribute("width", width * zoom);
    svg.setAttribute("height", height * zoom);
    canvas.scrollLeft = x * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = y * zoom - canvas.clientHeight / 2;
  };
  const actions = {
    in: () => set(zoom * 1.25),
    out: () => set(zoom / 1.25),
    fit: () => set(fitting()),
    full: () => set(1),
  };
  const keys = { "+": "in", "=": "in", "-": "out", 0: "fit", 1: "full" };
  for (const button of picture.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => actions[button.dataset.zoom]());
  }
  canvas.addEventListener("keydown", (event) => {
    const action = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
    if (action) {
      event.preventDefault();
      actions[action]();
    }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // what a pinch is, too
    event.preventDefault();
    set(zoom * Math.exp(-event.deltaY / 200));
  }, { passive: false });
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    from = { x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (from) canvas.scrollTo(from.x - event.clientX, from.y - event.clientY);
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (from = null));
  // A picture has no size before it is shown. As small as it must be, but not too small to be read.
  const first = () => canvas.clientWidth && set(Math.max(0.6, fitting()));
  const card = picture.closest("details");
  card.addEventListener("toggle", first, { once: !card.open });
  first();
}

const filter = document.getElementById("filter");
if (filter) {
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const card of document.querySelectorAll(".guarded")) {
      let own = 0;
      for (const row of card.querySelectorAll("tr.about")) {
        row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
        if (!row.hidden) own += row.querySelectorAll("li").length;
      }
      if (wanted) card.open = own > 0;
      shown += own;
    }
    document.getElementById("filtered").textContent = wanted ? `${shown} found` : "";
  });
}

window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
