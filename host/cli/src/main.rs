//! The program `fumehood`: all of it is in the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    fumehood_cli::main()
}
