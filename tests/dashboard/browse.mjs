// browse.mjs URL TOKEN
//
// Visits every page of the dashboard in a headless Chromium, does its main act, and fails if any text of a guest ran as a
// script, any request left for another place, the policy had to refuse one of our own files, or a page is not to be read. With
// FUMEHOOD_BROWSER_PICTURES=DIR it leaves a picture of every page there.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createServer } from "node:http";
import path from "node:path";

const require = createRequire(path.join(process.env.FUMEHOOD_BROWSER_MODULES, "x.js"));
const { chromium } = require("playwright-core");
const { source: CHECKER } = require("axe-core");
const [url, token] = process.argv.slice(2);
const ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
];
// A busy machine takes its time.
const PATIENCE_MS = 60_000;

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ARGUMENTS, timeout: PATIENCE_MS });
const complaints = [];

async function openContext(options = {}) {
    const context = await browser.newContext({ ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    context.on("page", (page) => {
        page.on("console", (line) => line.type() === "error" && complaints.push(`${page.url()}: ${line.text()}`));
        page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error}`));
        page.on("dialog", (dialog) => complaints.push(`a dialog: ${dialog.message()}`));
        page.on("request", (request) => request.url().startsWith(url) || complaints.push(`left for ${request.url()}`));
    });
    return context;
}

// Asserts that nothing of a guest ran or became an element.
async function checkQuiet(page, what) {
    assert.equal(await page.evaluate(() => window.pwned), undefined, `${what}: a script of a guest ran`);
    assert.equal(await page.locator("img").count(), 0, `${what}: markup of a guest is an element`);
    assert.equal(await page.locator("main :is(a,button)[href^='javascript:']").count(), 0, what);
    assert.deepEqual(complaints, [], what);
    const pictures = process.env.FUMEHOOD_BROWSER_PICTURES;
    if (pictures) {
        await page.screenshot({ path: path.join(pictures, `${what.toLowerCase().replaceAll(" ", "-")}.png`) });
    }
}

const context = await openContext();
const page = await context.newPage();
const visit = async (name) => {
    await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    assert.equal(await page.locator("nav [aria-current=page]").textContent(), name);
    await checkQuiet(page, name);
};

// The login, by the form.
await page.goto(`${url}/`);
await page.getByLabel("Token").fill(token);
await page.keyboard.press("Enter");
await page.getByRole("heading", { name: "Tools" }).waitFor();
assert.ok(!page.url().includes(token) && !(await page.evaluate(() => document.cookie)), "the token or the cookie is readable");
await checkQuiet(page, "Tools");

// Tools: a form with fields, by the keyboard, and one with JSON.
await page.getByRole("link", { name: "test__echo" }).click();
await page.getByLabel("count").fill("41");
await page.getByLabel("text required").fill("<b>bold</b>");
await page.getByRole("button", { name: "Call test__echo" }).focus();
await page.keyboard.press("Enter");
await page.locator("figure pre", { hasText: '"count": 41' }).waitFor();
assert.ok((await page.locator("figure pre").first().textContent()).includes("<b>bold</b>"));
await checkQuiet(page, "a result");
for (const tool of ["say", "fail"]) {
    await page.goto(`${url}/dashboard/tools/test__${tool}`);
    await page.getByLabel("Arguments, as a JSON object").fill("{}");
    await page.getByRole("button", { name: `Call test__${tool}` }).click();
    await page.getByText("Log and progress").waitFor();
    await checkQuiet(page, tool);
}

// Live, in two tabs: a call that is killed in one leaves the other one as well, without a reload.
await visit("Live");
await page.locator("tr[data-call]").nth(1).waitFor();
const second = await context.newPage();
await second.goto(`${url}/dashboard/live`);
await second.evaluate(() => (window.isSame = true));
await second.locator("tr[data-call]").nth(1).waitFor();
await page.getByRole("button", { name: /Kill.*call 1$/ }).click();
await second.locator("tr[data-call='1']").waitFor({ state: "detached" });
assert.equal(await second.evaluate(() => window.isSame), true, "the other tab was loaded again");
assert.equal(await second.locator("tr[data-call]").count(), 1);
await checkQuiet(second, "the other tab");

// Calls: filter, page, detail, session.
await visit("Calls");
await page.getByLabel("Outcome").selectOption("ok");
await page.getByRole("button", { name: "Filter" }).click();
await page.getByRole("link", { name: "Older calls" }).click();
// Each row opens its own call, although models chose the same id for several.
const rows = await page.locator("tbody tr").count();
for (const at of [0, 1, 2, rows - 1]) {
    const row = page.locator("tbody tr").nth(at);
    const [id, start] = [await row.locator("a code").textContent(), await row.locator("td").first().textContent()];
    await row.locator("a").click();
    await page.getByRole("heading", { name: "History of this call" }).waitFor();
    const facts = await page.locator("dl.facts").first().innerText();
    assert.ok(facts.includes(start) && facts.includes(id), `the row of ${id} opened another call: ${facts}`);
    await page.goBack();
}
await page.locator("tbody a").first().click();
await page.getByRole("heading", { name: "History of this call" }).waitFor();
await checkQuiet(page, "a call");
await page.getByRole("link", { name: "Whole session" }).click();
await page.locator("summary").first().click();
await page.locator("details[open] pre").waitFor();
await checkQuiet(page, "a session");

// Approvals.
await visit("Approvals");
await page.getByRole("button", { name: "Approve changed" }).click();
await page.getByRole("status").getByText("Stored").waitFor();
await page.getByRole("article", { name: "MCP server remote" }).getByRole("button", { name: "Approve remote" }).click();
await page.getByRole("status").getByText("Stored: remote").waitFor();
await page.getByLabel("Reason").fill("not today");
await page.getByRole("button", { name: "Deny" }).click();
await page.getByRole("status").getByText("Answered").waitFor();
await checkQuiet(page, "a decision");

// Containment.
await visit("Containment");
await page.getByRole("button", { name: "Run the self-test" }).click();
await page.locator("a[href='/dashboard/containment?run=2']").waitFor();
assert.equal(await page.locator("svg circle.dot").count(), 3);
await checkQuiet(page, "containment");

// Health.
await visit("Health");
await page.getByRole("img", { name: /Calls by outcome: ok/ }).waitFor();

// A page of another origin sends a form with the visitor's own cookie: nothing is done.
const evil = createServer((request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<form method=post action="${url}/dashboard/containment/run"><button>Win</button></form>`);
}).listen(0, "127.0.0.1");
await new Promise((resolve) => evil.once("listening", resolve));
const foreign = await (await browser.newContext()).newPage();
await foreign.context().addCookies(await context.cookies());
await foreign.goto(`http://127.0.0.1:${evil.address().port}/`);
const [refused] = await Promise.all([foreign.waitForResponse((it) => it.url().startsWith(url)), foreign.click("button")]);
assert.equal(refused.status(), 403);
evil.close();

// Without scripts everything is read.
const plain = await openContext({ javaScriptEnabled: false });
await plain.addCookies(await context.cookies());
const reader = await plain.newPage();
const callPage = await page.goto(`${url}/dashboard/calls`).then(() => page.locator("tbody a").first().getAttribute("href"));
const READ = ["tools", "tools/test__echo", "live", "calls", "approvals", "containment", "health", "sessions/one"];
const pages = [...READ.map((name) => `/dashboard/${name}`), callPage];
for (const name of pages) {
    const response = await reader.goto(`${url}${name}`);
    assert.equal(response.status(), 200, name);
    assert.ok(await reader.locator("main h1").count(), name);
}
assert.deepEqual(complaints, []);

// Every page in light and dark, wide and narrow: nothing scrolls sideways, no button of a table is broken into lines, and the rules
// of WCAG 2 at the levels A and AA hold, those on contrast among them. Without a page between, such as the login, the checker would have nothing to look at.
const faults = [];
for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 380]) {
        const looks = await openContext({ colorScheme, viewport: { width, height: 800 } });
        const viewer = await looks.newPage();
        const look = async (name) => {
            const what = `${name} in ${colorScheme}, ${width} wide`;
            await viewer.goto(`${url}${name}`);
            const { scroll, client, broken, wide } = await viewer.evaluate(() => {
                const { scrollWidth: scroll, clientWidth: client } = document.documentElement;
                const isBroken = (button) => button.clientHeight > 1.5 * parseFloat(getComputedStyle(button).lineHeight);
                const broken = [...document.querySelectorAll("td button")].filter(isBroken).map((button) => button.innerText);
                // On a phone the rows of tables are cards, so that no column is out of sight or a letter wide.
                const tables = client > 640 ? [] : [...document.querySelectorAll(".scroll > table")];
                const isNarrow = (cell) => cell.innerText.trim() !== "" && cell.clientWidth < 200;
                const isWide = (table) => table.scrollWidth > table.parentElement.clientWidth || [...table.tBodies[0].querySelectorAll("th, td")].some(isNarrow);
                const wide = tables.filter(isWide).map((table) => table.parentElement.ariaLabel);
                return { scroll, client, broken, wide };
            });
            if (scroll > client) faults.push(`${what}: it scrolls sideways, ${scroll} in ${client}`);
            if (wide.length) faults.push(`${what}: tables that do not fit: ${JSON.stringify(wide)}`);
            if (broken.length) faults.push(`${what}: buttons of two lines: ${JSON.stringify(broken)}`);
            await viewer.evaluate(CHECKER);
            const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];
            const { violations, passes } = await viewer.evaluate((tags) => window.axe.run(document, { runOnly: tags }), tags);
            faults.push(...violations.map(({ id, nodes }) => `${what}: ${id}: ${nodes.map((node) => node.html).join(" ")}`));
            if (!passes.some(({ id }) => id === "color-contrast")) faults.push(`${what}: no contrast was checked`);
        };
        await look("/dashboard/login");
        await looks.addCookies(await context.cookies());
        for (const name of pages) await look(name);
        await looks.close();
    }
}
assert.deepEqual(faults, []);
assert.deepEqual(complaints, []);

// The end of the session is that of all tabs.
await page.getByRole("button", { name: "Log out" }).click();
await page.getByRole("heading", { name: "Log in" }).waitFor();
await second.goto(`${url}/dashboard/live`);
await second.getByRole("heading", { name: "Log in" }).waitFor();

await browser.close();
console.log("all pages");
