//! `fumehood bench`: calls over a cell beside the same calls in one process, and bare requests over its NATS server.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::cell::{BareRequests, CellTools, Load, LoadReport};
use fumehood::{Call, Host, ToolProvider as _};
use serde::Serialize;
use tokio::process::{Child, Command};

use crate::app::App;
use crate::args::{Arguments, Bench, BenchCell};
use crate::cell::{self, Role};
use crate::commands::worker;
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::plot::{self, Bar, Panel};
use crate::render;

/// Default time of a round.
const DEFAULT_TIME: Duration = Duration::from_secs(3);
/// Time until the first bare request has to be answered.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Maximum number of callers.
const MAX_CALLERS: usize = 4096;

/// A round: so many callers of the cell, and as many of the tool in this process and of bare requests.
#[derive(Debug, Serialize)]
struct Round {
    callers: usize,
    cell: Figures,
    local: Figures,
    bare: Figures,
}

/// Sizes of a call over the wire, in bytes.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    request: usize,
    reply: usize,
}

/// The figures of a measurement.
#[derive(Debug, Serialize)]
struct Figures {
    calls: usize,
    failed: usize,
    calls_per_second: f64,
    p50_us: u128,
    p99_us: u128,
}

impl Figures {
    fn of(report: &LoadReport) -> Self {
        Self {
            calls: report.calls,
            failed: report.failed,
            calls_per_second: report.rate(),
            p50_us: report.quantile(500).as_micros(),
            p99_us: report.quantile(990).as_micros(),
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, bench: &Bench) -> Result<Exit> {
    let app = App::open(arguments)?;
    match bench {
        Bench::CellAnswers { name } => {
            let requests = BareRequests::connect(cell::node_options(&app.config, Role::Gateway)?, name).await?;
            requests.answer().await?;
            Ok(Exit::Ok)
        }
        Bench::Cell(options) => measure(&app, options).await,
    }
}

async fn measure(app: &App<'_>, options: &BenchCell) -> Result<Exit> {
    let config = &app.config;
    if options.callers.iter().any(|callers| *callers == 0 || *callers > MAX_CALLERS) {
        return Err(UsageError(format!("expected 1 to {MAX_CALLERS} callers")).into());
    }
    let (host, _components) = worker::load(app, &[], worker::default_places()).await?;
    let tools = cell::join(config, &host, None).await?;
    let text = options.arguments.as_deref().unwrap_or("{}");
    let first = tools.dispatch(Call::new(&options.tool, text)).await;
    if let Some(error) = first.error() {
        return Err(
            UsageError(format!("cannot measure calls of `{}`, because they fail: {error}", options.tool)).into()
        );
    }
    let sizes = Sizes { request: text.len(), reply: serde_json::to_vec(&first)?.len() };
    let workers = tools.workers();
    let (bare, _answering) = begin_answers(config, workers, sizes).await?;
    let subject = Subject { tools: &tools, host: &host, bare: &bare, tool: &options.tool, text, sizes };
    let mut rounds = Vec::new();
    for callers in options.callers.iter().copied() {
        let load = Load { callers, time: options.time.unwrap_or(DEFAULT_TIME) };
        rounds.push(subject.measure(load).await);
    }
    drop(tools);
    host.shutdown(Duration::ZERO).await;
    if let Some(file) = &options.plot {
        plot::write(file, "Calls over a cell and in one process, and plain requests", &panels(&rounds))?;
    }
    print(app.arguments, &rounds, workers, sizes)?;
    let (of_cell, of_local) = rounds.iter().fold((0_usize, 0_usize), |(cell, local), round| {
        (cell.saturating_add(round.cell.failed), local.saturating_add(round.local.failed))
    });
    if of_cell > 0 {
        render::warning(&format!(
            "{of_cell} calls over the cell failed and are not counted; a full cell answers `unavailable`"
        ));
    }
    if of_local > 0 {
        render::warning(&format!("{of_local} calls in this process failed and are not counted"));
    }
    Ok(Exit::Ok)
}

/// The three ways of one call.
struct Subject<'a> {
    tools: &'a CellTools,
    host: &'a Host,
    bare: &'a BareRequests,
    tool: &'a str,
    /// The arguments, as JSON.
    text: &'a str,
    sizes: Sizes,
}

impl Subject<'_> {
    /// Measures the three, one after the other.
    async fn measure(&self, load: Load) -> Round {
        let Self { tools, host, bare, tool, text, sizes: Sizes { request, reply } } = *self;
        let cell = load.run(async || tools.dispatch(Call::new(tool, text)).await.is_ok()).await;
        let local = load.run(async || host.call(Call::new(tool, text)).await.is_ok()).await;
        let bare = load.run(async || bare.request(request, reply).await).await;
        let [cell, local, bare] = [cell, local, bare].map(|report| Figures::of(&report));
        Round { callers: load.callers, cell, local, bare }
    }
}

