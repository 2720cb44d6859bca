//! `fumehood test`: calls the component of a project as its cases say.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use fumehood::agent::suggest;
use fumehood::limits::{display_bytes, display_count};
use fumehood::sanitize::printable;
use fumehood::settings::{LimitsSection, Wishes, read_value};
use fumehood::{Grant, HostBuilder, Limits};
use fumehood_author::Project;
use fumehood_author::cases::{
    Case, CaseFile, Comparison, Environment, NewCase, Observation, Recording, Runner, SCHEMA, Verdict, append_case,
    update_cases,
};
use serde_json::Value;

use super::dev;
use crate::args::{self, Arguments};
use crate::config::{Powers, grant_of_powers, powers_of_table};
use crate::exit::{Exit, RefusedError, UsageError};
use crate::host;
use crate::render::{self, BAD, FAINT, GOOD, styled};
use crate::trust::{self, TrustedCases};

/// Maximum number of lines of a tool that are shown below a failed case.
const MAX_OUTPUT_LINES: usize = 40;

/// A component whose cases run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestSubject<'a> {
    pub(crate) project: &'a Project,
    pub(crate) component: &'a Path,
    /// The folder of the program, if the component is an interpreter for development.
    pub(crate) program: Option<&'a Path>,
    /// True if a call of the component costs as much as one of the component that users get.
    pub(crate) has_final_cost: bool,
    /// Parts of the names of the cases that run; all if there are none.
    pub(crate) names: &'a [String],
}

impl TestSubject<'_> {
    fn is_chosen(&self, case: &Case) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| case.name.contains(part.as_str()))
    }
}

/// One case that ran.
struct CaseRun<'a> {
    file: &'a CaseFile,
    case: &'a Case,
    observation: Observation,
    comparison: Comparison,
}

pub(crate) async fn run(arguments: &Arguments, test: &args::Test) -> Result<Exit> {
    if test.schema {
        render::lines(SCHEMA.trim_end())?;
        return Ok(Exit::Ok);
    }
    let project = Project::open(&test.project)?;
    if test.record.is_none() && test.powers != Powers::default() {
        let message =
            "powers are for a call that is recorded; write those of cases to their key `grant`, or add `--record TOOL`";
        return Err(UsageError(message.to_owned()).into());
    }
    if test.watch {
        return dev::run_cases_on_change(arguments, project, &test.names).await;
    }
    let component = match &test.component {
        Some(file) if file.is_file() => file.clone(),
        Some(file) => return Err(UsageError(format!("no such file {}", file.display())).into()),
        None => project.built_component()?,
    };
    let builder = || host::builder(arguments);
    match &test.record {
        Some(tool) => record(arguments, test, &project, &builder, &component, tool).await,
        None => run_cases(arguments, test, &project, &builder, &component).await,
    }
}

async fn run_cases(
    arguments: &Arguments,
    test: &args::Test,
    project: &Project,
    host: &dyn Fn() -> HostBuilder,
    component: &Path,
) -> Result<Exit> {
    let files = CaseFile::read_all(&project.cases())?;
    let subject = TestSubject { project, component, program: None, has_final_cost: true, names: &test.names };
    let mut chosen = all_cases(&files);
    chosen.retain(|(_, case)| subject.is_chosen(case));
    if chosen.is_empty() {
        return Err(no_cases(project, &files, &test.names).into());
    }
    let is_printed = !arguments.json && !test.update;
    let ran = run_chosen(arguments, &subject, host, &files, &chosen, is_printed).await?;
    if test.update {
        return update(arguments, project, &files, &ran);
    }
    let failed = count_failed(&ran);
    let passed = ran.len() - failed;
    if arguments.json {
        let cases: Vec<Value> = ran.iter().map(to_json).collect();
        render::json(&serde_json::json!({"passed": passed, "failed": failed, "cases": cases}))?;
    } else {
        render::lines(&format!("\n{passed} passed, {failed} failed"))?;
    }
    Ok(if failed == 0 { Exit::Ok } else { Exit::ToolFailed })
}

