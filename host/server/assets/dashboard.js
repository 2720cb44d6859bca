// Improves pages that work without it: running calls are brought up to date in place, and sent forms say so.

const live = document.querySelector("[data-live]");
const state = document.querySelector("[data-live-state]");

if (live && state) {
    const source = new EventSource(live.dataset.live);
    source.addEventListener("calls", (event) => {
        state.textContent = "";
        update(event.data);
    });
    source.addEventListener("error", () => {
        state.textContent = "Connection lost. Reconnecting.";
    });
}

// Replaces what has changed only, so that a focused button stays where it is.
function update(html) {
    const next = new DOMParser().parseFromString(html, "text/html");
    for (const part of next.querySelectorAll("[data-part]")) {
        const old = live.querySelector(`[data-part="${part.dataset.part}"]`);
        if (old.innerHTML !== part.innerHTML) {
            old.replaceWith(document.adoptNode(part));
        }
    }
    const body = live.querySelector("[data-rows]");
    const rows = new Map([...body.rows].map((row) => [row.dataset.call, row]));
    const wanted = [...next.querySelectorAll("tr[data-call]")];
    for (const row of wanted) {
        const old = rows.get(row.dataset.call);
        rows.delete(row.dataset.call);
        if (!old) {
            body.append(document.adoptNode(row));
            continue;
        }
        [...row.cells].forEach((cell, at) => {
            const isSame = old.cells[at].innerHTML === cell.innerHTML;
            const isKept = "keep" in cell.dataset && !cell.querySelector("form") === !old.cells[at].querySelector("form");
            if (!isSame && !isKept) {
                old.cells[at].replaceWith(document.adoptNode(cell));
            }
        });
    }
    rows.forEach((row) => row.remove());
}

for (const form of document.querySelectorAll("form[data-busy]")) {
    form.addEventListener("submit", () => {
        form.querySelectorAll("button").forEach((button) => button.setAttribute("aria-busy", "true"));
    });
}
window.addEventListener("pageshow", () => {
    document.querySelectorAll("button[aria-busy]").forEach((button) => button.removeAttribute("aria-busy"));
});