/// Starts as many processes that answer bare requests as there are workers, and waits until they do. They end with the last
/// value that is returned.
async fn begin_answers(config: &Config, count: usize, sizes: Sizes) -> Result<(BareRequests, Vec<Child>)> {
    let name = format!("b{:016x}", std::process::id());
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut children = Vec::new();
    for _ in 0..count.max(1) {
        let mut command = Command::new(&program);
        command.arg("--config").arg(&config.origin).args(["bench", "cell-answers", &name]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        children.push(command.spawn().context("cannot start the processes that answer plain requests")?);
    }
    let bare = BareRequests::connect(cell::node_options(config, Role::Gateway)?, &name).await?;
    let until = tokio::time::Instant::now() + ANSWER_TIME;
    // Until all of them answer, so that the first round has as many as the last.
    let mut answered = 0;
    while answered < count.saturating_mul(50) {
        if bare.request(sizes.request, sizes.reply).await {
            answered += 1;
        } else if tokio::time::Instant::now() > until {
            return Err(anyhow::anyhow!(
                "plain requests are not answered; check that this user may publish below `PREFIX.bench`"
            ));
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok((bare, children))
}

fn print(arguments: &Arguments, rounds: &[Round], workers: usize, sizes: Sizes) -> Result<()> {
    let Sizes { request, reply } = sizes;
    if arguments.json {
        return render::json(&serde_json::json!({
            "workers": workers, "request_bytes": request, "reply_bytes": reply, "rounds": rounds,
        }));
    }
    let headings = [
        "callers",
        "calls/s",
        "p50",
        "p99",
        "local/s",
        "local p50",
        "bare/s",
        "bare p50",
        "bare p99",
        "of bare",
        "p50 of bare",
    ];
    let mut table = render::table::new(&headings, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for Round { callers, cell, local, bare } in rounds {
        table.add_row([
            callers.to_string(),
            format!("{:.0}", cell.calls_per_second),
            format!("{} µs", cell.p50_us),
            format!("{} µs", cell.p99_us),
            format!("{:.0}", local.calls_per_second),
            format!("{} µs", local.p50_us),
            format!("{:.0}", bare.calls_per_second),
            format!("{} µs", bare.p50_us),
            format!("{} µs", bare.p99_us),
            format!("{:.0} %", ratio(cell.calls_per_second, bare.calls_per_second) * 100.0),
            format!("{:.1}×", ratio(micros(cell.p50_us), micros(bare.p50_us))),
        ]);
    }
    render::table::print(table, 0, &[])?;
    render::hint(&format!(
        "{workers} workers; requests of {request} bytes, replies of {reply} bytes; local: the same tool in this \
         process; plain: requests without a tool"
    ));
    Ok(())
}

fn ratio(value: f64, of: f64) -> f64 {
    if of > 0.0 { value / of } else { 0.0 }
}

fn micros(value: u128) -> f64 {
    u32::try_from(value).map_or(f64::INFINITY, f64::from)
}

fn panels(rounds: &[Round]) -> Vec<Panel> {
    vec![
        panel(rounds, "Throughput", "calls per second", |it| it.calls_per_second),
        panel(rounds, "Latency, p50", "microseconds", |it| micros(it.p50_us)),
        panel(rounds, "Latency, p99", "microseconds", |it| micros(it.p99_us)),
    ]
}

/// Creates the panel of one figure, with three bars for each round.
fn panel(rounds: &[Round], title: &str, axis: &str, figure: fn(&Figures) -> f64) -> Panel {
    let mut bars = Vec::new();
    for Round { callers, cell, local, bare } in rounds {
        // The colours only tell calls from bare requests.
        for (name, figures, is_good) in [("cell", cell, true), ("one process", local, true), ("bare NATS", bare, false)]
        {
            bars.push(Bar { name: format!("{name}, {callers} callers"), value: figure(figures), is_good });
        }
    }
    Panel { title: title.to_owned(), axis: axis.to_owned(), digits: 0, bars }
}
