//! What must be in the environment before the process starts.

use std::convert::Infallible;

/// How idle threads of libgomp wait.
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// Starts the program again with idle threads that sleep instead of spinning, unless the
/// environment already says how they wait.
///
/// libgomp reads the variable when it is loaded, before `main`, so setting it inside the process is
/// too late. On a busy machine spinning made a decode step four times slower. Call it first thing in
/// `main`: the process keeps its id, arguments, and open files; nothing before the call is undone.
///
/// # Errors
/// When the program cannot be started again; it may go on, only slower.
pub fn wait_passively() -> std::io::Result<()> {
    if std::env::var_os(WAIT_POLICY).is_some() {
        return Ok(());
    }
    match restart() {
        Ok(never) => match never {},
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn restart() -> std::io::Result<Infallible> {
    use std::os::unix::process::CommandExt;
    let mut arguments = std::env::args_os();
    let mut command = std::process::Command::new(std::env::current_exe()?);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    Err(command.args(arguments).env(WAIT_POLICY, "PASSIVE").exec())
}

#[cfg(not(unix))]
fn restart() -> std::io::Result<Infallible> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_program_starts_again_with_its_arguments_and_idle_threads_that_sleep() {
        if std::env::var_os("WHET_TEST_WAITING").is_some() {
            wait_passively().unwrap();
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            println!("said: {} {}", std::env::var(WAIT_POLICY).unwrap(), arguments.join(" "));
            return;
        }
        let this = std::thread::current().name().unwrap().to_owned();
        for (before, after) in [(None, "PASSIVE"), (Some("ACTIVE"), "ACTIVE")] {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", &this, "--nocapture"]).env("WHET_TEST_WAITING", "1");
            command.env_remove(WAIT_POLICY).envs(before.map(|value| (WAIT_POLICY, value)));
            let output = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
            assert!(output.contains(&format!("said: {after} --exact {this} --nocapture")), "{output}");
        }
    }
}
