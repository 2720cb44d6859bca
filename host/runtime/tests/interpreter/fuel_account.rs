//! Fuel that is taken from an account while a program runs.

use super::*;

/// An account with this much fuel, and the number of times that some was taken.
#[derive(Debug, Default)]
struct Account {
    fuel: u64,
    taken: AtomicU64,
    times: AtomicU64,
}

impl FuelAccount for Account {
    fn spend(&self, used: u64) -> bool {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.taken.fetch_add(used, Ordering::SeqCst) + used < self.fuel
    }
}

async fn run_charged(code: &str, fuel: u64) -> (ProgramExecution, Arc<Account>) {
    let account = Arc::new(Account { fuel, ..Account::default() });
    let charged = Program { account: Some(account.clone()), ..program(code) };
    (run(charged).await, account)
}

#[tokio::test]
async fn fuel_is_taken_from_the_account_while_a_program_runs() {
    let (ended, account) = run_charged("while (true);", 100_000_000).await;
    let Err(ProgramError::Failed(error)) = ended.outcome else { panic!("it should be stopped: {ended:?}") };
    assert_eq!(error.kind, ErrorKind::Fuel, "{error:?}");
    assert!(error.message.contains("the remaining fuel"), "{error:?}");
    let taken = account.taken.load(Ordering::SeqCst);
    assert_eq!(taken, ended.metadata.fuel_used);
    // The limit of the program itself is ten times as much.
    assert!((100_000_000..Limits::default().fuel).contains(&taken), "{taken}");
    assert!(account.times.load(Ordering::SeqCst) > 2, "{account:?}");
}

#[tokio::test]
async fn a_short_program_is_charged_once() {
    let (ended, account) = run_charged("return 1", 1).await;
    assert_eq!(value(&ended), "1");
    assert_eq!(account.taken.load(Ordering::SeqCst), ended.metadata.fuel_used);
}
