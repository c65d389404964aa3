//! Whether threads still compute after the work that they were started for is over.
//!
//! A thread is told by its name, which threads inherit that have none of their own, and is at rest once
//! it was seen waiting. One that computes is never seen so, however long the machine lets it wait for a
//! processor: the patience here only bounds how long a failure takes.

use std::fs;
use std::time::{Duration, Instant};

/// The kernel keeps so many bytes of a thread's name.
const NAME_BYTES: usize = 15;

/// Runs `work` on a thread named `name`, then waits until every thread that has this name, because it was
/// started from there, and every thread of the plugin host was seen waiting or has ended.
///
/// # Errors
/// The names of those that were not within `patience`.
pub fn at_rest_after(name: &str, patience: Duration, work: impl FnOnce() + Send) -> Result<(), Vec<String>> {
    let name = &name[..name.len().min(NAME_BYTES)];
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).unwrap();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let concerned = |thread: &Thread| thread.name == name || thread.name.starts_with("whet-plugin");
    let mut computing: Vec<Thread> = threads().into_iter().filter(concerned).collect();
    let end = Instant::now() + patience;
    loop {
        let now = threads();
        computing.retain(|thread| now.iter().any(|t| t.id == thread.id && t.computes));
        if computing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(computing.into_iter().map(|thread| thread.name).collect());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

struct Thread {
    id: String,
    name: String,
    computes: bool,
}

/// The threads of this process, those that end meanwhile left out.
fn threads() -> Vec<Thread> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let read = |task: fs::DirEntry| {
        // `id (name) state …`
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (id, rest) = stat.split_once(" (")?;
        let (name, state) = rest.rsplit_once(") ")?;
        Some(Thread { id: id.to_owned(), name: name.to_owned(), computes: state.starts_with('R') })
    };
    tasks.filter_map(|task| read(task.ok()?)).collect()
}

#[test]
fn a_thread_that_goes_on_computing_is_found_and_one_that_waits_is_not() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static STOP: AtomicBool = AtomicBool::new(false);
    let spin = || {
        drop(std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }))
    };
    let found = at_rest_after("left-computing", Duration::from_millis(300), spin);
    STOP.store(true, Ordering::Relaxed);
    assert!(found.unwrap_err().contains(&"left-computing".to_owned()));
    let wait = || drop(std::thread::spawn(|| std::thread::sleep(Duration::from_secs(5))));
    assert_eq!(at_rest_after("left-waiting", Duration::from_secs(60), wait), Ok(()));
}