/// Returns the error of a run without a case.
fn no_cases(project: &Project, files: &[CaseFile], names: &[String]) -> UsageError {
    let place = project.cases();
    let place = place.display();
    let count = all_cases(files).len();
    if count > 0 {
        let names = names.join("` or `");
        let message =
            format!("none of the {count} cases in {place}/*.toml has `{names}` in its name; leave it out to run all");
        return UsageError(message);
    }
    UsageError(format!(
        "no matching cases in {place}/*.toml; record one with `fumehood test --record TOOL --arguments JSON`"
    ))
}

/// Runs all cases of a project, prints each, and says how many passed and failed. A project without cases is fine.
///
/// # Errors
/// If a file of cases is not valid, or reaches beyond the project and is not trusted, or the component cannot be loaded.
pub(crate) async fn run_all(arguments: &Arguments, subject: &TestSubject<'_>) -> Result<()> {
    let mut files = CaseFile::read_all(&subject.project.cases())?;
    if !subject.has_final_cost {
        files.iter_mut().flat_map(|file| &mut file.cases).filter_map(|case| case.expect.as_mut()).for_each(
            |expected| {
                expected.fuel = None;
                expected.memory = None;
            },
        );
    }
    let mut chosen = all_cases(&files);
    chosen.retain(|(_, case)| subject.is_chosen(case));
    if chosen.is_empty() {
        return Ok(());
    }
    let host = || host::builder(arguments);
    let ran = run_chosen(arguments, subject, &host, &files, &chosen, true).await?;
    let failed = count_failed(&ran);
    render::lines(&format!("{} passed, {failed} failed", ran.len() - failed))
}

fn all_cases(files: &[CaseFile]) -> Vec<(&CaseFile, &Case)> {
    files.iter().flat_map(|file| file.cases.iter().map(move |case| (file, case))).collect()
}

fn count_failed(ran: &[CaseRun<'_>]) -> usize {
    ran.iter().filter(|ran| ran.comparison.verdict != Verdict::Passed).count()
}

/// Runs cases in one sandbox, one after the other.
async fn run_chosen<'a>(
    arguments: &Arguments,
    subject: &TestSubject<'_>,
    host: &dyn Fn() -> HostBuilder,
    files: &[CaseFile],
    chosen: &[(&'a CaseFile, &'a Case)],
    is_printed: bool,
) -> Result<Vec<CaseRun<'a>>> {
    let TestSubject { project, component, program, .. } = *subject;
    let trusted = TrustedCases::check(arguments, &project.folder, chosen)?;
    let wishes = &project.settings.wants;
    let grant = |case: &Case, folder: &Path| trusted.grant(case, wishes, folder);
    let environment = Environment { host, grant: &grant, limits: limits_of(wishes), program };
    let runner = Runner::start(environment, component, files).await?;
    let mut ran = Vec::new();
    for (file, case) in chosen.iter().copied() {
        let observation = runner.run(case, &project.folder).await?;
        let comparison = Comparison::new(case, &observation);
        let done = CaseRun { file, case, observation, comparison };
        if is_printed {
            print(&done)?;
        }
        ran.push(done);
    }
    runner.close().await;
    Ok(ran)
}

/// Makes the grant of a recorded case, whose powers the user typed.
fn grant_of_table(table: &toml::Table, folder: &Path) -> Result<Grant, String> {
    grant_of_powers(&powers_of_table(table)?, folder, &|source| read_value(source, folder))
}

/// Returns the limits that the manifest of a tool asks for, over the defaults.
fn limits_of(wishes: &Wishes) -> Limits {
    let mut limits = LimitsSection::default();
    let limiting = wishes.iter().filter(|wish| wish.key() == "limits");
    limiting.for_each(|wish| wish.add_to(&mut Powers::default(), &mut limits, None));
    limits.over(Limits::default())
}

