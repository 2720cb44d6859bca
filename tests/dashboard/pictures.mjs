// pictures.mjs LOGIN FOLDER
//
// For `release/pictures`: visits the pages of the dashboard that $PICTURES lists, takes pictures of them into FOLDER if they are wanted,
// and prints what each shows, as JSON.
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.env.FUMEHOOD_BROWSER_MODULES, "x.js"));
const { chromium } = require("playwright-core");
const [login, folder] = process.argv.slice(2);
const { take, pictures } = JSON.parse(process.env.PICTURES);
const base = new URL("/dashboard/", login);
// A busy machine takes its time.
const PATIENCE_MS = 300_000;

const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium", args: ["--headless", "--no-sandbox", "--disable-gpu"], timeout: PATIENCE_MS,
});
const entered = await browser.newContext();
const first = await entered.newPage();
await first.goto(login);
const cookies = await entered.cookies();

// The self-test, which runs beside the other pages.
if (pictures.some(({ path: place }) => place.startsWith("containment"))) {
    await first.goto(`${new URL("containment", base)}`);
    await first.getByRole("button", { name: "Run the self-test" }).click();
}

const shown = {};
for (const { name, path: place, width, height, scheme = "light", fill = {}, rows = 0 } of pictures) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    context.setDefaultTimeout(PATIENCE_MS);
    await context.addCookies(cookies);
    const page = await context.newPage();
    if (place.startsWith("containment")) {
        await first.locator(`a[href='/dashboard/${place}']`).waitFor({ timeout: PATIENCE_MS });
    }
    await page.goto(`${new URL(place, base)}`);
    for (const [label, value] of Object.entries(fill)) await page.locator("main").getByLabel(new RegExp(`^${label}\\b`)).fill(value);
    if (Object.keys(fill).length) {
        await page.getByRole("button", { name: /^Call / }).click();
        await page.locator("figure pre").first().waitFor();
        await page.evaluate(() => window.scrollTo(0, 0));
    }
    for (let row = 0; row < rows; row++) await page.locator("tr[data-call]").nth(row).getByText(/^\d+ of \d+$/).waitFor();
    const text = await page.locator("main").innerText();
    shown[name] = text.split("\n").map((line) => line.trim()).filter(Boolean);
    if (take) await page.screenshot({ path: path.join(folder, `${name}.png`) });
    await context.close();
}
await browser.close();
console.log(JSON.stringify(shown));
