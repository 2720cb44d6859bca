//! Access to files: a tool sees only the folders that it was granted, and adds no more to them than its quota.

mod granted;
mod links;
mod paths;
mod place;
mod protected;
mod quotas;
mod race;
mod reading;
mod refused;
mod special;
mod without_kernel_resolver;

#[test]
fn everything_holds_when_the_library_resolves_paths() {
    let skipped = ["--skip", "tidy::", "--skip", "everything_holds_when_the_library_resolves_paths"];
    let arguments = [["files::", "corpus::"].as_slice(), skipped.as_slice()].concat();
    without_kernel_resolver::run_again(&arguments, 29);
}
