//! The wish that waiting ends now.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pulled once, by whoever no longer wants the results; seen by everyone who waits. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<(Mutex<bool>, Condvar)>);

impl Cancel {
    /// Ends all waiting, now and later.
    pub fn pull(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Whether somebody pulled.
    pub fn is_pulled(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for `time`, or until somebody pulls. Returns whether somebody did.
    pub fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now().checked_add(time);
        let mut pulled = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*pulled {
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                break;
            }
            pulled = self.0.1.wait_timeout(pulled, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *pulled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_when_somebody_pulls() {
        let cancel = Cancel::default();
        let sleeper = std::thread::spawn({
            let cancel = cancel.clone();
            move || cancel.sleep(Duration::MAX)
        });
        cancel.pull();
        assert!(sleeper.join().unwrap_or(false));
        assert!(cancel.sleep(Duration::MAX));
    }

    #[test]
    fn a_sleep_ends_by_itself_too() {
        assert!(!Cancel::default().sleep(Duration::from_millis(1)));
    }
}