/// Writes the results into the files of the cases.
fn update(arguments: &Arguments, project: &Project, files: &[CaseFile], ran: &[CaseRun<'_>]) -> Result<Exit> {
    let mut changed = Vec::new();
    for file in files {
        let found = |case: &Case| {
            let same = |ran: &&CaseRun<'_>| std::ptr::eq(ran.file, file) && ran.case.name == case.name;
            ran.iter().find(same).filter(|ran| needs_update(ran)).map(|ran| &ran.observation)
        };
        let found: Vec<Option<&Observation>> = file.cases.iter().map(found).collect();
        let count = found.iter().flatten().count();
        if count > 0 {
            update_cases(&file.path, &found)?;
            trust::keep_trust(file, &project.folder)?;
            changed.push((file.path.display().to_string(), count));
        }
    }
    if arguments.json {
        let files: Vec<Value> =
            changed.iter().map(|(file, count)| serde_json::json!({"file": file, "cases": count})).collect();
        render::json(&serde_json::json!({"updated": files}))?;
    } else if changed.is_empty() {
        render::line("all cases are up to date")?;
    }
    for (file, count) in changed.iter().filter(|_| !arguments.json) {
        render::line(&format!("wrote {count} cases to {file}; review the difference"))?;
    }
    Ok(Exit::Ok)
}

/// Returns whether a case differs from what it gave, also where that does not fail it.
fn needs_update(ran: &CaseRun<'_>) -> bool {
    ran.comparison.verdict != Verdict::Passed || !ran.comparison.notes.is_empty()
}

/// Makes one call, and writes a case of it.
async fn record(
    arguments: &Arguments,
    test: &args::Test,
    project: &Project,
    host: &dyn Fn() -> HostBuilder,
    component: &Path,
    tool: &str,
) -> Result<Exit> {
    let typed: Value = serde_json::from_str(&test.arguments).map_err(|error| {
        UsageError(format!("--arguments is not JSON: {error}; expected an object, such as '{{\"n\": 1}}'"))
    })?;
    let name = test.name.clone().unwrap_or_else(|| format!("{tool} {typed}"));
    let into = test.into.clone().unwrap_or_else(|| project.cases().join(format!("{tool}.toml")));
    let powers = table_of_powers(&test.powers)?;
    let now = (!powers.is_empty()).then(SystemTime::now);
    let new = NewCase { name: &name, tool, arguments: &typed, grant: &powers, now };
    let file = new.to_file(&into)?;
    let case = file.cases.first().context("the recorded case is missing")?;
    let grant = |case: &Case, folder: &Path| grant_of_table(&case.grant, folder);
    let limits = limits_of(&project.settings.wants);
    let environment = Environment { host, grant: &grant, limits, program: None };
    let runner = if powers.is_empty() {
        Runner::start(environment, component, &[]).await?
    } else {
        Runner::start_recording(environment, component).await?
    };
    check_tool(&runner, component, tool).await?;
    let observation = runner.run(case, &project.folder).await?;
    let recording = runner.finish_recording();
    runner.close().await;
    check_recording(&recording, &grant_of_table(&powers, &project.folder).map_err(UsageError)?)?;
    append_case(&into, &new, &recording.exchanges, &observation)?;
    if !powers.is_empty() {
        play_recorded(environment, component, project, &into, &name).await?;
    }
    let shown = into.display();
    if arguments.json {
        let result = &observation.result;
        render::json(&serde_json::json!({"file": shown.to_string(), "name": name, "result": result}))?;
        return Ok(Exit::Ok);
    }
    render::line(&serde_json::to_string(&observation.result)?)?;
    let count = recording.exchanges.len();
    let answers = if count == 0 { String::new() } else { format!(" (recorded answers of servers: {count})") };
    render::line(&format!("wrote the case \"{name}\" to {shown}{answers}"))?;
    Ok(Exit::Ok)
}

/// Plays a case that was recorded, and warns if the result differs.
async fn play_recorded(
    environment: Environment<'_>,
    component: &Path,
    project: &Project,
    path: &Path,
    name: &str,
) -> Result<()> {
    let file = CaseFile::read(path)?;
    let case = file.cases.iter().find(|case| case.name == name).context("the recorded case is missing")?;
    let runner = Runner::start(environment, component, std::slice::from_ref(&file)).await?;
    let observation = runner.run(case, &project.folder).await?;
    runner.close().await;
    if Comparison::new(case, &observation).verdict != Verdict::Passed {
        render::warning(
            "the case gives another result when it is played; `fumehood test` shows the difference. The call may depend on \
             an address that was refused, or on something that no case sets",
        );
    }
    Ok(())
}

/// Returns the powers that are not those of a call without any.
fn table_of_powers(powers: &Powers) -> Result<toml::Table> {
    let table_of = |powers: &Powers| toml::Table::try_from(powers).context("cannot write the powers of the call");
    let mut table = table_of(powers)?;
    let none = table_of(&Powers::default())?;
    table.retain(|key, value| none.get(key) != Some(value));
    Ok(table)
}

/// Checks that a case can have the exchanges of its call.
fn check_recording(recording: &Recording, grant: &Grant) -> Result<(), RefusedError> {
    if !recording.failures.is_empty() {
        let failures = recording.failures.join("; ");
        return Err(RefusedError(format!("no case was written, because an exchange cannot be recorded: {failures}")));
    }
    for secret in grant.secrets() {
        if recording.exchanges.iter().any(|exchange| exchange.contains(secret.value().expose())) {
            let name = secret.name();
            let message = format!(
                "no case was written, because an address or an answer contains the secret `{name}`; write the case by \
                 hand, without it"
            );
            return Err(RefusedError(message));
        }
    }
    Ok(())
}

/// Refuses a name that no tool has: a case of it would pass, and test nothing.
async fn check_tool(runner: &Runner<'_>, component: &Path, tool: &str) -> Result<()> {
    let names = runner.tool_names().await?;
    if names.iter().any(|name| name == tool) {
        return Ok(());
    }
    let alternatives = suggest(tool, names.iter().map(String::as_str))
        .unwrap_or_else(|| format!("its tools are: {}", names.join(", ")));
    let component = component.display();
    Err(RefusedError(format!("{component} has no tool `{tool}`, and no case was written; {alternatives}")).into())
}

fn print(ran: &CaseRun<'_>) -> Result<()> {
    let CaseRun { file, case, observation, comparison } = ran;
    let name = &case.name;
    let cost = format!("fuel {}, {}", display_count(observation.fuel), display_bytes(observation.memory));
    match comparison.verdict {
        Verdict::Passed => render::line(&format!("{} {name}  {}", styled(GOOD, "ok  "), styled(FAINT, &cost)))?,
        Verdict::Failed | Verdict::Unexpected => {
            render::line(&format!("{} {name}  {}", styled(BAD, "FAIL"), file.path.display()))?;
        }
    }
    for line in &comparison.differences {
        let shown = printable(line);
        render::line(&format!(
            "     {}",
            match line.chars().next() {
                Some('-') => styled(BAD, &shown),
                Some('+') => styled(GOOD, &shown),
                _ => shown.into_owned(),
            }
        ))?;
    }
    for note in &comparison.notes {
        render::line(&format!("     {}", styled(FAINT, &printable(note))))?;
    }
    if comparison.verdict == Verdict::Passed {
        return Ok(());
    }
    for line in observation.output.iter().take(MAX_OUTPUT_LINES) {
        render::line(&format!("     {}", styled(FAINT, &printable(line))))?;
    }
    let more = observation.output.len().saturating_sub(MAX_OUTPUT_LINES);
    if more > 0 {
        render::line(&format!("     {}", styled(FAINT, &format!("{more} more lines; `--json` has all of them"))))?;
    }
    Ok(())
}

fn to_json(ran: &CaseRun<'_>) -> Value {
    serde_json::json!({
        "file": ran.file.path.display().to_string(),
        "name": ran.case.name,
        "status": match ran.comparison.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Unexpected => "unexpected",
        },
        "differences": ran.comparison.differences,
        "notes": ran.comparison.notes,
        "fuel": ran.observation.fuel,
        "memory": ran.observation.memory,
        "result": ran.observation.result,
        "output": ran.observation.output,
    })
}
