// Filter claims by words and verdicts, unfold matches and link targets, and mark the current section in the contents.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const named = (id) => document.getElementById(id);

  let lift = () => {}; // ends the filtering
  const reveal = () => {
    const target = named(decodeURIComponent(location.hash.slice(1)));
    if (target?.closest("[hidden]")) lift();
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);

  const contents = document.querySelector(".contents details");
  if (contents && !matchMedia("(min-width: 64rem)").matches) contents.open = false;

  const filter = named("the-filter");
  if (filter) {
    const input = named("the-words"), buttons = all("#the-filter button"), query = new URLSearchParams(location.search);
    const simple = (text) => text.toLowerCase().replace(/\s+/g, " ").replace(/\u2212/g, "-"); // pages print a minus sign
    const plain = (element) => simple(element.textContent);
    const words = (element, parts) => [...element.querySelectorAll(parts)].map(plain).join(" ");
    const groups = all("[data-group]").map((element) => {
      return { element, words: `${words(element.closest("[data-part]"), "h2")} ${words(element, ".label, .name")}` };
    });
    const rows = all("[data-for]").map((row) => {
      const group = groups.find(({ element }) => element.id === row.dataset.for), part = row.closest("[data-part]");
      return { row, group, words: `${group ? group.words : part ? words(part, "h2") : ""} ${plain(row)}`, verdict: row.dataset.verdict, by: row.dataset.by };
    });
    const folds = all("[data-fold]");
    let active = false;

    const update = () => {
      const searched = simple(input.value).split(" ").filter(Boolean);
      const pressed = (what) => buttons.map((button) => button.ariaPressed === "true" && button.dataset[what]).filter(Boolean);
      const verdicts = pressed("verdict"), origins = pressed("by");
      const chips = verdicts.length || origins.length;
      const filtering = Boolean(searched.length || chips);
      if (filtering && !active) folds.forEach((fold) => (fold.before = fold.open));
      const stopped = active && !filtering;
      active = filtering;
      document.body.classList.toggle("filtering", active);
      const matches = (text) => searched.every((word) => text.includes(word));
      const among = (chosen, own) => !chosen.length || chosen.includes(own);
      const matching = new Set(), found = rows.filter(({ words: text }) => matches(text));
      let count = 0;
      for (const { row, group, words: text, verdict, by } of rows) {
        row.hidden = !(matches(text) && among(verdicts, verdict) && among(origins, by));
        if (!row.hidden) count += 1, matching.add(group);
      }
      for (const group of groups) group.element.hidden = !(matching.has(group) || (!chips && matches(group.words)));
      for (const table of all("table.claims")) table.hidden = !table.querySelector("tbody:not([hidden])");
      for (const fold of folds) {
        const match = fold.querySelector("[data-for]:not([hidden])");
        fold.hidden = active && !match && !fold.querySelector("[data-group]:not([hidden])");
        if (active) fold.open = Boolean(match);
        else if (stopped) fold.open = fold.before;
      }
      for (const part of all("[data-part]")) part.hidden = active && !part.querySelector("[data-group]:not([hidden]), [data-for]:not([hidden])");
      for (const button of buttons) {
        const { verdict, by } = button.dataset;
        const own = (row) => among(verdict ? [verdict] : verdicts, row.verdict) && among(by ? [by] : origins, row.by);
        button.querySelector("b").textContent = found.filter(own).length; // as many as it would show alone
      }
      named("the-count").value = active ? `${count} of ${rows.length} claims` : `${rows.length} claims`;
      named("the-nothing").hidden = count > 0;
    };
    const press = (button) => (button.ariaPressed = String(button.ariaPressed !== "true"));
    const remember = () => { // in the address, so that a link to it opens the same claims
      const pressed = buttons.filter((button) => button.ariaPressed === "true").flatMap(({ dataset }) => Object.entries(dataset));
      const words = input.value.trim(), filters = new URLSearchParams(words ? [["q", words], ...pressed] : pressed);
      history.replaceState(null, "", filters.size ? `?${filters}#the-filter` : location.pathname);
    };
    const change = () => (update(), remember());
    buttons.forEach((button) => button.addEventListener("click", () => (press(button), change())));
    buttons.filter(({ dataset }) => ["verdict", "by"].some((what) => query.getAll(what).includes(dataset[what]))).forEach(press);
    input.value = query.get("q") || "";
    input.addEventListener("input", change);
    filter.hidden = false;
    update();
    lift = () => {
      input.value = "";
      buttons.forEach((button) => (button.ariaPressed = "false"));
      update();
      history.replaceState(null, "", location.pathname + location.hash);
    };
    const pad = () => { // so that no target lies under the filter
      const covers = getComputedStyle(filter).position === "sticky";
      document.documentElement.style.scrollPaddingTop = covers ? `${filter.offsetHeight + 16}px` : "";
    };
    addEventListener("resize", pad);
    pad();
  }

  const links = new Map(all(".contents a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(target.id).setAttribute("aria-current", "location");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  links.forEach((_, id) => seen.observe(named(id)));
  if (location.hash) reveal();
})();
