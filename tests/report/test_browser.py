"""A browser looks at the pages of four papers with 260 claims: as files, wide and narrow, light and dark, by keyboard, printed.

It takes `uv sync --group browser` and a Chromium, Debian's (`apt-get install chromium`) or Playwright's own.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrepro.report.statistics import estimate
from support.pages import LABELS, PAPERS, REPORTED, SAVES, build, first

sync = pytest.importorskip("playwright.sync_api", reason="no Playwright here: uv sync --group browser")
PAGES = ("index.html", "fedmmd/index.html")
SHOWN = "[data-for]:visible"
THEIRS = f"Fig. 1a: {LABELS[1]}, in the paper"
# What sticks out of the page to the right, but for what scrolls within its own frame.
OVERHANG = """() => [...document.querySelectorAll("body *")]
  .filter((one) => !one.closest(".scroll > *, .skip, details:not([open])") && one.getClientRects().length)
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5).map((one) => one.outerHTML.slice(0, 90))"""
# The text whose contrast to what lies behind it is below WCAG's AA: 4.5, of large letters 3.
PALE = """() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const painted = (colors) => {
    context.clearRect(0, 0, 1, 1);
    for (const color of colors) { context.fillStyle = color; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const found = new Set();
  for (const one of document.querySelectorAll("body *")) {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || !one.checkVisibility()) continue;
    const behind = [];
    for (let at = one; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const style = getComputedStyle(one), needed = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    const [low, high] = [painted(behind), painted([...behind, style.color])].map(light).sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < needed) found.add(`${one.className}: ${one.textContent.trim().slice(0, 40)}`);
  }
  return [...found];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The pages of scale paper, and the curves of a paper at scale small."""
    scale = build(tmp_path_factory.mktemp("seen"), list(PAPERS))
    other = scale.parent / "small" / "fedmmd" / "curves.js"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text((scale / "fedmmd/curves.js").read_text().replace('"paper/fedmmd"', '"small/fedmmd"'))
    return scale


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with sync.sync_playwright() as playwright:
        named = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
        program = next((path for path in named if path), playwright.chromium.executable_path)
        if not os.path.exists(program):
            pytest.skip("no Chromium here: apt-get install chromium, or playwright install chromium")
        running = playwright.chromium.launch(executable_path=program)
        yield running
        running.close()


@pytest.fixture
def visit(browser, site) -> Iterator:
    """Opens a page of the site; at the end nothing was complained of, and nothing asked for but files that are there."""
    complaints, contexts = [], []

    def opened(name: str, width: int = 1400, scheme: str = "light", script: bool = True):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto((site / "index.html").as_uri().removesuffix("index.html") + name)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_sticks_out(visit, name, width):
    page = visit(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERHANG) == []
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERHANG) == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit, name, scheme):
    page = visit(name, scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == {"light": "rgb(255, 255, 255)"}.get(
        scheme, "rgb(20, 23, 26)"
    )
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.evaluate(PALE) == []
    page.get_by_role("button", name="open").first.click()
    assert page.evaluate(PALE) == []


@pytest.mark.parametrize(("name", "total"), [("index.html", 88), ("fedmmd/index.html", 22)])
def test_claims_are_found_by_words(visit, name, total):
    page = visit(name)
    count, field = page.locator("#the-count"), page.get_by_label("Find a claim")
    assert count.inner_text() == f"{total} claims"
    before = page.locator(SHOWN).count()
    field.fill("conv SAVES 64")
    assert count.inner_text() == f"{total // 22} of {total} claims"
    assert page.locator(SHOWN).first.bounding_box()["y"] < (360 if name == "index.html" else 9999) + field.bounding_box()["y"]
    assert [SAVES in text.replace("\xa0", " ") for text in page.locator(SHOWN).all_inner_texts()] == [True] * (total // 22)
    field.fill("no such words")
    assert page.locator(SHOWN).count() == 0 and page.get_by_text("No matching claim.").is_visible()
    field.fill("")
    assert page.locator(SHOWN).count() == before and count.inner_text() == f"{total} claims"


@pytest.mark.parametrize("name", PAGES)
def test_claims_are_found_by_verdict(visit, name):
    """All buttons: what each shows are the claims with its verdict, as many as it says; two show the claims of both."""
    page = visit(name)
    buttons = page.locator("#the-filter button[data-verdict]")
    told = []
    for button in buttons.all():
        button.click()
        number, verdict = button.inner_text().split(" ", 1)
        shown = page.locator(SHOWN).evaluate_all("(all) => all.map((row) => row.dataset.verdict)")
        assert shown == [verdict] * int(number)
        told.append(int(number))
        button.click()
    buttons.nth(0).click()
    buttons.nth(1).click()
    assert page.locator(SHOWN).count() == sum(told[:2]) and len(told) == 2


def test_the_keyboard_reaches_the_filter(visit):
    page = visit("fedmmd/index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "the-words":
            break
    page.keyboard.type("saves 64")
    assert page.locator(SHOWN).count() == 1
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    pressed = page.locator("#the-filter button[aria-pressed=true]")
    assert pressed.count() == 1 and page.locator(SHOWN).count() == int(pressed.inner_text().split()[0])
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_address_holds_the_filter(visit):
    page = visit("fedmmd/index.html")
    page.get_by_label("Find a claim").fill("claim 1")
    counted = page.locator("#the-filter button b").all_inner_texts()
    assert sum(map(int, counted[:-2])) == sum(map(int, counted[-2:])) == page.locator(SHOWN).count() < 22
    page.get_by_role("button", name="open").click()
    page.get_by_role("button", name="by the paper").click()
    shown = page.locator(SHOWN).evaluate_all("(all) => all.map((row) => row.id)")
    assert shown and "q=claim+1&verdict=open&by=the+paper#the-filter" in page.url
    again = visit(page.url.rsplit("/paper/", 1)[1])
    assert again.locator(SHOWN).evaluate_all("(all) => all.map((row) => row.id)") == shown
    page.get_by_role("button", name="by the paper").click()
    page.get_by_role("button", name="open").click()
    page.get_by_label("Find a claim").fill("")
    assert page.url.endswith("fedmmd/index.html")


def explore(page):
    page.locator("#fig1a .explore").click()
    page.locator("#fig1a .plot svg.marks").wait_for()
    return page.locator("#fig1a .chart")


def values(page, place: float) -> tuple[int, dict[str, str]]:
    """Point at the chart, at a share of its width: the round, and the text of each line there."""
    page.mouse.move(0, 0)
    area = page.locator("#fig1a .plot svg.marks .concat_0_group .background").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    page.mouse.move(box["x"] + place * box["width"], box["y"] + box["height"] / 2)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    rows = [row.locator("td").all_inner_texts() for row in tip.locator("tr").all()]
    assert "undefined" not in dict(rows).values()
    return int(tip.locator("b").inner_text().split()[1]), dict(rows)


def expected(label: str, round: int, smooth: int = 1, minus: str | None = None) -> str:
    """The mean of both seeds with its interval, in percent."""
    results = first()
    seeds = {seed: dict(curve) for seed, curve in results.curves(label, "test_accuracy").items()}
    base = {seed: dict(curve) for seed, curve in results.curves(minus, "test_accuracy").items()} if minus else {}
    rounds = range(round - smooth + 1, round + 1)
    numbers = [
        sum(100 * (curve[r] - (base[seed][r] if minus else 0)) for r in rounds) / smooth for seed, curve in seeds.items()
    ]
    found = estimate(numbers)
    return f"{found.mean:.2f} ± {found.half_width:.2f}".replace("-", "\N{MINUS SIGN}")


def test_the_chart_tells_the_values_of_a_round(visit):
    page = visit("fedmmd/index.html")
    assert page.evaluate("typeof vega") == "undefined"  # until it is asked for
    chart = explore(page)
    round, shown = values(page, 0.62)
    assert shown == {label: expected(label, round) for label in LABELS} | {THEIRS: f"{100 * REPORTED[1][round]:.2f}"}
    chart.get_by_label("logarithmic values").check()
    chart.locator(".plot").get_by_text("100 % minus test accuracy (%)").wait_for()
    round, shown = values(page, 0.62)
    assert shown[THEIRS] == f"{100 - 100 * REPORTED[1][round]:.2f}"
    chart.get_by_label("Difference from").select_option(LABELS[1])
    chart.locator(".plot").get_by_text(f"minus {LABELS[1]}'s").wait_for()
    chart.get_by_label("Smoothing").fill("4")
    round, shown = values(page, 0.3)
    assert shown == {label: expected(label, round, 4, LABELS[1]) for label in LABELS if label != LABELS[1]}


def test_series_the_papers_curve_and_seeds_are_shown_and_hidden(visit):
    page = visit("fedmmd/index.html")
    chart = explore(page)
    lines = chart.locator(".plot svg.marks .concat_0_group .mark-line path")
    assert lines.count() == 4
    chart.get_by_role("checkbox", name="in the paper").uncheck()
    chart.get_by_role("checkbox", name=LABELS[0]).uncheck()
    assert set(values(page, 0.5)[1]) == set(LABELS[1:]) and lines.count() == 2
    chart.get_by_role("checkbox", name=LABELS[0]).check()
    chart.get_by_label("Spread").select_option("seeds")
    assert set(values(page, 0.5)[1]) == set(LABELS)
    assert lines.count() == 3 + 6 and chart.locator(".plot svg.marks .mark-area path").count() == 0
    page.locator("#fig1a .explore").click()
    assert not chart.is_visible()


def test_without_scripts_all_is_there_but_the_charts(visit):
    page = visit("fedmmd/index.html", script=False)
    assert not page.locator(".explore, .chart, #the-filter").filter(visible=True).count()
    assert page.locator("[data-for]").count() == 22 and page.locator("#fig1a img").is_visible()
    assert page.locator("#claim-c3").is_visible() and page.locator("#the-coverage .gaps").is_visible()
