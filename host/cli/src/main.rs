//! The program `fumehood`, which calls the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    fumehood_cli::main()
}
