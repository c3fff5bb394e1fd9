// What the pointer is near to says what it is, and a button changes between light and dark. Texts are set as texts.
"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const reach = 16;  // px
  let near = null;

  const leave = () => {
    if (near) near.classList.remove("near");
    near = null;
    tip.hidden = true;
  };

  const distance = (box, x, y) =>
    Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));

  const nearest = (chart, x, y) => {
    let best = null;
    let least = reach;
    for (const mark of chart.querySelectorAll(".role-mark > [aria-label]")) {
      const box = mark.getBoundingClientRect();
      const away = distance(box, x, y) + Math.hypot((box.left + box.right) / 2 - x, (box.top + box.bottom) / 2 - y) / 1e3;
      if (away < least) [best, least] = [mark, away];
    }
    return best;
  };

  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
  };

  const point = (event) => {
    const chart = event.target.closest && event.target.closest("svg.chart");
    const mark = chart && nearest(chart, event.clientX, event.clientY);
    if (mark !== near) leave();
    if (!mark) return;
    near = mark;
    near.classList.add("near");
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    place(event.clientX, event.clientY);
  };

  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("pointerleave", leave);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") leave(); });
  document.addEventListener("scroll", leave, { passive: true });

  const button = document.getElementById("theme");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  button.hidden = false;
  label();
})();
